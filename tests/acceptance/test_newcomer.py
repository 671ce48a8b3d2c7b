"""A newcomer gets from nothing to a repaired subscriber by commands that the ones before suggest."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.bus_process import BusProcess, bus_command
from tests.harness.subscribers import SubscriberProcess
from tests.harness.terminal import Shown, in_terminal
from tests.harness.waiting import wait_until

COLUMNS = 80


class Newcomer:
    """Runs what the last output suggests, with a name, a URL or a file of their own where one is asked for."""

    def __init__(self, bus: BusProcess, own: dict[str, str]) -> None:
        self._env = {"BUS_URL": bus.url}
        self._own = own
        self.seen = Shown(0, "")

    def run(self, *words: str) -> Shown:
        self.seen = in_terminal(bus_command(*words), env=self._env, columns=COLUMNS)
        assert self.seen.code == 0, self.seen.text
        return self.seen

    def help(self) -> list[str]:
        """Return the words of the first destination that the help names."""
        shown = self.run("--help").text
        (example,) = re.findall(r"^ +bus (destination set \S+)$", shown, re.MULTILINE)
        return shlex.split(example)

    def go_on(self, what: str, *more: str) -> Shown:
        """Run what was suggested for this."""
        (command,) = re.findall(rf"^{what}: +bus (.+)$", self.seen.text, re.MULTILINE)
        return self.run(*(self._own.get(word, word) for word in shlex.split(command)), *more)


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[tuple[Newcomer, SubscriberProcess]]:
    body = tmp_path / "order.json"
    body.write_text('{"order": 42}')
    with SubscriberProcess(tmp_path, "/shop=fail:1,status:500") as subscriber, BusProcess(tmp_path / "data") as bus:
        own = {"NAME": "shop", "URL": subscriber.url("/shop"), "FILE": str(body)}
        yield Newcomer(bus, own), subscriber


def is_whole(text: str) -> bool:
    """Whether a terminal showed every line without cutting it; commands to copy wrap by themselves."""
    return "…" not in text


def test_from_nothing_to_a_repaired_subscriber(newcomer: tuple[Newcomer, SubscriberProcess]) -> None:
    person, subscriber = newcomer
    person.run(*person.help())
    person.go_on("add a subscriber", "--retry", "1s", "--retry-max-attempts", "1")
    sent = person.go_on("send a message")
    looks = sent

    def died() -> bool:
        nonlocal looks
        person.seen = sent
        looks = person.go_on("follow it")
        return looks.text.startswith("dead")

    wait_until(died, within=30, what="the message is dead")
    assert "HTTP 500" in looks.text or "500" in looks.text
    groups = person.go_on("similar failures")
    assert "1 dead" in groups.text
    assert is_whole(groups.text)
    subscriber.configure("/shop=fail:0")
    repaired = person.go_on("resend after the repair")
    assert "1 selected, 0 waiting, 1 delivered" in repaired.text
    person.seen = sent
    assert person.go_on("follow it").text.startswith("delivered")
    assert len(subscriber.calls("/shop")) == 2


def test_programs_are_suggested_nothing(newcomer: tuple[Newcomer, SubscriberProcess]) -> None:
    person, _ = newcomer
    shown = person.run("destination", "set", "quiet", "--json")
    assert "add a subscriber" not in shown.text
