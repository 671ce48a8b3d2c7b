"""Processes that cannot be reached, by their documents, and when the others may use their slots."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from bus.cluster.member import Member
from bus.domain.health.vitals import UnreachableProcess
from bus.ports.store import Document

_FORGOTTEN: Final = 600.0
_FORGOTTEN_WITH_RECORDS: Final = 86_400.0
# Seconds after which the others use the slots of unreachable dispatchers, even if these are the majority.
_OUTNUMBERED: Final = 120.0


class UnreadableDocument(NamedTuple):
    """The document of a process that is unreachable, or of another version.

    ``at`` is when it was first read (monotonic seconds); ``process`` is None for a document of another version.
    """

    document: Document
    at: float
    process: UnreachableProcess | None

    def is_forgotten(self, now: float) -> bool:
        """Whether it is old enough to be deleted."""
        has_records = self.process is not None and self.process.records > 0
        return now - self.at > (_FORGOTTEN_WITH_RECORDS if has_records else _FORGOTTEN)


class MissingDispatcher(NamedTuple):
    """A dispatcher that cannot be reached, and for how long (seconds) that is known."""

    sharer: str
    shared_with: tuple[str, ...]
    has_ended: bool
    age: float


def unreachable_document(member: Member, *, has_ended: bool) -> bytes:
    """Return the document of a process that does not answer."""
    records = sum(spool.records for spool in member.spools.values())
    return msgspec.json.encode(
        UnreachableProcess(
            owner=member.owner,
            node=member.node,
            url=member.url,
            roles=member.roles,
            last_seen_at=member.told_at,
            records=records,
            sharer=member.sharer,
            shared_with=member.view.owners,
            has_ended=has_ended,
        )
    )


def address_of(process: UnreachableProcess) -> Member:
    """Return where a process that cannot be reached was."""
    return Member(
        owner=process.owner,
        node=process.node,
        url=process.url,
        roles=process.roles,
        version="",
        started_at=0,
        group=process.sharer,
    )


def read_unreachable(document: Document) -> UnreachableProcess | None:
    """Return the process that a document declares unreachable; None when it is another document."""
    try:
        return msgspec.json.decode(document.value, type=UnreachableProcess)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def missing_dispatchers(unread: Iterable[UnreadableDocument], now: float) -> list[MissingDispatcher]:
    """Return the dispatchers that cannot be reached."""
    found = [(one.process, now - one.at) for one in unread if one.process is not None]
    return [
        MissingDispatcher(process.sharer, process.shared_with, process.has_ended, age)
        for process, age in found
        if "dispatcher" in process.roles
    ]


def have_majority(missing: Iterable[MissingDispatcher], sharers: Collection[str]) -> bool:
    """Whether those that a view of these ``sharers`` leaves out may have a lease by promises.

    They can be more than half of the dispatchers of the last view of one of them: all but ``sharers``, and those with
    a process that cannot be reached.
    """
    recent = [one for one in missing if one.age < _OUTNUMBERED]
    unsure = {one.sharer for one in recent}
    # A process that has ended may run again on the other side of a partition, beside one that was unreachable before.
    return not all(one.has_ended for one in recent) and any(
        2 * len(set(one.shared_with) - (set(sharers) - unsure)) > len(one.shared_with)
        for one in recent
        if one.sharer not in sharers
    )
