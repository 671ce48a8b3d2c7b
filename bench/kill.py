"""After kill -9 in mid-load: what is lost, what comes twice, how soon deliveries go on."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import NamedTuple

from bench.report import Row, against_limit
from bench.run import Run
from bench.sending import Arrivals, Sending
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SECTION = "kill -9"
MESSAGES = 5_000
SILENCE_LIMIT = 2.0
GIVE_UP_AFTER = 20.0
SETTLE = 2.0


class Figures(NamedTuple):
    """Accepted and never delivered, delivered again, and the longest silence at the subscriber in seconds."""

    lost: float
    repeated: float
    silence: float


def measure(run: Run) -> list[Row]:
    """Return the rows; each round kills each system once, when a third was delivered, and starts it again at once."""
    bus: list[Figures] = []
    nsq: list[Figures] = []
    for round_ in range(run.size.rounds):
        run.step(f"kill -9 in mid-load, round {round_ + 1}")
        bus.append(_of_system(run, "bus"))
        nsq.append(_of_system(run, "nsq"))
    lost = [figures.lost for figures in bus]
    silences, nsq_silences = [figures.silence for figures in bus], [figures.silence for figures in nsq]
    again, nsq_again = [figures.repeated for figures in bus], [figures.repeated for figures in nsq]
    nsq_lost = f"nsq lost {sum(figures.lost for figures in nsq):.0f}"
    return [
        # One is the first whole number above none, so that the ratio stays defined.
        Row(SECTION, "lost, all rounds", [sum(lost)], "", "one", [1.0], 0.0, lower=True, note=nsq_lost),
        Row(SECTION, f"repeated of {MESSAGES:,}", again, "", "nsq", nsq_again, 1.0, lower=True),
        against_limit(SECTION, "silence at the subscriber", silences, "s", SILENCE_LIMIT),
        Row(SECTION, "silence at the subscriber", silences, "s", "nsq", nsq_silences, lower=True),
    ]


def _of_system(run: Run, name: str) -> Figures:
    with run.sink("/s0=delay:0.01") as sink, run.system(name, [sink.url("/s0")]) as system:
        sending = Sending(system.publish_url, MESSAGES)
        wait_until(lambda: sink.count("/s0") > MESSAGES / 3, within=60, what="a third delivered", every=0.005)
        system.kill()
        system.restart()
        accepted = sending.result().accepted
        _wait_complete(sink, accepted)
        arrivals = Arrivals(sink, "/s0")
    silence = max(later - earlier for earlier, later in pairwise(arrivals.times))
    return Figures(len(accepted - arrivals.first.keys()), arrivals.repeated, silence)


def _wait_complete(sink: SubscriberProcess, accepted: set[int]) -> None:
    """Return when all arrived and a while passed for repeats, or when nothing came for long: that counts as lost."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < GIVE_UP_AFTER:
        now = sink.count("/s0")
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > SETTLE and accepted <= Arrivals(sink, "/s0").first.keys():
            return
        time.sleep(0.2)
