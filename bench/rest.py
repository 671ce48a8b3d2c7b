"""Processor time at rest: with few messages, with none, and with many subscriptions and none."""

from __future__ import annotations

import time

from bench.deliveries import WARM_UP, push
from bench.report import Row, against_limit
from bench.run import Run
from bench.sending import Sending, wait_arrived
from bench.systems import Pier

SECTION = "rest"
RATE = 100
MOST_OF_CLOSED_LOOP = 3.0
SUBSCRIPTIONS = 1_000
# Of one core, in percent.
IDLE, IDLE_WITH_MANY = 0.5, 1.5
SETTLE = 3.0


def measure(run: Run) -> list[Row]:
    """Return the rows of a low load and of none."""
    return [*_low_load(run), *_idle(run)]


def _low_load(run: Run) -> list[Row]:
    found: dict[str, list[float]] = {"bus": [], "nsq": []}
    closed: list[float] = []
    for round_ in range(run.size.rounds):
        run.step(f"processor time at {RATE} messages a second, round {round_ + 1}")
        for name, values in found.items():
            with run.sink() as sink, run.system(name, [sink.url("/s0")]) as system:
                push(system, sink, ["/s0"], WARM_UP)
                sink.reset()
                before, count = system.usage.cpu(), int(RATE * run.size.seconds * 2)
                Sending(system.publish_url, count, rate=RATE).result()
                wait_arrived(sink, ["/s0"], count)
                values.append((system.usage.cpu() - before) / count * 1000)
                if name == "bus":
                    closed.append(push(system, sink, ["/s0"], run.size.messages).cpu)
    figure = f"CPU for 1,000 deliveries at {RATE}/s"
    return [
        Row(SECTION, figure, found["bus"], "s", "its closed loop", closed, MOST_OF_CLOSED_LOOP, lower=True),
        Row(SECTION, figure, found["bus"], "s", "nsq", found["nsq"], lower=True),
    ]


def _idle(run: Run) -> list[Row]:
    alone: list[float] = []
    many: list[float] = []
    for round_ in range(run.size.rounds):
        run.step(f"an idle bus, round {round_ + 1}")
        with run.sink() as sink, run.system("bus", [sink.url("/s0")]) as system:
            assert isinstance(system, Pier)
            push(system, sink, ["/s0"], WARM_UP)
            alone.append(_resting(run, system))
            _subscribe(system, sink.url("/s0"))
            many.append(_resting(run, system))
    return [
        against_limit(SECTION, "an idle bus", alone, "% of a core", IDLE),
        against_limit(SECTION, f"the same with {SUBSCRIPTIONS:,} subscriptions", many, "% of a core", IDLE_WITH_MANY),
    ]


def _resting(run: Run, system: Pier) -> float:
    time.sleep(SETTLE)
    before, began = system.usage.cpu(), time.monotonic()
    time.sleep(run.size.seconds * 4)
    return (system.usage.cpu() - before) / (time.monotonic() - began) * 100


def _subscribe(system: Pier, url: str) -> None:
    for number in range(SUBSCRIPTIONS):
        destination, subscription = divmod(number, 10)
        if not subscription:
            system.bus.admin.destination(f"idle{destination}")
        system.bus.admin.subscription(f"idle{destination}", f"s{subscription}", url)
