"""Publishing is measured in turns: both sides alike, in batches, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bench import publishing
from bench.bare_clients import Publish
from bus.domain.message import encode_message
from bus.ports.transport import OutgoingMessage
from bus.testing.writes import message

MESSAGES = [OutgoingMessage(one, encode_message(one)) for one in map(message, range(6))]


class Published:
    """What was published, as (side, size of the batch)."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int]] = []

    def side(self, name: str) -> Publish:
        async def publish(batch: Sequence[OutgoingMessage]) -> None:
            self.batches.append((name, len(batch)))

        return publish


async def test_sides_take_turns_and_every_other_turn_is_in_the_opposite_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "TURN", 2)
    published = Published()
    sides = {name: published.side(name) for name in ("transport", "bare")}
    rates = await publishing.rates(sides, MESSAGES, 1, windows=2)
    warm_up, turns = ["transport"] * 6 + ["bare"] * 6, ["transport", "bare", "bare", "transport"] * 3
    assert published.batches == [(name, 1) for name in [*warm_up, *(name for name in turns for _ in range(2))]]
    assert {name: len(found) for name, found in rates.items()} == {"transport": 2, "bare": 2}
    assert all(rate > 0 for found in rates.values() for rate in found)


async def test_what_is_published_at_once_is_a_batch() -> None:
    published = Published()
    assert await publishing.seconds(published.side("transport"), MESSAGES, 4) > 0
    assert published.batches == [("transport", 4), ("transport", 2)]


async def test_a_turn_that_hangs_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_: Sequence[OutgoingMessage]) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(publishing, "TURN_WITHIN", 0.05)
    with pytest.raises(TimeoutError):
        await publishing.seconds(hang, MESSAGES, 3)
