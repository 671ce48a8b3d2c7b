"""The reports of all dispatchers about one subscription, silent ones named."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bus.cluster import activity
from bus.cluster.activity import Activities, Activity, tell_activity
from bus.cluster.member import Member
from bus.domain.delivery.delivery import Status
from bus.domain.health.vitals import RecentAttempt, WorkerFigures
from bus.errors import PeerUnavailable


def member(owner: str, *roles: str) -> Member:
    return Member(
        owner=owner, node=owner, url=f"http://{owner}", roles=roles or ("dispatcher",), version="1", started_at=0
    )


def told(at: int, in_use: int = 1) -> Activity:
    attempt = RecentAttempt(f"m{at}", 1, at, 2.0, 200, "", Status.DELIVERED, "n")
    return Activity(WorkerFigures("orders", "billing", in_use, 4, 8, 0), [attempt])


class Crowd:
    def __init__(self, *found: Member) -> None:
        self.all = list(found)
        self.me = found[0]


class Others:
    """Answer as they would to HTTP, or raise what they were given, by owner; hang when they were given nothing."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    async def call(self, member: Member, path: str, content: Any, *, within: float) -> bytes:
        assert path == activity.ACTIVITY
        answer = self.answers[member.owner]
        if answer is None:
            await asyncio.sleep(within * 2)
        if isinstance(answer, Activity):
            return msgspec.msgpack.encode(tell_activity(msgspec.msgpack.encode(content), lambda *_: answer))
        if isinstance(answer, bytes):
            return answer
        raise answer


async def test_permits_add_up_and_the_newest_attempts_come_first() -> None:
    crowd = Crowd(member("a"), member("b"), member("c", "receiver"))
    found = await Activities(crowd, Others(b=told(9)), lambda *_: told(5, 2)).of("orders", "billing")  # type: ignore[arg-type]
    assert [one.in_use for one in found.permits] == [2, 1]
    assert [one.message_id for one in found.attempts] == ["m9", "m5"]
    assert found.silent == 0


@pytest.mark.parametrize("answer", [PeerUnavailable("gone"), b"\x01", None])
async def test_who_does_not_answer_is_counted_and_holds_up_nobody(
    answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "_PATIENCE", 0.01)
    crowd = Crowd(member("a"), member("b"))
    found = await Activities(crowd, Others(b=answer), lambda *_: told(5)).of("orders", "billing")  # type: ignore[arg-type]
    assert ([one.message_id for one in found.attempts], found.silent) == (["m5"], 1)


async def test_of_a_subscription_without_a_worker_there_is_nothing() -> None:
    found = await Activities(Crowd(member("a")), Others(), lambda *_: Activity()).of("orders", "gone")  # type: ignore[arg-type]
    assert found == ([], [], 0)
