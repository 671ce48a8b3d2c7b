"""From a process without a dispatcher to those that have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bus.cluster.handover_publisher import HandoverPublisher, RemoteDispatching, WaitingHandover
from bus.cluster.member import Member
from bus.cluster.peers import DELIVERIES, MESSAGES, ROOM, WAITING
from bus.domain.delivery.concurrency_shares import Shares, View
from bus.domain.delivery.delivery import Delivery, decode_delivery
from bus.domain.message import Message, decode_message, encode_message
from bus.domain.subscription import Subscription
from bus.errors import PeerUnavailable
from bus.ports.transport import OutgoingMessage
from bus.testing.clock import ManualClock
from bus.testing.cluster import NoOrder
from bus.testing.writes import DESTINATION, message

LANE = (DESTINATION, "billing")
MAIL = (DESTINATION, "mail")


def member(owner: str, *roles: str) -> Member:
    return Member(
        owner=owner,
        node=owner,
        url=f"http://{owner}",
        roles=roles or ("dispatcher",),
        version="1",
        started_at=0,
    )


class Crowd:
    """The members that a process knows of."""

    def __init__(self, *found: Member) -> None:
        self.all = self.others = list(found)
        self.me = found[0] if found else None
        self.shares = Shares("here")


class FakePeers:
    """Answers as the test says, by owner; takes everything until then."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers: dict[str, Callable[[str, Any], Any]] = {}

    async def ask(self, to: Member, path: str, content: Any = None) -> bytes:
        return await self.call(to, path, content)

    async def call(self, to: Member, path: str, content: Any) -> bytes:
        self.calls.append((to.owner, path, content))
        answer = self.answers.get(to.owner, _take)(path, content)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.msgpack.encode(answer)

    def handed(self, owner: str) -> list[str]:
        """Return the ids that were handed to somebody."""
        return [
            decode_message(payload).id if path == MESSAGES else decode_delivery(payload).message.id
            for to, path, content in self.calls
            if to == owner and path != ROOM
            for payload in content
        ]


def _take(path: str, content: Any) -> Any:
    return [(*LANE, 2)] if path == ROOM else [True] * len(content)


def away(*, indeterminate: bool = False) -> Callable[[str, Any], Exception]:
    return lambda *_: PeerUnavailable("away", indeterminate=indeterminate)


def outgoing(number: int, **changes: Any) -> OutgoingMessage:
    made = message(number, expected=("billing",))
    changed = Message(**{name: getattr(made, name) for name in made.__struct_fields__} | changes)
    return OutgoingMessage(changed, encode_message(changed))


@pytest.fixture
def peers() -> FakePeers:
    return FakePeers()


def handing_over(peers: FakePeers, *found: Member) -> HandoverPublisher:
    return HandoverPublisher(Crowd(*found), peers, NoOrder())  # type: ignore[arg-type]


async def test_messages_go_to_one_dispatcher_and_to_another_one_the_next_time(peers: FakePeers) -> None:
    transport = handing_over(peers, member("r", "receiver"), member("a"), member("b"))
    for number in range(4):
        assert await transport.publish([outgoing(number)]) == [True]
    assert [owner for owner, _, _ in peers.calls] == ["a", "b", "a", "b"]


async def test_when_one_cannot_be_reached_another_one_has_it(peers: FakePeers) -> None:
    peers.answers["a"] = away()
    assert await handing_over(peers, member("a"), member("b")).publish([outgoing(1)]) == [True]
    assert len(peers.handed("b")) == 1


async def test_one_that_may_hold_messages_is_called_for_them_again(peers: FakePeers) -> None:
    """Also when it cannot be reached then: it is started again, and has them on its disk."""
    transport = handing_over(peers, member("a"), member("b"))
    first, second = [outgoing(1), outgoing(2)], [outgoing(3)]
    peers.answers["a"] = away(indeterminate=True)
    assert await transport.publish(first) == [False, False]
    peers.answers["a"] = away()
    assert await transport.publish([*first, *second]) == [False, False, True]
    assert peers.handed("b") == [second[0].message.id]
    del peers.answers["a"]
    assert await transport.publish(first) == [True, True]
    assert peers.handed("b") == [second[0].message.id]


async def test_of_one_that_is_gone_others_have_what_it_may_hold(peers: FakePeers) -> None:
    transport = handing_over(peers, member("a"), member("b"))
    peers.answers["a"] = away(indeterminate=True)
    assert await transport.publish([outgoing(1)]) == [False]
    transport._members.all = [member("b")]  # type: ignore[misc]
    assert await transport.publish([outgoing(1)]) == [True]
    assert len(peers.handed("b")) == 1


async def test_one_that_never_answers_holds_nothing_up_for_long(peers: FakePeers) -> None:
    transport = handing_over(peers, member("a"), member("b"))
    peers.answers["a"] = away(indeterminate=True)
    answers = [await transport.publish([outgoing(1)]) for _ in range(9)]
    assert answers.index([True]) >= 7
    assert len(peers.handed("b")) == 1


async def test_what_may_be_held_is_remembered_within_a_bound(peers: FakePeers) -> None:
    transport = handing_over(peers, member("a"))
    peers.answers["a"] = away(indeterminate=True)
    for begin in range(0, 20_000, 1000):
        await transport.publish([outgoing(number) for number in range(begin, begin + 1000)])
    assert len(transport._doubts) == 10_000


async def test_when_nobody_answers_or_nobody_is_there_nothing_is_confirmed(peers: FakePeers) -> None:
    peers.answers["a"] = away()
    for transport in (handing_over(peers, member("a")), handing_over(peers, member("r", "receiver"))):
        batch = [outgoing(1), outgoing(2, expected=()), outgoing(3)]
        assert await transport.publish(batch) == [False, True, False]


async def test_what_a_dispatcher_does_not_hold_is_not_confirmed(peers: FakePeers) -> None:
    peers.answers["a"] = lambda *_: [False, True]
    assert await handing_over(peers, member("a")).publish([outgoing(1), outgoing(2)]) == [False, True]


@pytest.mark.parametrize("answer", [b"\xc1", [True], ["yes", "no"], {}])
async def test_an_answer_that_is_none_confirms_nothing(peers: FakePeers, answer: Any) -> None:
    peers.answers["a"] = lambda *_: answer
    assert await handing_over(peers, member("a")).publish([outgoing(1), outgoing(2)]) == [False, False]


async def test_many_bytes_go_in_several_requests(peers: FakePeers) -> None:
    batch = [outgoing(number, body=b"x" * 1_500_000) for number in range(5)]
    assert await handing_over(peers, member("a")).publish(batch) == [True] * 5
    assert [len(content) for _, _, content in peers.calls] == [2, 2, 1]
    assert peers.handed("a") == [item.message.id for item in batch]


async def test_behind_what_has_no_room_nothing_is_handed_over(peers: FakePeers) -> None:
    peers.answers["a"] = lambda _, content: [True, None][: len(content)]
    batch = [outgoing(number, body=b"x" * 1_500_000) for number in range(5)]
    assert await handing_over(peers, member("a")).publish(batch) == [True, None, None, None, None]
    assert len(peers.calls) == 1


async def test_it_says_when_there_is_no_dispatcher(peers: FakePeers) -> None:
    assert "no dispatcher" in str(handing_over(peers, member("r", "receiver")).conditions()["dispatchers"])
    assert handing_over(peers, member("r", "receiver"), member("a")).conditions() == {"dispatchers": ""}
    assert handing_over(peers, member("p", "lookup")).conditions() == {}


def deliveries(count: int, subscription: str = "billing") -> list[Delivery]:
    return [Delivery(message(number), subscription) for number in range(count)]


def remote(peers: FakePeers, clock: ManualClock, *found: Member) -> RemoteDispatching:
    return RemoteDispatching(Crowd(*found), peers, clock)  # type: ignore[arg-type]


async def test_room_is_that_of_all_dispatchers_and_asked_for_now_and_then(peers: FakePeers) -> None:
    clock = ManualClock()
    dispatching = remote(peers, clock, member("a"), member("b"), member("r", "receiver"))
    peers.answers["b"] = lambda *_: [(*LANE, 3), (*MAIL, 1)]
    for _ in range(2):
        assert await dispatching.room([LANE, MAIL]) == {LANE: 5, MAIL: 1}
    assert [set(content) for _, _, content in peers.calls] == [{LANE, MAIL}] * 2
    peers.calls.clear()
    peers.answers["b"] = lambda *_: [(DESTINATION, "sms", 1)]
    assert (await dispatching.room([LANE, (DESTINATION, "sms")]))[DESTINATION, "sms"] == 1
    assert [content for _, _, content in peers.calls] == [{(DESTINATION, "sms")}] * 2, "only what was not asked yet"
    await clock.advance(0.3)
    peers.answers["b"] = away()
    assert await dispatching.room([LANE]) == {LANE: 2}
    await clock.advance(0.3)
    peers.answers["a"] = lambda *_: b"\xc1"
    assert await dispatching.room([LANE]) == {}
    assert not dispatching.is_local


async def test_deliveries_go_where_there_is_most_room_and_no_more_than_that(peers: FakePeers) -> None:
    dispatching = remote(peers, ManualClock(), member("a"), member("b"))
    peers.answers["b"] = lambda path, content: [(*LANE, 4)] if path == ROOM else [True] * len(content)
    await dispatching.room([LANE])
    offered = deliveries(8)
    assert await dispatching.offer(offered) == [True] * 6 + [False] * 2
    assert len(peers.handed("a")) == 2
    assert len(peers.handed("b")) == 4
    assert await dispatching.offer(deliveries(1, "mail")) == [False]
    assert await dispatching.room([LANE]) == {LANE: 0}


async def test_what_a_dispatcher_has_no_room_for_is_given_back(peers: FakePeers) -> None:
    dispatching = remote(peers, ManualClock(), member("a"))
    peers.answers["a"] = lambda path, content: [(*LANE, 4)] if path == ROOM else [True, False][: len(content)]
    await dispatching.room([LANE])
    assert await dispatching.offer(deliveries(2)) == [True, False]


@pytest.mark.parametrize("indeterminate", [False, True])
async def test_what_may_have_been_taken_stays_leased(peers: FakePeers, indeterminate: bool) -> None:
    dispatching = remote(peers, ManualClock(), member("a"))
    await dispatching.room([LANE])
    peers.answers["a"] = away(indeterminate=indeterminate)
    assert await dispatching.offer(deliveries(2)) == [indeterminate] * 2
    assert await dispatching.room([LANE]) == {}


@pytest.mark.parametrize("answer", [b"\xc1", [True] * 5])
async def test_an_answer_that_is_none_leaves_it_open(peers: FakePeers, answer: Any) -> None:
    dispatching = remote(peers, ManualClock(), member("a"))
    await dispatching.room([LANE])
    peers.answers["a"] = lambda path, _: answer if path == DELIVERIES else []
    assert await dispatching.offer(deliveries(2)) == [True] * 2


SCARCE = Subscription(destination=DESTINATION, name="billing", url="http://a.example/", max_concurrency=1)


def handing_waiting(peers: FakePeers, *owners: str) -> WaitingHandover:
    crowd = Crowd(member("r", "receiver"), *(member(owner) for owner in owners if owner != "here"))
    # Of these views that with which the first one has the only permit.
    turns = (View(tuple(sorted(owners)), turn) for turn in range(len(owners)))
    view = next(view for view in turns if view.share(owners[0], f"{DESTINATION}/billing", 1))
    crowd.shares.resume((view,))
    return WaitingHandover(crowd, peers, NoOrder())  # type: ignore[arg-type]


async def test_what_waits_goes_to_the_dispatcher_that_has_the_permit(peers: FakePeers) -> None:
    peers.answers["b"] = lambda *_: True
    messages = [message(number) for number in range(3)]
    assert await handing_waiting(peers, "b", "a", "here").hand(SCARCE, messages) == 3
    ((owner, path, (name, payloads)),) = peers.calls
    assert (owner, path, name) == ("b", WAITING, "billing")
    assert [decode_message(payload) for payload in payloads] == messages


async def test_what_waits_goes_to_any_process_of_the_machine_that_has_the_permit(peers: FakePeers) -> None:
    handing = handing_waiting(peers, "b", "here")
    grouped = [msgspec.structs.replace(member(owner), group="b") for owner in ("c", "d")]
    handing._members.others = grouped  # type: ignore[misc]
    peers.answers = {"c": away(), "d": lambda *_: True}
    assert await handing.hand(SCARCE, [message(1)]) == 1
    assert [owner for owner, _, _ in peers.calls] == ["c", "d"]


@pytest.mark.parametrize("answer", [lambda *_: False, away(), away(indeterminate=True), lambda *_: b"?"])
async def test_what_it_does_not_take_stays(peers: FakePeers, answer: Callable[[str, Any], Any]) -> None:
    peers.answers["b"] = answer
    assert await handing_waiting(peers, "b", "a", "here").hand(SCARCE, [message(1)]) == 0


async def test_what_one_may_hold_is_not_handed_to_another(peers: FakePeers) -> None:
    peers.answers["b"], peers.answers["c"] = away(indeterminate=True), lambda *_: True
    waiting = handing_waiting(peers, "b", "c", "here")
    waiting._holders = lambda _: [member("b"), member("c")]  # type: ignore[method-assign]
    assert await waiting.hand(SCARCE, [message(1)]) == 0
    assert [owner for owner, _, _ in peers.calls] == ["b"]


async def test_nothing_is_handed_while_this_one_has_the_permit_itself(peers: FakePeers) -> None:
    assert await handing_waiting(peers, "here", "a").hand(SCARCE, [message(1)]) == 0
    assert peers.calls == []


async def test_behind_a_bundle_that_is_not_taken_none_is(peers: FakePeers) -> None:
    taken = iter([True, False, True])
    peers.answers["b"] = lambda *_: next(taken)
    large = [message(number, body=b"x" * (3 << 20)) for number in range(3)]
    assert await handing_waiting(peers, "b", "here").hand(SCARCE, large) == 1
