"""Which facts about the bus need a person, how badly, and what that person does next."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.delivery.reasons import reason_of
from bus.domain.delivery.retry import is_permanent
from bus.domain.health.vitals import (
    USED_KEY_RATE,
    USED_RATE,
    USED_SHARE,
    BreakerFigures,
    RejectedFigures,
    SpoolFigures,
    TurnedAwayFigures,
)
from bus.domain.subscription import PAUSED_BY_410, Subscription
from bus.sentences import N_, Said, Sentence, sentence

SPOOL_NEARLY_FULL: Final = 0.8
_UNKNOWN: Final = 404
_QUARANTINE: Final = "quarantine"
_OPENED: Final = {
    "silent": N_("the subscriber {name} of {destination} does not answer; its breaker is open on {nodes}"),
    "failing": N_("the subscriber {name} of {destination} fails with {status}; its breaker is open on {nodes}"),
    "refusing": N_("the subscriber {name} of {destination} refuses with {status}; its breaker is open on {nodes}"),
}
_REPAIR: Final = {
    "silent": N_("see whether it runs, and send it a sample once it is back; what it missed is delivered then"),
    "failing": N_("look at its failures, and send it a sample once it is repaired; what it missed is delivered then"),
    "refusing": N_("it refuses messages as they are, whenever they come: repair it, or edit and resend them"),
}
_NEEDED: Final = {
    "receiver": N_("no receiver is alive: new messages are refused; producers keep theirs in their spools"),
    "dispatcher": N_("no dispatcher is alive: nothing is delivered; what was accepted waits"),
    "compensator": N_("no compensator is alive: retries, resends and messages for later wait"),
}
_TURNED_AWAY: Final = {
    USED_SHARE: N_("{count} messages to {destination} were refused for now: what waits fills its share of the spool"),
    USED_RATE: N_("{count} messages to {destination} were refused for now: more come than its rate allows"),
    USED_KEY_RATE: N_("{count} messages of {key} were refused for now: it sends more than its rate allows"),
}
_MAKE_ROOM: Final = {
    USED_SHARE: N_("producers send them again; see what it waits for: a pause, the store, a broker, a subscriber"),
    USED_RATE: N_("producers send them again; find who sends so many, or raise the rate of the destination"),
    USED_KEY_RATE: N_("producers send them again; find why it sends so many, or raise the rate of the key"),
}


class Severity(enum.StrEnum):
    """How badly a person is needed."""

    CRITICAL = "critical"  # messages are refused, or nothing flows
    WARNING = "warning"  # something waits or failed, and will not heal by itself or not soon
    INFO = "info"  # as a person wanted it, or on its way


class Alarm(NamedTuple):
    """One thing that needs a person.

    ``since`` in milliseconds, None when it is not known. ``link`` is the path below ``/api/v1`` of what it is about.
    An alarm without a destination concerns the whole bus.
    """

    severity: Severity
    what: Sentence
    next_step: Sentence
    link: str
    since: int | None = None
    destination: str | None = None
    subscription: str | None = None


class Part(NamedTuple):
    """A part that is not well, and the process that says so."""

    name: str
    trouble: Said
    owner: str
    node: str


class Queue(NamedTuple):
    """A local queue of a process."""

    owner: str
    node: str
    name: str
    figures: SpoolFigures


class OpenBreaker(NamedTuple):
    """A breaker that is not closed in one dispatcher."""

    node: str
    destination: str
    subscription: str
    figures: BreakerFigures


class Publishing(NamedTuple):
    """The cluster that a receiver publishes to over a transport, the primary one, and whether a person chose it."""

    url: str
    transport: str
    cluster: str
    primary: str
    is_chosen: bool


class Facts(NamedTuple):
    """The bus as it is known to be now.

    Attributes
    ----------
    roles
        The roles that live processes have.
    dead
        Deliveries that died within the last hour, by (destination, subscription).
    orphans
        How many queues of processes that are gone wait, by the host that sees them.
    rejected
        What receivers refused for good within the last day.
    turned_away
        What they refuse for now.
    """

    roles: Collection[str]
    parts: Sequence[Part] = ()
    queues: Sequence[Queue] = ()
    breakers: Sequence[OpenBreaker] = ()
    subscriptions: Collection[Subscription] = ()
    publishing: Sequence[Publishing] = ()
    dead: Mapping[tuple[str, str], int] = {}
    orphans: Mapping[str, int] = {}
    rejected: Sequence[RejectedFigures] = ()
    turned_away: Sequence[TurnedAwayFigures] = ()


def alarms(facts: Facts) -> list[Alarm]:
    """Return what needs a person, the worst first, and among equals the oldest first."""
    found = [
        *_roles(facts),
        *_parts(facts),
        *_queues(facts),
        *_breakers(facts),
        *_gone(facts),
        *_dead(facts),
        *_publishing(facts),
        *_orphans(facts),
        *_rejected(facts),
        *_turned_away(facts),
    ]
    order = list(Severity)
    return sorted(found, key=lambda one: (order.index(one.severity), one.since is None, one.since or 0, str(one.what)))


def _roles(facts: Facts) -> Iterator[Alarm]:
    for role in _NEEDED:
        if role not in facts.roles:
            step = sentence("start one: {command}", command=f"bus run {role}")
            yield Alarm(Severity.CRITICAL, sentence(_NEEDED[role]), step, "processes")


def _parts(facts: Facts) -> Iterator[Alarm]:
    for part in facts.parts:
        # Of spools the figures tell more.
        if not part.name.startswith("spool "):
            what = sentence(
                "{part} is not well on {node}: {trouble}", part=part.name, node=part.node, trouble=part.trouble
            )
            step = sentence("see docs/operations.md; bus doctor tells of each part")
            yield Alarm(Severity.CRITICAL, what, step, f"processes/{part.owner}")


def _queues(facts: Facts) -> Iterator[Alarm]:
    for queue in facts.queues:
        owner, node, name, figures = queue
        link = f"processes/{owner}"
        if figures.used >= SPOOL_NEARLY_FULL:
            yield _filling(queue, link)
        if figures.damaged:
            what = sentence(
                "{count} damaged records of spool {name} of {node} were set aside",
                count=figures.damaged,
                name=name,
                node=node,
            )
            yield Alarm(Severity.WARNING, what, sentence("see docs/operations.md, Damaged files"), link)
        if name == _QUARANTINE and figures.records:
            what = sentence(
                "{count} records on the brokers are not messages of the bus; {node} has set them aside",
                count=figures.records,
                node=node,
            )
            step = sentence("find who else writes there; look at them with bus spool show")
            yield Alarm(Severity.WARNING, what, step, link, since=figures.oldest)


def _filling(queue: Queue, link: str) -> Alarm:
    _, node, name, figures = queue
    step = sentence("find what its consumers wait for (store, broker, subscriber), or raise spool_limit")
    if figures.used >= 1:
        what = sentence(
            "spool {name} of {node} is full: new records are refused; nothing stored is lost", name=name, node=node
        )
        return Alarm(Severity.CRITICAL, what, step, link, since=figures.oldest)
    what = sentence(
        "spool {name} of {node} is {used} full; nothing stored is lost",
        name=name,
        node=node,
        used=f"{figures.used:.0%}",
    )
    return Alarm(Severity.WARNING, what, step, link, since=figures.oldest)


def _breakers(facts: Facts) -> Iterator[Alarm]:
    found: dict[tuple[str, str], list[OpenBreaker]] = {}
    for breaker in facts.breakers:
        found.setdefault((breaker.destination, breaker.subscription), []).append(breaker)
    for (destination, name), breakers in found.items():
        answered = max(breakers, key=lambda breaker: breaker.figures.probe_at).figures.answered
        nodes = ", ".join(sorted({breaker.node for breaker in breakers}))
        manner, status = _manner(answered), answered or 0
        what = sentence(_OPENED[manner], name=name, destination=destination, nodes=nodes, status=status)
        step = sentence(_REPAIR[manner])
        since = min(breaker.figures.since for breaker in breakers)
        yield Alarm(Severity.WARNING, what, step, _subscription(destination, name), since, destination, name)


def _manner(answered: int | None) -> str:
    """Return how a subscriber fails, by the status of its last answer: it is silent, refusing or failing."""
    if answered is None:
        return "silent"
    return "refusing" if is_permanent(answered) else "failing"


def _gone(facts: Facts) -> Iterator[Alarm]:
    for found in facts.subscriptions:
        if found.paused and found.paused_reason == PAUSED_BY_410:
            what = sentence(
                "{name} of {destination} is paused: {reason}; its messages wait",
                name=found.name,
                destination=found.destination,
                reason=reason_of(PAUSED_BY_410),
            )
            step = sentence("give it another URL and resume it, or remove it")
            yield Alarm(Severity.WARNING, what, step, _subscription(*found.key), None, *found.key)


def _dead(facts: Facts) -> Iterator[Alarm]:
    for (destination, name), count in facts.dead.items():
        if count:
            what = sentence(
                "{count} deliveries to {name} of {destination} died within the last hour: they are not tried again",
                count=count,
                name=name,
                destination=destination,
            )
            step = sentence(
                "see what they have in common (failures): repair the subscriber and resend, or edit what it refuses"
            )
            yield Alarm(Severity.WARNING, what, step, _subscription(destination, name), None, destination, name)


def _publishing(facts: Facts) -> Iterator[Alarm]:
    for found in facts.publishing:
        if found.cluster != found.primary:
            yield _chosen(found) if found.is_chosen else _failed_over(found)


def _chosen(found: Publishing) -> Alarm:
    what = sentence(
        "{url} publishes over {transport} to {cluster}, as chosen by hand",
        url=found.url,
        transport=found.transport,
        cluster=found.cluster,
    )
    return Alarm(Severity.INFO, what, sentence("bus cluster auto goes back to the primary"), "clusters")


def _failed_over(found: Publishing) -> Alarm:
    what = sentence(
        "{url} publishes over {transport} to {cluster}, since {primary} is not well",
        url=found.url,
        transport=found.transport,
        cluster=found.cluster,
        primary=found.primary,
    )
    step = sentence("repair {primary}; it goes back then", primary=found.primary)
    return Alarm(Severity.WARNING, what, step, "clusters")


def _orphans(facts: Facts) -> Iterator[Alarm]:
    for node, count in facts.orphans.items():
        if count:
            what = sentence("{count} local queues on {node} belong to processes that are gone", count=count, node=node)
            step = sentence("the sweeper empties them once they are idle; one that stays says why in its log")
            yield Alarm(Severity.INFO, what, step, "orphans")


def _rejected(facts: Facts) -> Iterator[Alarm]:
    found: dict[tuple[str, str], list[RejectedFigures]] = {}
    for figures in facts.rejected:
        found.setdefault((figures.source, figures.destination), []).append(figures)
    for (source, destination), parts in found.items():
        what = sentence(
            "{count} messages of {source} to {destination} were refused for good with {status}: {reason}",
            count=sum(figures.count for figures in parts),
            source=source or "-",
            destination=destination,
            status=parts[-1].status,
            reason=parts[-1].reason,
        )
        step = sentence(
            "their producer keeps them, see bus spool ls where it runs; bus spool drain --rejected sends them again"
        )
        # One that is not there concerns the whole bus: who may see single destinations must not see it.
        place = None if parts[-1].status == _UNKNOWN else destination
        link = "destinations" if place is None else f"destinations/{place}"
        yield Alarm(Severity.WARNING, what, step, link, min(figures.since for figures in parts), place)


def _turned_away(facts: Facts) -> Iterator[Alarm]:
    found: dict[tuple[str, str], list[TurnedAwayFigures]] = {}
    for figures in facts.turned_away:
        found.setdefault((figures.whose, figures.why), []).append(figures)
    for (whose, why), parts in found.items():
        count, since = sum(figures.count for figures in parts), min(figures.since for figures in parts)
        of_key = why == USED_KEY_RATE
        what = sentence(_TURNED_AWAY[why], count=count, **{"key" if of_key else "destination": whose})
        link, place = ("keys", None) if of_key else (f"destinations/{whose}", whose)
        # A rate is refused as a person wants it; a spool that one destination fills may need a person.
        severity = Severity.WARNING if why == USED_SHARE else Severity.INFO
        yield Alarm(severity, what, sentence(_MAKE_ROOM[why]), link, since, place)


def _subscription(destination: str, name: str) -> str:
    return f"destinations/{destination}/subscriptions/{name}"
