"""The dispatcher that sends a sample, and the error when none does."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bus.cluster.member import Member
from bus.cluster.sampling import SAMPLE, Sampler
from bus.domain.message import Message, decode_message
from bus.errors import PeerUnavailable
from bus.ports.sampling import SampleResult
from bus.testing.writes import message


class Crowd:
    def __init__(self, *found: Member) -> None:
        self.all = list(found)
        self.me = found[0]


class Own:
    """The dispatcher of this process."""

    def __init__(self, answer: SampleResult) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    async def sample(self, message: Message, subscription: str) -> SampleResult:
        self.asked.append((message.id, subscription))
        return self.answer


class FakePeers:
    """Answers, or raises what it was given, by owner; hangs when it was given nothing."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, str, float]] = []

    async def call(self, member: Member, path: str, content: Any, *, within: float) -> bytes:
        self.calls.append((member.owner, path, within))
        body = msgspec.msgpack.decode(msgspec.msgpack.encode(content))
        assert decode_message(body[0]).id == message(1).id
        assert body[1] == "billing"
        answer = self.answers[member.owner]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.msgpack.encode(answer)


def member(owner: str, *roles: str) -> Member:
    return Member(
        owner=owner, node=owner, url=f"http://{owner}", roles=roles or ("dispatcher",), version="1", started_at=0
    )


def sampler(peers: FakePeers, *found: Member, own: Own | None = None) -> Sampler:
    return Sampler(Crowd(*found), peers, own)  # type: ignore[arg-type]


SENT = SampleResult(url="http://x/", status=200, answer=b"yes", answer_headers=[("a", "b")])
REFUSED = SampleResult(refused="no permit")


async def test_the_dispatcher_of_this_process_goes_first() -> None:
    own, peers = Own(SENT), FakePeers()
    assert await sampler(peers, member("me"), member("b"), own=own).sample(message(1), "billing", 10) == SENT
    assert (len(own.asked), peers.calls) == (1, [])


async def test_another_one_is_asked_when_this_one_cannot() -> None:
    peers = FakePeers(b=PeerUnavailable("away"), c=REFUSED, d=SENT)
    crowd = [member("me"), *map(member, "bcd")]
    assert await sampler(peers, *crowd, own=Own(REFUSED)).sample(message(1), "billing", 10) == SENT
    assert peers.calls == [("b", SAMPLE, 14.0), ("c", SAMPLE, 14.0), ("d", SAMPLE, 14.0)]


async def test_without_a_dispatcher_nothing_is_sent() -> None:
    with pytest.raises(PeerUnavailable, match="no dispatcher is alive; nothing was sent") as caught:
        await sampler(FakePeers(), member("me", "admin")).sample(message(1), "billing", 10)
    assert caught.value.hint


async def test_when_all_refuse_the_last_reason_is_told() -> None:
    peers = FakePeers(b=PeerUnavailable("away"), c=REFUSED)
    with pytest.raises(PeerUnavailable, match="no permit; nothing was sent"):
        await sampler(peers, member("me", "admin"), member("b"), member("c")).sample(message(1), "billing", 10)


@pytest.mark.parametrize("answer", [PeerUnavailable("broke off", indeterminate=True), b"\xc1", None])
async def test_what_may_have_been_sent_is_not_sent_again(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.cluster.sampling._SLACK", 0.01)
    monkeypatch.setattr("bus.cluster.sampling.PERMIT_PATIENCE", 0.01)
    peers = FakePeers(b=answer, c=SENT)
    with pytest.raises(PeerUnavailable) as caught:
        await sampler(peers, member("me", "admin"), member("b"), member("c")).sample(message(1), "billing", 0.01)
    assert caught.value.indeterminate
    assert [owner for owner, _, _ in peers.calls] == ["b"]


async def test_a_dispatcher_that_only_begins_leaves_it_to_others() -> None:
    assert await sampler(FakePeers(b=SENT), member("me"), member("b")).sample(message(1), "billing", 1) == SENT
