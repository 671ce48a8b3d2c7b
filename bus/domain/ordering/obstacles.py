"""Obstacles of a strictly ordered destination, and a person's next step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from bus.domain.ordering.chain import Chain, GroupStanding, Role, Segment
from bus.domain.times import format_time
from bus.localized_text import N_, AnyText, LocalizedText, listed, localized

_MOST_NAMED: Final = 3
_NOBODY: Final = {
    Role.SENDER: N_("no process sends to {code}: producers keep their messages in their spools"),
    Role.READER: N_("no process reads {code}: its messages wait on their groups of brokers"),
}
_GONE: Final = {
    Role.SENDER: N_("the process at {url} that sends to {code} is gone: producers keep their messages"),
    Role.READER: N_("the process at {url} that reads {code} is gone: its messages wait on their groups of brokers"),
}
_TAKES_OVER: Final = {
    Role.SENDER: N_("a receiver that knows its groups takes over within seconds; start one: {command}"),
    Role.READER: N_("a dispatcher that knows its groups takes over within seconds; start one: {command}"),
}
_COMMANDS: Final = {Role.SENDER: "bus run receiver", Role.READER: "bus run dispatcher"}
BRING_BACK: Final = localized("bring the coordinator back, or start processes of one version; see: bus doctor")


class GroupState(NamedTuple):
    """State of a group of brokers, as one process sees it.

    Attributes
    ----------
    answers
        Whether enough of its copies answer for it to be read.
    trouble
        Text of its error; empty for none.
    standing
        Its last answer; None when it was not asked.
    """

    answers: bool
    trouble: AnyText = ""
    standing: GroupStanding | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every copy is up, as far as is known."""
        return not self.trouble if self.standing is None else self.standing.is_whole


class Obstacle(NamedTuple):
    """Obstacle for which senders or readers wait, as one of ``role`` sees it, and the next step of a person."""

    role: Role
    what: LocalizedText
    next_step: LocalizedText


def obstacles(
    code: str,
    chain: Chain,
    subscriptions: Collection[str],
    groups: Mapping[str, GroupState],
    gone: Collection[Role] = (),
) -> list[Obstacle]:
    """Return the obstacles of a destination, senders first; none while messages flow, or will within seconds.

    Parameters
    ----------
    groups
        Those that are configured where this is asked, by name; of others nothing is known.
    gone
        The roles whose owners are known not to live any more.
    """
    found = [_owner(code, chain, role, is_gone=role in gone) for role in Role]
    found.insert(1, _taking(code, chain, groups))
    return [one for one in found if one is not None] + list(_reading(code, chain, subscriptions, groups))


def _owner(code: str, chain: Chain, role: Role, *, is_gone: bool) -> Obstacle | None:
    lease = chain.lease(role)
    if lease.owner and not is_gone:
        return None
    what = localized(_GONE[role], code=code, url=lease.url) if lease.owner else localized(_NOBODY[role], code=code)
    return Obstacle(role, what, localized(_TAKES_OVER[role], command=_COMMANDS[role]))


def _taking(code: str, chain: Chain, groups: Mapping[str, GroupState]) -> Obstacle | None:
    """Return the obstacle when no group takes messages, and none is about to."""
    waiting = [name for name in chain.send if name not in groups or not groups[name].trouble]
    last = chain.consume[-1].group if chain.consume else ""
    joining = [name for name, state in groups.items() if state.is_whole and (name == last or not chain.holds(name))]
    if waiting or joining:
        return None
    return Obstacle(
        Role.SENDER,
        localized("no group of brokers takes messages to {code}: producers keep them in their spools", code=code),
        localized("bring all copies of a group back; of those still to be read only the last one goes on taking some"),
    )


def _reading(
    code: str, chain: Chain, subscriptions: Collection[str], groups: Mapping[str, GroupState]
) -> Iterator[Obstacle]:
    """Yield the segments that are lost, and those that are next for some subscriptions and cannot be read."""
    for segment in chain.consume:
        names = [name for name in sorted(subscriptions) if chain.next_for(name) == segment]
        if segment.is_lost and (late := sorted(set(subscriptions) - set(segment.drained))):
            yield _lost(code, chain, segment, late)
        elif names and not (segment.group in groups and groups[segment.group].answers):
            yield _unreadable(code, chain, segment, names, is_known=segment.group in groups)


def _lost(code: str, chain: Chain, segment: Segment, names: list[str]) -> Obstacle:
    """Return the obstacle of a group that lost its disks: reading stops until a person has decided."""
    following = chain.after(segment)
    until = following.since if following is not None else 0
    values = {
        "names": listed(names, _MOST_NAMED),
        "code": code,
        "group": segment.group,
        "since": format_time(segment.since) if segment.since else "?",
        "until": format_time(until) if until else "?",
    }
    return Obstacle(
        Role.READER,
        localized(
            "group {group} lost its disks: what it took of {code} from {since} to {until}, and {names} had not read, "
            "is missing; what came after it waits",
            **values,
        ),
        localized(
            "resend the pending messages of that time with --reorder; then let readers continue: {command}",
            command=f"bus ordering abandon {code} {segment.group}",
        ),
    )


def _unreadable(code: str, chain: Chain, segment: Segment, names: list[str], *, is_known: bool) -> Obstacle:
    group, current = segment.group, chain.current
    values = {"names": listed(names, _MOST_NAMED), "code": code, "group": group}
    abandon = f"bus ordering abandon {code} {group}"
    if not is_known:
        return Obstacle(
            Role.READER,
            localized("{names} of {code} wait for group {group}, which is not configured here", **values),
            localized(
                "name it in the configuration again until it is read to its end; if it is lost for good: {command}",
                command=abandon,
            ),
        )
    if current == segment:
        return Obstacle(
            Role.READER,
            localized("{names} of {code} wait for group {group}, which does not answer", **values),
            localized("bring its brokers back; senders go on with another group when they next write"),
        )
    what = (
        localized(
            "{names} of {code} wait for group {group}, which does not answer; senders went on with {current}",
            current=current.group,
            **values,
        )
        if current is not None
        else localized("{names} of {code} wait for group {group}, which does not answer, nor does another", **values)
    )
    return Obstacle(
        Role.READER,
        what,
        localized(
            "bring its brokers back: what they hold comes first; if it is lost for good: {command}", command=abandon
        ),
    )


def no_chain(code: str, why: AnyText) -> LocalizedText:
    """Return the obstacle of a destination whose chain the coordinator does not return."""
    return localized("the coordinator does not give the chain of {code}: {why}", code=code, why=why)
