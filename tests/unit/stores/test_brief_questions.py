"""A store that hangs is asked briefly, and then not for a while; one that fails at once is asked again."""

from __future__ import annotations

import asyncio

import pytest

from bus.errors import StoreUnavailable
from bus.stores.brief_questions import BriefQuestions
from bus.testing.clock import ManualClock


async def test_a_store_that_hangs_is_not_asked_for_a_while_and_then_by_one_call_first() -> None:
    clock = ManualClock()
    questions = BriefQuestions(clock)
    hanging = asyncio.create_task(questions.answer([asyncio.Event().wait()]))
    await clock.settle()
    assert questions.may_ask
    await clock.advance(1.0)
    with pytest.raises(StoreUnavailable, match="in time"):
        await hanging
    assert not questions.may_ask
    await clock.advance(5.0)
    assert questions.may_ask
    event = asyncio.Event()
    again = asyncio.create_task(questions.answer([event.wait(), event.wait()]))
    await clock.settle()
    assert not questions.may_ask
    event.set()
    assert await again == [True, True]
    assert questions.may_ask


async def test_a_store_that_fails_at_once_is_asked_again() -> None:
    async def fails() -> None:
        raise StoreUnavailable("down")

    questions = BriefQuestions(ManualClock())
    with pytest.raises(StoreUnavailable, match="down"):
        await questions.answer([fails()])
    assert questions.may_ask
