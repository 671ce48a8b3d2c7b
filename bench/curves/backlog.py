"""Deliveries a second of messages that waited, over how many they were."""

from __future__ import annotations

from bench.curves.curve import LABELS, SYSTEMS, Curve, Line, in_turns, rows, up_to
from bench.deliveries import drain
from bench.report import Row
from bench.run import Run
from bench.systems import Nsq, Pier

POINTS = (1_000, 10_000, 100_000, 1_000_000)
LONG = 50_000
"""From here on a point is measured once: it is long enough to be its own median."""


def measure(run: Run) -> list[Row]:
    """Return a row for each backlog, and draw the curve."""

    def one(name: str, backlog: int) -> float:
        run.step(f"a backlog of {backlog:,}, {LABELS[name]}")
        return drain(run, name, backlog).rate

    points = up_to(run.size.backlog, *POINTS)
    found = in_turns([point for point in points if point < LONG], run.size.rounds, one)
    once = in_turns([point for point in points if point >= LONG], 1, one)
    whole = {name: found[name] | once[name] for name in SYSTEMS}
    Curve(
        "backlog",
        "Deliveries a second of a backlog",
        "messages that waited for one paused subscriber",
        "deliveries a second",
        [Line(LABELS[name], whole[name], is_reference=name == Nsq.name) for name in SYSTEMS],
    ).save(run)
    return rows(lambda point: f"deliveries of a backlog of {point:,}", "/s", whole[Pier.name], whole[Nsq.name])
