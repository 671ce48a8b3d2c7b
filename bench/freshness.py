"""The age of an event when the one-minute rollup that counts it can be read, under steady load.

The age of every event is taken from the lake: when the rollups of its batch were published, minus the event's own time.
Beside it is the figure that the stream keeps of itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from bench.report import Row
from bench.run import FULL, QUICK, Run
from bench.sending import Sending, wait_arrived
from bench.systems import Pier
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS
from tests.harness.freshness import Aged, aged_batches, share_of
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until

SECTION = "freshness"
RATE = 500
SECONDS = {QUICK: 15.0, FULL: 120.0}
NORMAL_SECONDS = 60.0
WARM_UP_SECONDS = 60.0  # of the same load, until Java has compiled what every batch does
STAGES = 3  # accepted, published, settled: what a message tells of itself here
EVERY = 2.0
WITHIN = 180.0


def measure(run: Run) -> list[Row]:
    """Return the rows of a minute or so."""
    return rows_of(run, RATE, SECONDS.get(run.size, NORMAL_SECONDS))


def rows_of(run: Run, rate: int, seconds: float) -> list[Row]:
    """Return p50 and p95 at so many messages a second for so long; raises when events are missing or too many."""
    run.step(f"rollups of {rate} messages/s as they come")
    warm, count = round(rate * WARM_UP_SECONDS), round(rate * seconds)
    with run.place() as folder, run.sink() as sink, run.system("bus", [sink.url("/s")]) as system:
        assert isinstance(system, Pier)
        lake = folder / "lake"
        events = system.bus.data / "events"
        Sending(system.publish_url, 1).result()
        wait_until(events.is_dir, within=WITHIN, what="the first trace events are written")
        with _stream(events, lake, folder) as stream:
            Sending(system.publish_url, warm, rate=rate).result()
            _wait(stream, lake, (1 + warm) * STAGES)
            cold = len(aged_batches(lake))
            Sending(system.publish_url, count, rate=rate).result()
            wait_arrived(sink, ["/s"], 1 + warm + count)
            _wait(stream, lake, (1 + warm + count) * STAGES)
            stream.stop()
        return _rows(aged_batches(lake, since=cold), f"{rate} messages/s for {seconds:g} s")


def _stream(events: Path, lake: Path, folder: Path) -> Child:
    options = ("--events", events, "--lake", lake, "--every", EVERY, "--memory", "1g")
    return Child(module("pipeline", "rollup", *options), log=folder / "stream.log")


def _wait(stream: Child, root: Path, events: int) -> None:
    """Return once the lake has rolled up so many events, no more and no less."""
    lake = Lake(Storage(str(root)))

    def rolled_up() -> int:
        stream.check_running()
        done = {each.name for each in lake.manifests(ROLLUP_LINE)}
        return sum(each.rows(EVENTS.name) for each in lake.manifests(READ_LINE) if each.name in done)

    wait_until(lambda: rolled_up() >= events, within=WITHIN, what=f"{events} events", every=0.5, state=rolled_up)
    if rolled_up() != events:
        raise ValueError(f"{rolled_up()} events are in the lake, not {events}")


def _rows(batches: Sequence[Aged], load: str) -> list[Row]:
    ages = [age for each in batches for age in each.ages]
    rows = []
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        figure = f"{name} of {len(ages):,} events in {len(batches)} batches"
        kept = [_kept(batches, share)]
        rows.append(Row(SECTION, figure, [share_of(ages, share)], "s", "as the stream has it", kept, note=load))
    return rows


def _kept(batches: Sequence[Aged], share: float) -> float:
    """Return the age in seconds that this share did not exceed, by what the stream kept of each batch."""
    fresh = [each.batch.freshness for each in batches]
    known = [each for each in fresh if each is not None]
    rank = share * sum(each.events for each in known)
    longest = max(each.greatest for each in known)
    places = range(round(longest * 1000) + 1)
    return bisect_left(places, rank, key=lambda ms: sum(each.not_older(ms / 1000) for each in known)) / 1000
