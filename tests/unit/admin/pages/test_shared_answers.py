"""Calls that many pages make every few seconds reach the API once a second."""

from __future__ import annotations

import asyncio

import pytest

from admin.pages.api_error import ApiError
from admin.pages.shared_answers import GOOD_FOR, SharedAnswers


class World:
    """An API that counts how often it is asked."""

    def __init__(self) -> None:
        self.time = 0.0
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.trouble: ApiError | None = None
        self.answers = SharedAnswers(lambda: self.time)

    async def ask(self) -> int:
        self.asked += 1
        await self.gate.wait()
        if self.trouble is not None:
            raise self.trouble
        return self.asked

    async def get(self, question: str = "overview") -> int:
        return await self.answers.get(question, self.ask)


async def test_all_who_ask_at_once_share_one_answer_for_a_second() -> None:
    world = World()
    world.gate.clear()
    asking = [asyncio.create_task(world.get()) for _ in range(100)]
    await asyncio.sleep(0)
    world.gate.set()
    assert await asyncio.gather(*asking) == [1] * 100
    world.time = GOOD_FOR - 0.01
    assert await world.get() == 1
    world.time = GOOD_FOR
    assert await world.get() == 2
    assert await world.get("another") == 3


@pytest.mark.parametrize(("status", "asked"), [(503, 1), (500, 1), (401, 5), (403, 5)])
async def test_that_the_api_cannot_answer_is_shared_and_that_it_refuses_somebody_is_not(
    status: int, asked: int
) -> None:
    world = World()
    world.trouble = ApiError(status, "no")
    for _ in range(5):
        with pytest.raises(ApiError):
            await world.get()
    assert world.asked == asked
    world.trouble, world.time = None, GOOD_FOR
    assert await world.get() == asked + 1


async def test_who_leaves_while_waiting_holds_up_nobody() -> None:
    world = World()
    world.gate.clear()
    leaving, staying = asyncio.create_task(world.get()), asyncio.create_task(world.get())
    await asyncio.sleep(0)
    leaving.cancel()
    world.gate.set()
    assert await staying == 2


async def test_only_so_many_answers_are_kept() -> None:
    world = World()
    for number in range(1_000):
        await world.get(f"q{number}")
    assert len(world.answers._kept) <= 64
