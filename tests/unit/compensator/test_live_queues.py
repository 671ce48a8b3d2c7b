"""A sweeper's reports about queues of live producers, those that no receiver hears of included."""

from __future__ import annotations

import time
from pathlib import Path

from bus.client import Bus
from bus.client.spooling.home import homes, id_of
from bus.domain.times import MINUTE
from compensator.sweeper.live_queues import live_queues


def test_a_producer_that_reaches_nobody_is_seen(tmp_path: Path) -> None:
    with Bus("http://127.0.0.1:9", spool=tmp_path, source="shop", events=False) as bus:
        for number in range(3):
            bus.send("orders", {"order": number})
        (home,) = homes(tmp_path)
        now = _now()
        assert live_queues([tmp_path], now) == []
        (found,) = live_queues([tmp_path, tmp_path / "nothing"], now + 20 * MINUTE)
        assert (found.source, found.id, found.records, found.path) == ("shop", id_of(home), 3, str(home))
        assert 19 * MINUTE < found.oldest <= 21 * MINUTE
    # Whose process is gone is an orphan, of which the sweeper tells otherwise.
    assert live_queues([tmp_path], _now() + 20 * MINUTE) == []


def test_what_is_no_spool_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "shop-1-0a1b2c3d.sdk").mkdir()
    assert live_queues([tmp_path], _now()) == []


def _now() -> int:
    return time.time_ns() // 1_000_000
