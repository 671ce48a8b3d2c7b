"""The ways by which a message enters the bus, and what each says of it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

import httpx

from bus import AsyncBus, Bus
from bus.errors import BusError
from tests.acceptance.combinations.model import Row
from tests.harness.bus_process import run_bus
from tests.harness.http import PLAIN

Answer = Literal["accepted", "refused", "unknown"]
RETRY_WITHIN: Final = 30.0
_PAUSE: Final = 0.2
_RETRIED: Final = {429, 500, 502, 503, 504, 507}


class Draft(NamedTuple):
    """A message to be sent; ``biz_id`` names it, and whatever repeats it has the same."""

    biz_id: str
    seq: int
    body: bytes
    content_type: str
    key: str = ""
    id: str = ""
    idempotency_key: str = ""
    event: str = ""

    @property
    def has_identity(self) -> bool:
        """Whether it can be sent again without a second message."""
        return bool(self.id or self.idempotency_key or self.event)


class Entry(Protocol):
    """Sends drafts, and says of each whether it is accepted; ``refused`` is without effect for sure."""

    def send(self, drafts: Sequence[Draft]) -> list[Answer]:
        """Send drafts one after the other."""
        ...


class _Sdk:
    def __init__(self, row: Row, bus: Bus) -> None:
        self._code = row.code
        self._bus = bus

    def send(self, drafts: Sequence[Draft]) -> list[Answer]:
        return [self._one(draft) for draft in drafts]

    def _one(self, draft: Draft) -> Answer:
        try:
            self._bus.send(self._code, draft.body, **_arguments(draft))
        except BusError:
            return "unknown"
        return "accepted"


class _Async:
    def __init__(self, row: Row, bus: AsyncBus, runner: asyncio.Runner) -> None:
        self._code = row.code
        self._bus = bus
        self._runner = runner

    def send(self, drafts: Sequence[Draft]) -> list[Answer]:
        return self._runner.run(self._all(drafts))

    async def _all(self, drafts: Sequence[Draft]) -> list[Answer]:
        sends = [self._bus.send(self._code, draft.body, **_arguments(draft)) for draft in drafts]
        done = await asyncio.gather(*sends, return_exceptions=True)
        return ["unknown" if isinstance(one, BaseException) else "accepted" for one in done]


class _Posts:
    """POSTs to one of several addresses, another one after each failure."""

    def __init__(self, row: Row, urls: Sequence[str], http: httpx.Client) -> None:
        self._code = row.code
        self._urls = list(urls)
        self._is_event = row.entry == "cloudevents"
        self._http = http

    def send(self, drafts: Sequence[Draft]) -> list[Answer]:
        return [self._one(draft) for draft in drafts]

    def _one(self, draft: Draft) -> Answer:
        return self._until_answered(
            f"/v1/messages/{self._code}", draft.body, self._headers(draft), may_repeat=draft.has_identity
        )[0]

    def _until_answered(
        self, path: str, body: bytes, headers: dict[str, str], *, may_repeat: bool
    ) -> tuple[Answer, httpx.Response | None]:
        deadline = time.monotonic() + RETRY_WITHIN
        while True:
            try:
                answer = self._http.post(self._urls[0] + path, content=body, headers=headers)
            except httpx.ConnectError:
                pass  # without effect
            except httpx.TransportError:
                if not may_repeat:
                    return "unknown", None
            else:
                if answer.is_success:
                    return "accepted", answer
                if answer.status_code not in _RETRIED:
                    raise AssertionError(f"{path}: {answer.status_code} {answer.text}")
            if time.monotonic() > deadline:
                return ("unknown" if may_repeat else "refused"), None
            self._urls.append(self._urls.pop(0))
            time.sleep(_PAUSE)

    def _headers(self, draft: Draft) -> dict[str, str]:
        given = {
            "content-type": draft.content_type,
            "bus-biz-id": draft.biz_id,
            "bus-key": draft.key,
            "bus-message-id": draft.id,
            "idempotency-key": draft.idempotency_key,
        }
        if self._is_event or draft.event:
            event = draft.event or draft.biz_id + draft.idempotency_key
            given |= {"ce-specversion": "1.0", "ce-source": "/shop", "ce-type": "made", "ce-id": event}
        return {name: value for name, value in given.items() if value}


class _Lines(_Posts):
    def send(self, drafts: Sequence[Draft]) -> list[Answer]:
        deadline = time.monotonic() + RETRY_WITHIN
        found: dict[int, Answer] = {}
        while left := [number for number in range(len(drafts)) if number not in found]:
            lines = b"\n".join(line_of(self._code, drafts[number]) for number in left)
            may_repeat = all(drafts[number].has_identity for number in left)
            headers = {"content-type": "application/x-ndjson"}
            state, answer = self._until_answered("/v1/messages", lines, headers, may_repeat=may_repeat)
            if answer is None:
                found |= dict.fromkeys(left, state)
                break
            for number, result in zip(left, answer.json()["results"], strict=True):
                if result["status"] != "rejected":
                    found[number] = "accepted"
                elif result["error"]["status"] not in _RETRIED:
                    raise AssertionError(result["error"])
                elif time.monotonic() > deadline:
                    found[number] = "refused"
            time.sleep(_PAUSE if len(found) < len(drafts) else 0)
        return [found[number] for number in range(len(drafts))]


class _Cli:
    def __init__(self, row: Row, url: str, folder: Path) -> None:
        self._code = row.code
        self._env = {"BUS_URL": url}
        self._file = folder / f"{row.code}.ndjson"

    def send(self, drafts: Sequence[Draft]) -> list[Answer]:
        self._file.write_bytes(b"\n".join(line_of(self._code, draft) for draft in drafts))
        deadline = time.monotonic() + RETRY_WITHIN
        may_repeat = all(draft.has_identity for draft in drafts)
        while True:
            done = run_bus("send", "--envelope", self._file, "--json", env=self._env, within=60)
            counts = json.loads(done.stdout) if done.stdout else {}
            if done.returncode == 0 and not counts["rejected"]:
                return ["accepted"] * len(drafts)
            if not may_repeat or time.monotonic() > deadline:
                return ["unknown"] * len(drafts)
            time.sleep(_PAUSE)


@contextmanager
def entry(row: Row, urls: Sequence[str], agent: str, folder: Path) -> Iterator[Entry]:
    """Open the row's way into a bus that answers at some addresses, or into an agent before it."""
    match row.entry:
        case "sdk":
            with Bus(urls[0], spool=folder / row.code, source=row.code) as bus:
                yield _Sdk(row, bus)
                bus.flush(RETRY_WITHIN)
        case "async":
            with asyncio.Runner() as runner:
                made = AsyncBus(urls[0], spool=folder / row.code, source=row.code)
                yield _Async(row, made, runner)
                runner.run(made.flush(RETRY_WITHIN))
                runner.run(made.close())
        case "cli":
            yield _Cli(row, urls[0], folder)
        case _:
            with httpx.Client(timeout=10, **PLAIN) as http:
                kind = _Lines if row.entry == "ndjson" else _Posts
                yield kind(row, [agent] if row.entry == "agent" else urls, http)


def line_of(code: str, draft: Draft) -> bytes:
    """Return a draft as a line of a batch."""
    fields: dict[str, Any] = {
        "destination": code,
        "biz_id": draft.biz_id,
        "key": draft.key,
        "id": draft.id,
        "idempotency_key": draft.idempotency_key,
        "content_type": draft.content_type,
        "body_base64": base64.b64encode(draft.body).decode() if draft.content_type != "application/json" else "",
    }
    line = json.dumps({name: value for name, value in fields.items() if value}).encode()
    if draft.content_type == "application/json":
        return line[:-1] + b', "body": ' + draft.body + b"}"
    return line if draft.body else line[:-1] + b', "body_base64": ""}'


def _arguments(draft: Draft) -> dict[str, Any]:
    return {
        "biz_id": draft.biz_id,
        "key": draft.key or None,
        "content_type": draft.content_type,
        "id": draft.id or None,
        "idempotency_key": draft.idempotency_key or None,
    }
