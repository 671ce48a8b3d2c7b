"""Order: deliveries a second by the number of keys, and what a key that always fails does to the others.

Of the second, two buses run side by side with the same subscriber, and short windows of load alternate between them.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final, NamedTuple

from bench.load import FIRST_SEQ
from bench.report import Row
from bench.run import Run
from bench.sending import Arrivals, Sending, percentile, wait_arrived
from bench.systems import Pier, System
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SECTION: Final = "order"
KEYS: Final = (1, 10, 1_000, 100_000)
TARGET_KEYS, TARGET = 1_000, 0.8
WARM_UP: Final = 500
ONE_AT_A_TIME: Final = 10
"""A round of one key has so many times fewer messages: each waits for the answer to the one before."""
RATE: Final = 200
POISONED_KEYS: Final = 100
OTHERS_P50: Final = 1.1


class Pair(NamedTuple):
    """Two windows, one after the other: milliseconds of the other keys without and with a poisoned one."""

    p50_without: float
    p99_without: float
    p50_with: float
    p99_with: float


def measure(run: Run) -> list[Row]:
    """Return the rows by the number of keys, and those of a poisoned key."""
    found: dict[int, list[float]] = {keys: [] for keys in (0, *KEYS)}
    for round_ in range(run.size.rounds):
        for keys, rates in found.items():
            run.step(f"order, {keys or 'no'} keys, round {round_ + 1}")
            rates.append(_rate(run, keys))
    unordered = found.pop(0)
    by_keys = [
        Row(
            SECTION,
            f"deliveries in the order of {keys:,} key{'s' if keys > 1 else ''}",
            rates,
            "/s",
            "no order",
            unordered,
            TARGET if keys == TARGET_KEYS else None,
        )
        for keys, rates in found.items()
    ]
    run.step("order, a poisoned key")
    return by_keys + rows(compare(run, windows=4 * run.size.rounds, seconds=run.size.seconds / 2))


def _rate(run: Run, keys: int) -> float:
    """Return deliveries a second; without an order for 0 keys, of messages with as many keys as the target has."""
    ordering = "key" if keys else "none"
    count = run.size.messages // (ONE_AT_A_TIME if keys == 1 else 1)
    with run.sink() as sink, run.system(Pier.name, [sink.url("/s0")], ordering=ordering) as system:
        for messages in (min(WARM_UP, count), count):
            sink.reset()
            sent = Sending(system.publish_url, messages, keys=keys or TARGET_KEYS).result()
            wait_arrived(sink, ["/s0"], messages)
        return messages / (max(Arrivals(sink, "/s0").first.values()) - sent.began)


def rows(pairs: list[Pair]) -> list[Row]:
    """Return one row for the p50 and one for the p99 of the other keys, with the median ratio of all pairs."""
    beside = "without it"
    p50 = [pair.p50_with for pair in pairs], [pair.p50_without for pair in pairs]
    p99 = [pair.p99_with for pair in pairs], [pair.p99_without for pair in pairs]
    name = f"beside a key that fails, at {RATE}/s"
    return [
        Row(SECTION, f"other keys' p50 {name}", p50[0], "ms", beside, p50[1], OTHERS_P50, lower=True),
        Row(SECTION, f"other keys' p99 {name}", p99[0], "ms", beside, p99[1], lower=True),
    ]


def compare(run: Run, *, windows: int, seconds: float) -> list[Pair]:
    """Alternate windows of load between a bus without and a bus with a poisoned key."""
    with ExitStack() as stack:
        sink = stack.enter_context(run.sink(f"/with=poison:{POISONED_KEYS}"))
        systems = [
            stack.enter_context(run.system(Pier.name, [sink.url(path)], ordering="key", retry=["1s"]))
            for path in ("/without", "/with")
        ]
        first, pairs = FIRST_SEQ, []
        for window in range(windows + 1):
            found = []
            for system, path in zip(systems, ("/without", "/with"), strict=True):
                found.append(_latencies(system, sink, path, first, int(RATE * seconds)))
                first += int(RATE * seconds)
            if window:  # the first one warms up
                (without, with_) = found
                pairs.append(
                    Pair(
                        percentile(without, 0.5),
                        percentile(without, 0.99),
                        percentile(with_, 0.5),
                        percentile(with_, 0.99),
                    )
                )
    return pairs


def _latencies(system: System, sink: SubscriberProcess, path: str, first: int, count: int) -> list[float]:
    """Return, sorted, the milliseconds of the messages of all keys but the poisoned one."""
    sink.reset()
    sent = Sending(system.publish_url, count, first=first, rate=RATE, keys=POISONED_KEYS).result()
    wanted = {seq for seq in range(first, first + count) if seq % POISONED_KEYS}

    def arrived() -> dict[int, float]:
        found = Arrivals(sink, path).first
        return {seq: at for seq, at in found.items() if seq in wanted}

    wait_until(lambda: len(arrived()) == len(wanted), within=30, what="the other keys arrive", every=0.1)
    return sorted((at - sent.sent[seq - first]) * 1000 for seq, at in arrived().items())
