"""Deliveries a second over the processes of the bus; nsqd is one program that uses every core by itself."""

from __future__ import annotations

from bench.curves.curve import LABELS, Curve, Line, Points, counted, rows, up_to
from bench.deliveries import deliver
from bench.report import Row
from bench.run import Run
from bench.systems import Nsq, Pier

POINTS = (1, 2, 4)
SUBSCRIBERS = (1, 4)


def measure(run: Run) -> list[Row]:
    """Return a row for each number of processes and of subscribers, and draw the curve."""
    lines: list[Line] = []
    found: list[Row] = []
    for subscribers in SUBSCRIBERS:
        ours, theirs = _measured(run, subscribers)
        to = counted(subscribers, "subscriber")
        lines += [
            Line(f"{LABELS[Pier.name]}, {to}", ours),
            Line(f"{LABELS[Nsq.name]}, {to}", theirs, is_reference=True),
        ]
        found += rows(lambda point, to=to: f"deliveries, {to}, {counted(point, 'process')}", "/s", ours, theirs)
    title, y = "Deliveries a second over processes", "deliveries a second"
    Curve("processes", title, "processes (bus up --processes N)", y, lines).save(run)
    return found


def _measured(run: Run, subscribers: int) -> tuple[Points, Points]:
    """Return the bus's points, and nsq's one figure at each of them."""
    to = counted(subscribers, "subscriber")
    ours: dict[int, list[float]] = {point: [] for point in up_to(run.size.processes, *POINTS)}
    nsq: list[float] = []
    for round_ in range(run.size.rounds):
        for processes, rates in ours.items():
            run.step(f"deliveries to {to} by {counted(processes, 'process')}, round {round_ + 1}")
            rates.append(deliver(run, Pier.name, subscribers, processes=processes).rate)
        run.step(f"deliveries to {to}, {LABELS[Nsq.name]}, round {round_ + 1}")
        nsq.append(deliver(run, Nsq.name, subscribers).rate)
    return ours, dict.fromkeys(ours, nsq)
