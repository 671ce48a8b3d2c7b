"""Whatever becomes of one process of a bus, the others serve on."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.http import PLAIN
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until


class Supervised:
    """A supervisor of two processes that do as they are told; ``lives`` has the ids of those that came to serve."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.child = Child(module("tests.integration.roles.supervised", folder, 2), log=folder / "log")

    def tell(self, number: int, behaviour: str) -> None:
        """Have a process behave so from its next start on."""
        (self.folder / str(number)).write_text(behaviour)

    def lives(self, number: int, kind: str = "lives") -> list[int]:
        """Return the ids of the processes that have served at a place, or of those that were slow to (``starts``)."""
        path = self.folder / f"{number}.{kind}"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def had_slot(self, number: int) -> list[bool]:
        """Return which of the processes that have served at a place had the slot."""
        return [line == "True" for line in (self.folder / f"{number}.slots").read_text().split()]

    def await_lives(self, number: int, count: int, kind: str = "lives") -> int:
        """Wait until there are so many; return the id of the last."""
        wait_until(
            lambda: len(self.lives(number, kind)) >= count,
            within=20,
            what=f"{kind} {count} of process {number}",
            every=0.02,
            state=self.child.output,
        )
        return self.lives(number, kind)[-1]

    def ask(self) -> socket.socket:
        """Return a connection to the common port on which a request waits for its answer."""
        connection = socket.create_connection(("127.0.0.1", int((self.folder / "port").read_text())), timeout=20)
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return connection

    def start(self) -> None:
        """Start all and wait until they serve."""
        self.child.start()
        self._await_file("announced")

    def _await_file(self, name: str) -> None:
        wait_until((self.folder / name).exists, within=20, what=f"{name} is there", every=0.02, state=self.child.output)

    def answers(self, count: int) -> int:
        """Return how many of so many connections to the common port are answered."""
        url = f"http://127.0.0.1:{(self.folder / 'port').read_text()}/"
        return sum(httpx.get(url, timeout=5, **PLAIN).is_success for _ in range(count))

    def await_log(self, text: str) -> None:
        """Wait until the supervisor has said something."""
        wait_until(lambda: text in self.child.output(), within=20, what=text, every=0.02, state=self.child.output)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    made = Supervised(tmp_path)
    yield made
    made.child.kill()


def _answer(connection: socket.socket) -> bytes:
    """Wait for the answer on a connection, and return how it begins."""
    with connection:
        return connection.recv(12)


def test_a_start_that_is_not_possible_ends_all(supervised: Supervised) -> None:
    supervised.tell(1, "refuse")
    supervised.child.start()
    assert supervised.child.wait(20) == 3
    assert len(supervised.lives(0)) == 1


def test_one_that_cannot_start_again_is_tried_again_while_the_others_serve(supervised: Supervised) -> None:
    supervised.start()
    assert supervised.answers(20) == 20
    supervised.tell(1, "refuse")
    os.kill(supervised.lives(1)[0], signal.SIGKILL)
    supervised.await_log("process 1 of 2 ended (3)")
    # New connections go to the one that serves.
    assert supervised.answers(20) == 20
    supervised.tell(1, "")
    supervised.await_lives(1, 2)
    assert supervised.answers(20) == 20
    assert len(supervised.lives(0)) == 1
    assert supervised.child.stop() == 0


def test_the_slots_of_a_process_that_is_killed_stay_taken_for_a_while(supervised: Supervised) -> None:
    """What it asked of subscribers is under way."""
    (supervised.folder / "busy").write_text("3600")
    supervised.start()
    assert (supervised.had_slot(0), supervised.had_slot(1)) == ([True], [False])
    os.kill(supervised.lives(0)[0], signal.SIGKILL)
    supervised.await_lives(0, 2)
    assert supervised.had_slot(0) == [True, False]
    assert supervised.child.stop() == 0


def test_the_slots_of_a_process_that_is_killed_are_free_later(supervised: Supervised) -> None:
    supervised.start()
    lives = 1
    while lives == 1 or not supervised.had_slot(0)[-1]:
        os.kill(supervised.lives(0)[-1], signal.SIGKILL)
        lives += 1
        supervised.await_lives(0, lives)
    assert supervised.child.stop() == 0


def test_a_system_that_starts_no_process_is_asked_again(supervised: Supervised) -> None:
    supervised.start()
    (supervised.folder / "full").touch()
    os.kill(supervised.lives(0)[0], signal.SIGKILL)
    supervised.await_log("process 0 of 2 cannot be started")
    (supervised.folder / "full").unlink()
    supervised.await_lives(0, 2)
    assert len(supervised.lives(1)) == 1
    assert supervised.child.stop() == 0


def test_a_replacement_goes_on_once_the_first_that_did_not_start_does(supervised: Supervised) -> None:
    supervised.start()
    supervised.tell(0, "refuse")
    os.kill(supervised.child.pid, signal.SIGHUP)
    supervised.await_log("process 0 of 2 ended (3)")
    assert len(supervised.lives(1)) == 1
    supervised.tell(0, "")
    supervised.await_lives(0, 2)
    supervised.await_lives(1, 2)
    assert supervised.child.stop() == 0


def test_one_that_does_not_end_is_replaced_by_force(supervised: Supervised) -> None:
    supervised.tell(0, "deaf")
    supervised.start()
    supervised.tell(0, "")
    os.kill(supervised.child.pid, signal.SIGHUP)
    supervised.await_lives(0, 2)
    supervised.await_lives(1, 2)
    assert "does not end: killed" in supervised.child.output()
    assert supervised.child.stop() == 0


def test_no_connection_is_refused_or_lost_while_all_are_killed_as_they_start(supervised: Supervised) -> None:
    supervised.start()
    for number in (0, 1):
        supervised.tell(number, "slow")
        os.kill(supervised.lives(number)[0], signal.SIGKILL)
    waiting = []
    for life in (1, 2):
        for number in (0, 1):
            os.kill(supervised.await_lives(number, life, "starts"), signal.SIGKILL)
        waiting += [supervised.ask() for _ in range(10)]
    for number in (0, 1):
        starting = supervised.await_lives(number, 3, "starts")
        supervised.tell(number, "")
        os.kill(starting, signal.SIGKILL)
    assert set(map(_answer, waiting)) == {b"HTTP/1.1 200"}
    assert supervised.child.stop() == 0


def test_what_waits_for_one_that_does_not_start_is_answered_by_another(supervised: Supervised) -> None:
    supervised.start()
    supervised.tell(1, "slow")
    os.kill(supervised.lives(1)[0], signal.SIGKILL)
    starting = supervised.await_lives(1, 1, "starts")
    waiting = [supervised.ask() for _ in range(40)]
    os.kill(starting, signal.SIGKILL)
    assert set(map(_answer, waiting)) == {b"HTTP/1.1 200"}
    assert len(supervised.lives(1)) == 1


def test_no_process_outlives_its_supervisor_not_even_one_that_is_starting(supervised: Supervised) -> None:
    supervised.start()
    supervised.tell(1, "slow")
    os.kill(supervised.lives(1)[0], signal.SIGKILL)
    starting = supervised.await_lives(1, 1, "starts")
    os.kill(supervised.child.pid, signal.SIGKILL)
    left = [Path(f"/proc/{pid}") for pid in (supervised.lives(0)[0], starting)]
    wait_until(lambda: not any(map(Path.exists, left)), within=10, what="no process is left", every=0.02)


def test_a_stop_while_one_is_started_again_ends_all(supervised: Supervised) -> None:
    supervised.start()
    supervised.tell(1, "refuse")
    os.kill(supervised.lives(1)[0], signal.SIGKILL)
    supervised.await_log("process 1 of 2 ended (3)")
    assert supervised.child.stop() == 0


def test_one_that_stands_still_is_replaced(supervised: Supervised) -> None:
    supervised.start()
    os.kill(supervised.lives(1)[0], signal.SIGSTOP)
    supervised.await_lives(1, 2)
    assert "process 1 of 2 stands still" in supervised.child.output()
    assert len(supervised.lives(0)) == 1
    assert supervised.child.stop() == 0
