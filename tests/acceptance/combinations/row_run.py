"""One row: its destination, its producer, the person who acts, and what is seen of it."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx

from bus.domain.identity import new_id
from tests.acceptance.combinations.entries import RETRY_WITHIN, Draft, Entry, entry
from tests.acceptance.combinations.kinds import KINDS, SLOTS
from tests.acceptance.combinations.model import Row
from tests.acceptance.combinations.oracle import PATIENCE, Expected, Seen, Sent, Verdict, Window, judge
from tests.harness.admin import FINAL
from tests.harness.waiting import TooLate, wait_until

if TYPE_CHECKING:
    from tests.acceptance.combinations.world import World

DRAIN_WITHIN: Final = 40.0
PAUSE: Final = 1.5
"""Seconds for which a fault or a person's pause lasts."""
_EACH: Final = 0.08
"""Seconds between messages."""
_STEP: Final = 4
_ENCODINGS: Final = {"utf16": "utf-16", "bom": "utf-8-sig"}
_LARGE: Final = 1_000_000
_KAFKA_SESSION: Final = 12.0
"""Seconds after which Kafka gives the partitions of a killed consumer to another one."""


class RowRun:
    """One row: its destination, its producer, the person who acts, and what is seen of it."""

    def __init__(self, world: World, row: Row) -> None:
        self._world = world
        self._row = row
        self._admin = world.bus.admin
        self._sent: list[Sent] = []
        self._kind = KINDS[row.subscription]
        self._main = dataclasses.replace(self._kind.expected, path=self._path("main"), windows=[])
        self._expected = [self._main, Expected(self._path("near"), bound=SLOTS)]

    def _path(self, name: str) -> str:
        return f"/{self._row.code}/{name}"

    # What is configured

    def configure(self) -> None:
        """Make the destination and its subscriptions."""
        row = self._row
        ordering = "key" if row.keeps_order else "none"
        retried(lambda: self._admin.destination(row.code, transport=row.transport, ordering=ordering))
        if self._kind.behaviour:
            self._world.subscriber.configure(f"{self._main.path}={self._kind.behaviour}")
        self._subscribe("near", {})
        self._subscribe("main", self._kind.fields)

    def _subscribe(self, name: str, fields: Mapping[str, Any]) -> None:
        url = self._world.subscriber.url(self._path(name))
        given = {"max_concurrency": SLOTS, "retry": ["0.3s"], "timeout_seconds": 5, **fields}
        retried(lambda: self._admin.subscription(self._row.code, name, url, **given))

    # What is sent

    def send(self) -> None:
        """Send all, with the act in the middle of it, and bring the subscriber into order."""
        begin = time.time()
        drafts = list(self._drafts())
        half = len(drafts) // 2
        world = self._world
        with entry(self._row, world.urls, world.agent.url, world.folder) as way:
            self._send(way, drafts[:half])
            self._act()
            self._send(way, drafts[half:])
        self._heal(begin)

    def _send(self, way: Entry, drafts: list[Draft]) -> None:
        for start in range(0, len(drafts), _STEP):
            if self._row.act == "configuration":
                self._add()
            some = drafts[start : start + _STEP]
            answers = way.send(some)
            now = time.time()
            self._sent += [Sent(draft, now, answer) for draft, answer in zip(some, answers, strict=True)]
            time.sleep(_EACH * len(some))

    def _drafts(self) -> Iterator[Draft]:
        row = self._row
        for seq in range(self._world.count // (3 if row.payload == "large" else 1)):
            skips = self._main.skips if self._main.skips and seq % 2 else ""
            biz_id = f"{row.code}-{seq}{skips}"
            body, content_type = body_of(row.payload, seq)
            key = f"k{seq % 3}" if row.keeps_order else ""
            identity = identity_of(row.identity, biz_id)
            yield Draft(biz_id, seq, body, content_type, key, **identity)
            if row.identity in ("repeated_id", "repeated_key", "event") and seq % 5 == 0:
                yield Draft(biz_id, seq, body, content_type, key, **identity)

    def _heal(self, begin: float) -> None:
        main = self._main
        if self._row.subscription in ("healed", "hung"):
            self._world.subscriber.configure(f"{main.path}=")
        elif self._row.subscription == "resumed":
            retried(lambda: self._admin.pause(self._row.code, "main", paused=False))
        else:
            return
        end = time.time()
        # Probes are as far apart as the failure was long, and a request that hangs ends after its time-out.
        main.windows.append(Window(begin, end + (end - begin) + 1))

    # What a person does

    def _act(self) -> None:
        row, main = self._row, self._main
        match row.act:
            case "discard":
                main.final |= {"canceled"}
                chosen = {"destination": row.code, "subscription": "main"}
                retried(lambda: self._post("/api/v1/discards", {"filter": chosen, "reason": "not needed"}))
            case "pause":
                begin = time.time()
                retried(lambda: self._admin.pause(row.code, "main", paused=True))
                time.sleep(PAUSE)
                if row.subscription != "resumed":
                    retried(lambda: self._admin.pause(row.code, "main", paused=False))
                main.windows.append(Window(begin, time.time() + 1))

    def _add(self) -> None:
        """Add a subscription, which gets what is sent from now on, also while processes start."""
        name = f"late-{len(self._expected)}"
        self._subscribe(name, {})
        self._expected.append(Expected(self._path(name), since=time.time(), bound=SLOTS))

    def _resend(self) -> None:
        """Have two messages delivered to the neighbour once more."""
        near = self._expected[1]
        found = {item["biz_id"]: item["id"] for item in self._messages()}
        chosen = dict(itertools.islice(found.items(), 2))
        for message in chosen.values():
            retried(lambda one=message: self._post(f"/api/v1/messages/{one}/resend", {"subscriptions": ["near"]}))
        near.resent = frozenset(chosen)
        wait_until(
            lambda: all(self._count(near.path, biz) > 1 for biz in chosen), within=DRAIN_WITHIN, what="they are resent"
        )

    def _count(self, path: str, biz_id: str) -> int:
        return sum(call.biz_id == biz_id and call.status == 200 for call in self._world.subscriber.calls(path))

    def _post(self, path: str, body: object) -> httpx.Response:
        return self._admin.call("POST", path, json=body).raise_for_status()

    # What is seen

    def verdict(self) -> Verdict:
        """Wait until everything is final, and judge."""
        complaints = []
        for step in (self._drain, *((self._resend, self._drain) if self._row.act == "resend" else ())):
            try:
                step()
            except TooLate as error:
                complaints.append(str(error))
        found = judge(self._seen(), self._expected)
        return found._replace(complaints=(*complaints, *found.complaints))

    def _drain(self) -> None:
        wanted = {one.draft.biz_id for one in self._sent if one.answer == "accepted"}

        def is_drained() -> bool:
            try:
                if self._admin.unfinished(self._row.code):
                    return False
                traces = self._traces()
            except httpx.HTTPStatusError:
                return False
            # A message may be dead for one subscriber while it is on its way to another one.
            states = {one["status"] for _, deliveries in traces.values() for one in deliveries}
            return wanted <= {biz_id for biz_id, _ in traces.values()} and states <= FINAL

        what = f"all {len(wanted)} messages are known and final"
        wait_until(
            is_drained, within=DRAIN_WITHIN, what=what, every=0.3, state=lambda: self._admin.statuses(self._row.code)
        )

    def _traces(self) -> dict[str, tuple[str, list[dict[str, Any]]]]:
        """Return the deliveries of each message by its id, and its biz id."""
        messages = self._messages()
        return {item["id"]: (item["biz_id"], self._admin.trace(item["id"])["deliveries"]) for item in messages}

    def _messages(self) -> list[dict[str, Any]]:
        return list(self._admin.messages(destination=self._row.code))

    def _seen(self) -> Seen:
        world = self._world
        unknown = sum(one.answer == "unknown" for one in self._sent)
        is_hurt = world.group.fault in ("kill", "restart", "store")
        batch = 10 if self._row.subscription == "batch" else 1
        return Seen(
            sent=self._sent,
            calls=[call for call in world.subscriber.calls() if call.path.startswith(f"/{self._row.code}/")],
            traces=self._traces(),
            windows=[*world.windows, *self._sessions()],
            repeats=unknown + (2 * SLOTS * batch if is_hurt else 0),
            keeps_order=self._row.keeps_order and not self._resends_lines(),
            patience=PATIENCE * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)),
        )

    def _sessions(self) -> Iterator[Window]:
        """Return when a killed consumer of Kafka still counts as alive."""
        if self._row.transport == "kafka" and self._world.group.fault == "kill":
            yield from (Window(window.begin, window.begin + _KAFKA_SESSION) for window in self._world.windows)

    def _resends_lines(self) -> bool:
        """Whether lines of a batch that were refused come after later ones."""
        return self._row.entry in ("ndjson", "cli") and self._world.group.fault != "none"


def body_of(payload: str, seq: int) -> tuple[bytes, str]:
    """Return a body and its type."""
    text = f'{{"seq":{seq},"name":"na\u00efve"}}'
    match payload:
        case "json":
            return text.encode(), "application/json"
        case "text":
            return text.encode(), "text/plain; charset=utf-8"
        case "binary":
            return bytes(range(256)) + seq.to_bytes(4), "application/octet-stream"
        case "empty":
            return b"", "application/octet-stream"
        case "large":
            return seq.to_bytes(4) * (_LARGE // 4), "application/octet-stream"
    return text.encode(_ENCODINGS[payload]), "application/json; charset=utf-8"


def identity_of(identity: str, biz_id: str) -> dict[str, str]:
    """Return the fields of a draft that name it."""
    match identity:
        case "id" | "repeated_id":
            return {"id": new_id(time.time_ns() // 1_000_000)}
        case "key" | "repeated_key":
            return {"idempotency_key": biz_id}
        case "event":
            return {"event": biz_id}
    return {}


def retried(act: Callable[[], object]) -> None:
    """Do what may be done again until the bus answers."""
    deadline = time.monotonic() + RETRY_WITHIN
    while True:
        try:
            act()
        except httpx.TransportError:
            problem = None
        except httpx.HTTPStatusError as error:
            problem = error
            # 409: an earlier attempt was stored, and the process that answers now has not read it yet.
            if error.response.status_code < 500 and error.response.status_code != httpx.codes.CONFLICT:
                raise
        else:
            return
        if time.monotonic() > deadline:
            raise problem or TooLate("the bus does not answer")
        time.sleep(0.2)
