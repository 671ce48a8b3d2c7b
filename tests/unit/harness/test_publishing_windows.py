"""Windows of publishing: both sides alike, in batches, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bench import publishing
from bench.bare_clients import Publish
from bus.domain.message import encode_message
from bus.ports.transport import Outgoing
from bus.testing.writes import message

MESSAGES = [Outgoing(one, encode_message(one)) for one in map(message, range(6))]


class Published:
    """What was published, as (side, size of the batch)."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int]] = []

    def side(self, name: str) -> Publish:
        async def publish(batch: Sequence[Outgoing]) -> None:
            self.batches.append((name, len(batch)))

        return publish


async def test_every_other_pair_of_windows_is_in_the_opposite_order() -> None:
    published = Published()
    sides = {name: published.side(name) for name in ("road", "bare")}
    rates = await publishing.alternate(sides, MESSAGES, 3, windows=2)
    order = ["road", "bare", "road", "bare", "bare", "road"]  # the first pair warms up
    assert published.batches == [(name, 3) for name in order for _ in range(2)]
    assert {name: len(found) for name, found in rates.items()} == {"road": 2, "bare": 2}
    assert all(rate > 0 for found in rates.values() for rate in found)


async def test_a_window_that_hangs_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_: Sequence[Outgoing]) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(publishing, "WINDOW_WITHIN", 0.05)
    with pytest.raises(TimeoutError):
        await publishing.rate(hang, MESSAGES, 3)
