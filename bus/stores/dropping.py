"""Rules for dropping a partition that the pipeline archived, shared by every store."""

from __future__ import annotations

from bus.domain.tracing.contents import Contents, Tally
from bus.errors import Conflict, NotFound


def check_contents(name: str, tally: Tally, expected: Contents) -> None:
    """Raise ``Conflict`` unless a partition is finished and has exactly what is expected."""
    if not tally.is_finished:
        raise unfinished(name)
    if tally.contents != expected:
        found = tally.contents
        raise Conflict(
            f"partition {name} has {_said(found)}, not {_said(expected)}; nothing was dropped",
            hint="it changed since it was archived, or the archive is not whole: archive it again",
        )


def _said(contents: Contents) -> str:
    return f"{contents.messages} messages, {contents.deliveries} deliveries, checksum {contents.checksum}"


def unfinished(name: str) -> Conflict:
    """Return the error for a partition in which something is still to happen."""
    return Conflict(
        f"partition {name} has messages that are not finished; nothing was dropped",
        hint="wait for their deliveries, or resend or cancel them, then archive it again",
    )


def changed(name: str) -> Conflict:
    """Return the error for a partition that was written to while it was looked at."""
    return Conflict(
        f"partition {name} was written to meanwhile; nothing was dropped", hint="archive it again, it has changed"
    )


def absent(name: str) -> NotFound:
    """Return the error for a partition that is not there."""
    return NotFound(
        f"there is no partition {name}", hint="it was dropped before, or nothing of its day was ever stored"
    )
