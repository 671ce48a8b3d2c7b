"""Deliveries a second over the number of subscribers that each message goes to."""

from __future__ import annotations

from bench.curves.curve import LABELS, SYSTEMS, Curve, Line, counted, in_turns, rows, up_to
from bench.deliveries import deliver
from bench.report import Row
from bench.run import Run
from bench.systems import Nsq, Pier

POINTS = (1, 2, 4, 8, 16, 32, 64)


def measure(run: Run) -> list[Row]:
    """Return a row for each number of subscribers, and draw the curve."""

    def one(name: str, subscribers: int) -> float:
        run.step(f"deliveries to {counted(subscribers, 'subscriber')}, {LABELS[name]}")
        return deliver(run, name, subscribers).rate

    found = in_turns(up_to(run.size.subscribers, *POINTS), run.size.rounds, one)
    Curve(
        "subscribers",
        "Deliveries a second over subscribers",
        "subscribers of each message",
        "deliveries a second",
        [Line(LABELS[name], found[name], is_reference=name == Nsq.name) for name in SYSTEMS],
    ).save(run)
    return rows(lambda point: f"deliveries, {counted(point, 'subscriber')}", "/s", found[Pier.name], found[Nsq.name])
