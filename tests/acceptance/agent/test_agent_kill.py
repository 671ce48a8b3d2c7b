"""The agent dies by SIGKILL under load from three languages, again and again; nothing that it answered for is lost."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from bus.client.spooling.home import homes
from bus.domain.identity import ID_PATTERN
from tests.harness.agent_process import AgentProcess
from tests.harness.bus_process import BusProcess
from tests.harness.process import ROOT, Child
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import TooLate, wait_until
from tests.proofs.figures import Figures, note

PRODUCERS: Final = ROOT / "tests" / "harness" / "producers"
LANGUAGES: Final = {
    "go": ["go", "run", "producer.go"],
    "node": ["node", "producer.mjs"],
    "java": ["java", "Producer.java"],
}
GO: Final = {"GOFLAGS": "-trimpath", "GOCACHE": os.environ.get("GOCACHE") or str(Path.home() / ".cache" / "go-build")}
_ID: Final = re.compile(ID_PATTERN)
_LINE: Final = len("019a2f4e-0000-7000-8000-000000000000\n")
# Messages of all producers that are answered for between two kills.
STEPS: Final = range(60, 600)


def prove(folder: Path, bus: BusProcess, subscriber: SubscriberProcess, kills: int) -> None:
    """Kill so often, and fail when a message that was answered for is not with the subscriber."""
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"), max_concurrency=32)
    dice = random.Random(kills)
    with AgentProcess(folder, bus.url) as agent, _producers(folder, agent.url) as producers:
        for _ in range(kills):
            _go_on(producers, dice.choice(STEPS))
            agent.kill()
            agent.start()
        _go_on(producers, STEPS.start)
        (folder / "stop").touch()
        assert [producer.wait(60) for producer in producers] == [0] * len(producers)
        answered = [_answered(producer) for producer in producers]
        taken = set().union(*answered)
        with suppress(TooLate):  # what is lost is counted
            wait_until(lambda: taken <= _delivered(subscriber).keys(), within=60, what="all is delivered", every=0.2)
        assert agent.stop() == 0
    assert homes(agent.spool) == []
    delivered = _delivered(subscriber)
    lost = len(taken - delivered.keys())
    again = delivered.total() - len(delivered)
    note(Figures(messages=len(taken), faults=kills, lost=lost, duplicates=again))
    each = dict(zip(LANGUAGES, map(len, answered), strict=True))
    print(json.dumps({"proof": "agent", "kills": kills, "answered": each, "lost": lost, "again": again}))
    assert (lost, delivered.keys() - taken) == (0, set())
    assert min(each.values()) > 0


@contextmanager
def _producers(folder: Path, url: str) -> Iterator[Sequence[Child]]:
    """Run one in each language, all at work."""
    with ExitStack() as stack:
        children = []
        for language, (program, *arguments) in LANGUAGES.items():
            *options, name = arguments
            argv = [program, *options, str(PRODUCERS / name), url, "orders", str(folder / "stop")]
            children.append(stack.enter_context(Child(argv, log=folder / f"{language}.log", env=GO)))
        for child in children:
            wait_until(lambda child=child: child.check_running() and _answered(child), within=60, what=f"{child.argv}")
        yield children


def _answered(producer: Child) -> set[str]:
    """Return the ids that a producer was answered for, of its whole output."""
    return set(_ID.findall(producer.log.read_text()))


def _go_on(producers: Sequence[Child], count: int) -> None:
    """Return when so many more messages were answered for."""
    target = _size(producers) + count * _LINE
    wait_until(
        lambda: all(producer.check_running() for producer in producers) and _size(producers) >= target,
        within=60,
        what="messages are taken",
        every=0.01,
    )


def _size(producers: Sequence[Child]) -> int:
    return sum(producer.log.stat().st_size for producer in producers)


def _delivered(subscriber: SubscriberProcess) -> Counter[str]:
    return Counter(call.id for call in subscriber.calls("/shop") if call.status == 200)


def test_nothing_is_lost_when_the_agent_is_killed(
    tmp_path: Path, bus: BusProcess, subscriber: SubscriberProcess
) -> None:
    prove(tmp_path, bus, subscriber, kills=2)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_nothing_is_lost_over_twenty_kills_of_the_agent(
    tmp_path: Path, bus: BusProcess, subscriber: SubscriberProcess
) -> None:
    prove(tmp_path, bus, subscriber, kills=20)
