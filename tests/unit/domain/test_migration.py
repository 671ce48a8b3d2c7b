"""Migrations of topics: which route each step puts in force, what it waits for, and how one goes back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bus.domain.routing.evidence import ChannelSeen, IdleObservation, PartSeen, TopicObservation, Watch
from bus.domain.routing.migration import CompletedStep, Migration, advance, begin, know, pause, rollback, settle, take
from bus.domain.routing.needs import CALM, MARGIN, StepEvidence, waits_for
from bus.domain.routing.rooms import Route
from bus.domain.routing.steps import RULES, Kind, Step
from bus.errors import Conflict
from bus.localized_text import AnyText

LONG = 1e6
META = {"partition_num": 1, "ordered": False}


def made(kind: Kind, step: Step = Step.PREPARE, before: Route = Route(("s",), ("s",)), **changes: Any) -> Migration:  # noqa: B008
    found = begin("orders", 1, before, "t", kind=kind, partitions=1, interval=10.0, by="ann", now=1_000, nodes={})
    history = found.history if step is Step.PREPARE else (*found.history, CompletedStep(step, 2_000))
    return msgspec.structs.replace(found, history=history, **changes)


def sight(
    cluster: str, *channels: ChannelSeen, producers: int = 0, unknown: tuple[AnyText, ...] = (), **fields: Any
) -> TopicObservation:
    part = PartSeen("h:1/0", written=7, channels=channels or (ChannelSeen("billing"),))
    given = {"exists": True, "partitions": 1, "meta": META, "parts": (part,)} | fields
    return TopicObservation(cluster=cluster, producers=producers, unknown=unknown, **given)


def seen(source: TopicObservation | None = None, target: TopicObservation | None = None, **fields: Any) -> StepEvidence:
    given = {"in_force_for": LONG} | fields
    return StepEvidence(
        IdleObservation(source or sight("s"), LONG, LONG), IdleObservation(target or sight("t"), LONG, LONG), **given
    )


def texts(migration: Migration, found: StepEvidence) -> list[str]:
    return [str(said) for said in waits_for(migration, found)]


FORWARD = {
    Kind.UNORDERED: [
        (Step.PREPARE, ("s",), ("s",)),
        (Step.CONSUMERS_ON_BOTH, ("s",), ("s", "t")),
        (Step.PRODUCERS_ON_TARGET, ("t",), ("s", "t")),
        (Step.DONE, ("t",), ("t",)),
    ],
    Kind.ORDERED: [
        (Step.PREPARE, ("s",), ("s",)),
        (Step.PRODUCERS_STOPPED, (), ("s",)),
        (Step.DRAINING_SOURCE, ("t",), ("s",)),
        (Step.DONE, ("t",), ("t",)),
    ],
    Kind.EXPANSION: [
        (Step.PREPARE, ("s",), ("s",)),
        (Step.PRODUCERS_STOPPED, (), ("s",)),
        (Step.DRAINING_SOURCE, ("t",), ("s",)),
        (Step.EXPANDING_SOURCE, ("t",), ("t",)),
        (Step.STOPPED_TO_RETURN, (), ("t",)),
        (Step.DRAINING_TARGET, ("s",), ("t",)),
        (Step.DONE, ("s",), ("s",)),
    ],
}
BACK = {
    (Kind.UNORDERED, Step.PREPARE): [Step.CANCELED],
    (Kind.UNORDERED, Step.CONSUMERS_ON_BOTH): [Step.CANCELED],
    (Kind.UNORDERED, Step.PRODUCERS_ON_TARGET): [Step.PRODUCERS_BACK, Step.CANCELED],
    (Kind.ORDERED, Step.PREPARE): [Step.CANCELED],
    (Kind.ORDERED, Step.PRODUCERS_STOPPED): [Step.CANCELED],
    (Kind.ORDERED, Step.DRAINING_SOURCE): [Step.BACK_STOPPED, Step.BACK_DRAINING, Step.CANCELED],
}


@pytest.mark.parametrize("kind", list(Kind))
def test_each_step_has_its_route_and_the_next_one_follows(kind: Kind) -> None:
    found, passed = made(kind), []
    while True:
        passed.append((found.step, *found.route))
        if found.has_ended:
            break
        assert waits_for(found, seen()) == []
        found = take(found, 3_000)
    assert passed == FORWARD[kind]
    assert take(found, 4_000) is found
    assert waits_for(found, seen()) == []


@pytest.mark.parametrize(("kind", "step"), list(BACK))
def test_what_began_is_rolled_back_to_the_route_of_before(kind: Kind, step: Step) -> None:
    found, passed = rollback(made(kind, step, paused=True), 3_000, "bob"), []
    assert not found.paused
    assert found.history[-1].by == "bob"
    while not found.has_ended:
        passed.append(found.step)
        with pytest.raises(Conflict, match="on its way back"):
            rollback(found, 3_000, "bob")
        found = take(found, 4_000)
    assert [*passed, found.step] == BACK[kind, step]
    assert found.route == found.before


@pytest.mark.parametrize("step", [Step.EXPANDING_SOURCE, Step.STOPPED_TO_RETURN, Step.DRAINING_TARGET])
def test_an_expansion_that_is_on_its_way_back_goes_on(step: Step) -> None:
    with pytest.raises(Conflict, match="on its way back to s"):
        rollback(made(Kind.EXPANSION, step), 3_000, "bob")


@pytest.mark.parametrize("step", [Step.DONE, Step.CANCELED])
def test_one_that_has_ended_stays_so(step: Step) -> None:
    found = made(Kind.ORDERED, step)
    for act in (
        lambda: rollback(found, 3_000, "bob"),
        lambda: advance(found, step, 3_000, "bob"),
        lambda: pause(found, paused=True),
    ):
        with pytest.raises(Conflict, match="has ended"):
            act()
    assert settle(found).is_settled


def test_other_clusters_are_consumed_all_the_time_and_the_target_of_an_ordered_topic_is_not() -> None:
    before = Route(("s",), ("x", "s", "t"))
    routes = {step: made(Kind.ORDERED, step, before).route.consume for step in RULES[Kind.ORDERED]}
    assert routes[Step.PREPARE] == routes[Step.CANCELED] == before.consume
    assert routes[Step.PRODUCERS_STOPPED] == routes[Step.DRAINING_SOURCE] == ("s", "x")
    assert routes[Step.DONE] == ("t", "x")
    assert made(Kind.UNORDERED, Step.CONSUMERS_ON_BOTH, before).route.consume == ("s", "x", "t")
    assert made(Kind.UNORDERED, Step.PRODUCERS_BACK, before).route == Route(("s",), ("t", "x", "s"))


def test_a_person_advances_what_waits_and_skips_nothing() -> None:
    found = made(Kind.ORDERED, Step.PRODUCERS_STOPPED)
    with pytest.raises(Conflict, match="not at 'prepare'"):
        advance(found, "prepare", 3_000, "bob")
    with pytest.raises(Conflict, match="paused"):
        advance(pause(found, paused=True), Step.PRODUCERS_STOPPED, 3_000, "bob")
    after = advance(found, Step.PRODUCERS_STOPPED, 3_000, "bob")
    assert after.history[-1] == CompletedStep(Step.DRAINING_SOURCE, 3_000, "bob")


def test_the_pause_of_producers_is_counted() -> None:
    found = made(Kind.EXPANSION, Step.PRODUCERS_STOPPED)
    assert found.paused_for(2_500) == 500
    for now in (5_000, 6_000, 7_000):
        found = take(found, now)
    assert found.step is Step.STOPPED_TO_RETURN
    assert found.paused_for(7_500) == 3_500


NOBODY = ChannelSeen("billing")
SOMEBODY = ChannelSeen("billing", consumers=1)
WAITING = [(ChannelSeen("billing", depth=1)), ChannelSeen("billing", in_flight=1), ChannelSeen("billing", deferred=1)]
K, S = Kind, Step
WAITS: list[tuple[Kind, Step, StepEvidence, str]] = [
    (K.UNORDERED, S.PREPARE, seen(target=sight("t", exists=False, parts=())), "t has no topic orders"),
    (K.UNORDERED, S.PREPARE, seen(target=sight("t", partitions=2)), "2 partitions on t, not 1"),
    (K.UNORDERED, S.PREPARE, seen(target=sight("t", ChannelSeen("x"))), "t lacks channels: billing"),
    (K.UNORDERED, S.PREPARE, seen(target=sight("t", meta={"ordered": True})), "ordered in one cluster"),
    (
        K.UNORDERED,
        S.PREPARE,
        seen(sight("s", parts=(PartSeen("h:1/0"),)), sight("t", parts=(PartSeen("h:1/0"),))),
        "orders has no channel, so that t refuses writes",
    ),
    (K.UNORDERED, S.CONSUMERS_ON_BOTH, seen(in_force_for=10.0), "clients look up again within 2 s"),
    (K.UNORDERED, S.CONSUMERS_ON_BOTH, seen(sight("s", SOMEBODY)), "nobody consumes on t yet: billing"),
    (K.UNORDERED, S.CONSUMERS_ON_BOTH, seen(target=sight("t", ChannelSeen("x"))), "t lacks channels: billing"),
    (K.ORDERED, S.PREPARE, seen(target=sight("t", WAITING[0])), "1 messages wait on t"),
    (K.ORDERED, S.PRODUCERS_STOPPED, seen(in_force_for=0.0), "clients look up again within 12 s"),
    (K.ORDERED, S.PRODUCERS_STOPPED, seen(target=sight("t", SOMEBODY)), "1 consumers are connected to t"),
    (K.ORDERED, S.PRODUCERS_STOPPED, seen(target=sight("t", exists=False)), "t has no topic orders"),
    *((K.ORDERED, S.DRAINING_SOURCE, seen(sight("s", one)), "1 messages wait on s") for one in WAITING),
    (K.ORDERED, S.BACK_STOPPED, seen(sight("s", WAITING[1])), "1 messages wait on s"),
    (K.ORDERED, S.BACK_DRAINING, seen(target=sight("t", WAITING[1])), "1 messages wait on t"),
    (K.EXPANSION, S.EXPANDING_SOURCE, seen(sight("s", partitions=3)), "3 partitions on s, not 1"),
    (K.EXPANSION, S.STOPPED_TO_RETURN, seen(sight("s", SOMEBODY)), "1 consumers are connected to s"),
    (K.EXPANSION, S.DRAINING_TARGET, seen(target=sight("t", WAITING[2])), "1 messages wait on t"),
]


@pytest.mark.parametrize(("kind", "step", "found", "missing"), WAITS)
def test_a_step_waits_for_evidence(kind: Kind, step: Step, found: StepEvidence, missing: str) -> None:
    assert any(missing in text for text in texts(made(kind, step), found))


@pytest.mark.parametrize("kind", list(Kind))
def test_no_step_is_taken_while_a_proxy_or_an_nsqd_says_nothing(kind: Kind) -> None:
    for step, rule in RULES[kind].items():
        if rule.then is None:
            continue
        found = made(kind, step)
        assert texts(found, seen(unconfirmed=("lookup-2 has not said so",))) == ["lookup-2 has not said so"]
        for side in {side for _, side in rule.needs}:
            silent = {side.value: sight(side.value[0], unknown=("h:1 is silent",))}
            assert "h:1 is silent" in texts(found, seen(**silent))


def test_a_cluster_must_be_unwritten_for_longer_than_clients_take_to_look_up_and_empty_for_a_moment() -> None:
    found = made(Kind.ORDERED, Step.DRAINING_SOURCE)
    quiet = IdleObservation(sight("s"), 10.0 + MARGIN, CALM)
    assert texts(found, seen()._replace(source=quiet)) == []
    assert texts(found, seen()._replace(source=quiet._replace(unwritten_for=11.0))) == [
        "nobody may write to s for another 1 s"
    ]
    assert texts(found, seen()._replace(source=quiet._replace(drained_for=1.0))) == ["s must be empty for a moment"]
    connected = quiet._replace(sight=sight("s", producers=2))
    assert texts(found, seen()._replace(source=connected)) == [
        "nobody may write to s for another 12 s; 2 producers are connected"
    ]
    assert texts(found, seen()._replace(source=connected._replace(unwritten_for=24.0))) == []


def test_times_begin_anew_with_each_message_and_silence() -> None:
    watch = Watch()
    quiet = sight("s")
    assert watch.note(quiet, 0.0, 0.1)[1:] == (0.0, 0.0)
    assert watch.note(quiet, 5.1, 5.2)[1:] == (5.0, 5.0)
    written = sight("s", parts=(PartSeen("h:1/0", written=8),))
    assert watch.note(written, 6.0, 6.1)[1:] == (0.0, pytest.approx(5.9))
    assert watch.note(written, 7.1, 7.2)[1] == 1.0
    restarted = sight("s", parts=(PartSeen("h:1/0", since=1, written=8),))
    assert watch.note(restarted, 8.0, 8.1)[1] == 0.0
    connected = sight("s", producers=1, parts=restarted.parts)
    assert watch.note(connected, 9.0, 9.1)[1] == pytest.approx(0.9)
    assert watch.note(sight("s", unknown=("away",)), 11.0, 11.1)[1:] == (0.0, 0.0)
    assert watch.note(sight("s", WAITING[0]), 12.0, 12.1)[2] == 0.0


def test_nsqds_that_once_had_the_topic_are_remembered() -> None:
    found = know(made(Kind.UNORDERED), "s", {"b:1", "a:1"})
    assert found.nodes == {"s": ("a:1", "b:1")}
    assert know(found, "s", {"a:1"}) is found
    assert know(found, "s", {"c:1"}).nodes == {"s": ("a:1", "b:1", "c:1")}


def test_it_is_the_same_after_it_was_kept() -> None:
    found = made(Kind.EXPANSION, Step.STOPPED_TO_RETURN)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Migration) == found
