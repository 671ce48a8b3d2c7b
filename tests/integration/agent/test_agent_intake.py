"""The intake of an agent: one fsync for many messages, and the way past a disk that refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bus.agent import intake as intake_module
from bus.agent.intake import Batch, Intake, Refusals
from bus.client import Bus
from bus.client.options import PreparedMessage
from bus.client.outbox import Outbox
from bus.errors import SpoolError, SpoolFailed, SpoolFull
from bus.http.draft import Draft
from tests.integration.client.fake_receiver import FakeReceiver, accept, refuse

FULL: dict[str, Any] = {"disk_reserve": 1 << 62}
NOWHERE = "http://127.0.0.1:9"


@asynccontextmanager
async def opened(url: str, spool: Path, **options: Any) -> AsyncIterator[Intake]:
    with Bus(url, spool=spool, **options) as bus:
        async with asyncio.TaskGroup() as group:
            intake = Intake(bus, "agent", 1_000, group)
            yield intake
        await asyncio.to_thread(intake.close)


def prepared(intake: Intake, *bodies: bytes) -> list[PreparedMessage]:
    return [intake.prepare(Draft("orders", body)) for body in bodies]


async def stored(intake: Intake, messages: Sequence[PreparedMessage]) -> Refusals:
    waiter: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()
    intake.store(messages, waiter)
    return await waiter


async def test_what_waits_shares_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    append = Outbox.append

    def counted(self: Outbox, messages: Sequence[PreparedMessage]) -> None:
        sizes.append(len(messages))
        append(self, messages)

    monkeypatch.setattr(Outbox, "append", counted)
    async with opened(NOWHERE, tmp_path) as intake:
        found = await asyncio.gather(*(stored(intake, prepared(intake, b"%d" % n)) for n in range(200)))
    assert not any(found)
    assert sum(sizes) == 200
    assert len(sizes) < 50


async def test_what_the_disk_refuses_is_with_the_receiver(tmp_path: Path) -> None:
    with FakeReceiver() as receiver:
        async with opened(receiver.url, tmp_path, **FULL) as intake:
            messages = prepared(intake, b"1", b"2")
            assert await stored(intake, messages) == [None, None]
    assert [line["id"] for line in receiver.taken] == [one.id for one in messages]
    assert {request.headers["bus-fallback"] for request in receiver.requests} == {"1"}


async def test_the_disk_and_the_receiver_together_refuse(tmp_path: Path) -> None:
    async with opened(NOWHERE, tmp_path, **FULL) as intake:
        found = await stored(intake, prepared(intake, b"1", b"2"))
    assert all(isinstance(refusal, SpoolFull) for refusal in found)
    assert "has not confirmed this message" in str(found[0])


async def test_each_line_has_an_answer_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Outbox, messages: object) -> None:
        raise SpoolFailed("the disk failed")

    monkeypatch.setattr(Outbox, "append", fail)
    lines = b"\n".join(b'{"destination": "%s", "body": 1}' % code for code in (b"orders", b"-", b"nowhere"))
    no = refuse(404, detail="no such place")
    with FakeReceiver() as receiver:
        receiver.judge = lambda line: (no if line["destination"] == "nowhere" else accept)(line)
        async with opened(receiver.url, tmp_path) as intake:
            batch = Batch(intake, lines)
            content = batch.content(await stored(intake, batch.prepared))
    taken, malformed, refused = json.loads(content)["results"]
    assert taken["status"] == "accepted"
    assert (malformed["id"], malformed["error"]["status"]) == (None, 404)
    assert (refused["status"], refused["error"]["status"]) == ("rejected", 503)
    assert "no such place" in refused["error"]["detail"]


async def test_a_disk_that_stands_still_holds_so_much_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MOST_HELD", 1_000)
    async with opened(NOWHERE, tmp_path) as intake:
        first = asyncio.ensure_future(stored(intake, prepared(intake, bytes(900))))
        await asyncio.sleep(0)
        with pytest.raises(SpoolError, match="faster than the agent's disk"):
            await stored(intake, prepared(intake, bytes(900)))
        assert not await first
        assert not await stored(intake, prepared(intake, bytes(900)))


async def test_a_bug_is_told_to_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Outbox, messages: object) -> None:
        raise RuntimeError("a bug")

    async with opened(NOWHERE, tmp_path) as intake:
        monkeypatch.setattr(Outbox, "append", fail)
        with pytest.raises(RuntimeError, match="a bug"):
            await stored(intake, prepared(intake, b"1"))
