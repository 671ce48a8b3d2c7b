"""Producers that send to any bus, send again what had no answer, and remember every answer."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Final, NamedTuple

import httpx

from bus.domain.identity import new_id
from tests.acceptance.hosts.world import PLAIN_CODE, World
from tests.harness.history import read_history
from tests.harness.http import PLAIN
from tests.harness.process import Child, module

_PAUSE: Final = 0.5
SDK_RATE: Final = 2.0
_TIMEOUT: Final = 6.0
_KEYS: Final = 4
_AGAIN: Final = 0.2


class Answer(NamedTuple):
    """What came of one POST; ``status`` is 0 where no answer came."""

    key: str
    seq: int
    node: str
    status: int
    id: str
    duplicate: bool
    unchecked: bool
    began: float
    seconds: float


class SdkProducer:
    """A process on the SDK that sends at a rate to one receiver, is killed and started again."""

    def __init__(self, world: World, name: str, code: str, url: str, count: int) -> None:
        self.code = code
        self._history = world.folder / f"{name}.jsonl"
        command = module("tests.harness.producer", "--url", url, "--api-key", world.key, "--process", name)
        command += ["--destination", code, "--count", str(count), "--rate", str(SDK_RATE), "--keys", str(_KEYS)]
        command += ["--spool", str(world.folder / f"{name}-spool"), "--history", str(self._history)]
        log = world.folder / f"{name}.log"
        self._child = Child([*world.services["producers"].enter, *command], log=log).start()

    @property
    def answers(self) -> list[Answer]:
        """What ``send()`` returned so far; the message is the bus's from then on."""
        begun: dict[int | None, float] = {}
        found = []
        for event in read_history(self._history):
            if event.type == "invoke":
                begun[event.seq] = event.t
            elif event.type == "ok":
                took = event.t - begun[event.seq]
                at = begun[event.seq]
                found.append(Answer(event.key, event.seq or 0, "", 202, event.id, False, False, at, took))
        return found

    def kill(self) -> None:
        """SIGKILL it; its spool stays."""
        self._child.kill()

    def start(self) -> None:
        """Go on after the last message that was tried."""
        self._child.start()

    def stop(self) -> None:
        """Return when ``send()`` has returned for all messages; the process goes on to bring them to the bus."""
        self._child.ready_line(120)


class Producer:
    """Sends messages one after another until it is told to stop; each has a number of its own.

    Of ``plain`` messages half have an idempotency key; those are sent until a bus accepts one, and some once more to
    another bus. Those of an order have ids of their own, and the next one is sent when the one before is accepted.
    """

    def __init__(self, world: World, name: str, code: str, seed: int) -> None:
        self.code = code
        self.answers: list[Answer] = []
        self._world = world
        self._name = name
        self._dice = random.Random(f"{seed} {name}")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; returns when the last message is accepted, or given up."""
        self._stopped.set()
        self._thread.join(60)

    def _run(self) -> None:
        headers = {"authorization": f"Bearer {self._world.key}", "content-type": "application/json"}
        with (
            self._world.services["producers"].inside(),
            httpx.Client(timeout=_TIMEOUT, headers=headers, **PLAIN) as http,
        ):
            seq = 0
            while not self._stopped.wait(self._dice.uniform(0.5, 1.5) * _PAUSE):
                self._send(http, seq)
                seq += 1

    def _send(self, http: httpx.Client, seq: int) -> None:
        if self.code != PLAIN_CODE:
            key = f"{self._name}.{seq % _KEYS}"
            headers = {"bus-key": key, "bus-message-id": new_id(round(time.time() * 1000))}
            self._insist(http, key, seq, headers)
        elif seq % 2:
            self._post(http, f"{self._name}-{seq}", seq, {})
        else:
            key = f"{self._name}-{seq}"
            headers = {"idempotency-key": key}
            self._insist(http, key, seq, headers)
            if self._dice.random() < _AGAIN:
                self._post(http, key, seq, headers)

    def _insist(self, http: httpx.Client, key: str, seq: int, headers: dict[str, str]) -> None:
        while not self._post(http, key, seq, headers):
            # What ends after the faults must not hang; what keeps an order must not leave a gap.
            if self._stopped.wait(0.3) and self.code == PLAIN_CODE:
                return

    def _post(self, http: httpx.Client, key: str, seq: int, headers: dict[str, str]) -> bool:
        node = self._dice.choice(self._world.nodes)
        body = json.dumps({"seq": seq, "process": self._name, "key": key}).encode()
        began = time.time()
        try:
            answer = http.post(f"{node.url}/v1/messages/{self.code}", content=body, headers=headers)
        except httpx.TransportError:
            self.answers.append(Answer(key, seq, node.host.name, 0, "", False, False, began, time.time() - began))
            return False
        found = answer.json()
        seconds = time.time() - began
        accepted = answer.status_code == httpx.codes.ACCEPTED
        message_id, duplicate = (found["id"], found["duplicate"]) if accepted else ("", False)
        unchecked = accepted and bool(found.get("unchecked"))
        self.answers.append(
            Answer(key, seq, node.host.name, answer.status_code, message_id, duplicate, unchecked, began, seconds)
        )
        return accepted
