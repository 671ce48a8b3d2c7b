"""Which facts about the bus need a person, how badly, and what that person does next."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bus.domain.subscription import PAUSED_BY_410, Subscription
from bus.domain.vitals import BreakerFigures, SpoolFigures

SPOOL_NEARLY_FULL: Final = 0.8
_QUARANTINE: Final = "quarantine"
_NEEDED: Final = {
    "receiver": "new messages are refused; producers keep theirs in their spools",
    "dispatcher": "nothing is delivered; what was accepted waits",
    "compensator": "retries, resends and messages for later wait",
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
    what: str
    next_step: str
    link: str
    since: int | None = None
    destination: str | None = None
    subscription: str | None = None


class Part(NamedTuple):
    """A part that is not well, and the process that says so."""

    name: str
    trouble: str
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
        Those that live processes have.
    dead
        Deliveries that died within the last hour, by (destination, subscription).
    orphans
        How many queues of processes that are gone wait, by the node that sees them.
    """

    roles: Collection[str]
    parts: Sequence[Part] = ()
    queues: Sequence[Queue] = ()
    breakers: Sequence[OpenBreaker] = ()
    subscriptions: Collection[Subscription] = ()
    publishing: Sequence[Publishing] = ()
    dead: Mapping[tuple[str, str], int] = {}
    orphans: Mapping[str, int] = {}


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
    ]
    order = list(Severity)
    return sorted(found, key=lambda one: (order.index(one.severity), one.since is None, one.since or 0, one.what))


def _roles(facts: Facts) -> Iterator[Alarm]:
    for role, effect in _NEEDED.items():
        if role not in facts.roles:
            what = f"no {role} is alive: {effect}"
            yield Alarm(Severity.CRITICAL, what, f"start one: bus run {role}", "processes")


def _parts(facts: Facts) -> Iterator[Alarm]:
    for part in facts.parts:
        # Of spools the figures tell more.
        if not part.name.startswith("spool "):
            what = f"{part.name} is not well on {part.node}: {part.trouble}"
            step = "see docs/operations.md; bus doctor tells of each part"
            yield Alarm(Severity.CRITICAL, what, step, f"processes/{part.owner}")


def _queues(facts: Facts) -> Iterator[Alarm]:
    for owner, node, name, figures in facts.queues:
        link = f"processes/{owner}"
        if figures.used >= SPOOL_NEARLY_FULL:
            is_full = figures.used >= 1
            state = "full: new records are refused" if is_full else f"{figures.used:.0%} full"
            yield Alarm(
                Severity.CRITICAL if is_full else Severity.WARNING,
                f"spool {name} of {node} is {state}; nothing stored is lost",
                "find what its consumers wait for (store, broker, subscriber), or raise spool_limit",
                link,
                since=figures.oldest,
            )
        if figures.damaged:
            what = f"{figures.damaged} damaged records of spool {name} of {node} were set aside"
            yield Alarm(Severity.WARNING, what, "see docs/operations.md, Damaged files", link)
        if name == _QUARANTINE and figures.records:
            what = f"{figures.records} records on the brokers are not messages of the bus; {node} has set them aside"
            step = "find who else writes there; look at them with bus spool show"
            yield Alarm(Severity.WARNING, what, step, link, since=figures.oldest)


def _breakers(facts: Facts) -> Iterator[Alarm]:
    found: dict[tuple[str, str], list[OpenBreaker]] = {}
    for breaker in facts.breakers:
        found.setdefault((breaker.destination, breaker.subscription), []).append(breaker)
    for (destination, name), breakers in found.items():
        nodes = ", ".join(sorted({breaker.node for breaker in breakers}))
        yield Alarm(
            Severity.WARNING,
            f"the subscriber {name} of {destination} does not answer; its breaker is open on {nodes}",
            "look at its failures, and send it a sample once it is repaired; what it missed is delivered then",
            _subscription(destination, name),
            min(breaker.figures.since for breaker in breakers),
            destination,
            name,
        )


def _gone(facts: Facts) -> Iterator[Alarm]:
    for found in facts.subscriptions:
        if found.paused and found.paused_reason == PAUSED_BY_410:
            yield Alarm(
                Severity.WARNING,
                f"{found.name} of {found.destination} is paused: {PAUSED_BY_410}; its messages wait",
                "give it another URL and resume it, or remove it",
                _subscription(*found.key),
                None,
                *found.key,
            )


def _dead(facts: Facts) -> Iterator[Alarm]:
    for (destination, name), count in facts.dead.items():
        if count:
            yield Alarm(
                Severity.WARNING,
                f"{count} deliveries to {name} of {destination} died within the last hour: no retry is left",
                "see what they have in common (failures), repair the subscriber, then resend the group",
                _subscription(destination, name),
                None,
                destination,
                name,
            )


def _publishing(facts: Facts) -> Iterator[Alarm]:
    for url, transport, cluster, primary, is_chosen in facts.publishing:
        if cluster != primary:
            why = "as chosen by hand" if is_chosen else f"since {primary} is not well"
            step = "bus cluster auto goes back to the primary" if is_chosen else f"repair {primary}; it goes back then"
            severity = Severity.INFO if is_chosen else Severity.WARNING
            yield Alarm(severity, f"{url} publishes over {transport} to {cluster}, {why}", step, "clusters")


def _orphans(facts: Facts) -> Iterator[Alarm]:
    for node, count in facts.orphans.items():
        if count:
            what = f"{count} local queues on {node} belong to processes that are gone"
            step = "the sweeper empties them once they are idle; one that stays says why in its log"
            yield Alarm(Severity.INFO, what, step, "orphans")


def _subscription(destination: str, name: str) -> str:
    return f"destinations/{destination}/subscriptions/{name}"
