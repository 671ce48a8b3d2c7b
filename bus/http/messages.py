"""The calls that take messages, as whoever takes them answers: their path, bounds and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from bus.errors import BusError, InvalidMessage, MessageTooLarge
from bus.http.asgi import encode
from bus.http.draft import Draft, draft_of_line
from bus.http.problem import problem_of

PREFIX: Final = "/v1/messages"
BATCH_LINES: Final = 1000
BATCH_BYTES: Final = 16 * 2**20


class AcceptedMessage(NamedTuple):
    """A message that is durable where it was taken, now or since an earlier request.

    ``unchecked`` if its idempotency key may have been used before: the process, or the store, that could say did not
    answer.
    """

    id: str
    duplicate: bool
    unchecked: bool = False


def drafts_of(body: bytes) -> list[Draft | BusError]:
    """Read the lines of a batch: a draft for each, or why that line is refused.

    Raises
    ------
    MessageTooLarge
        There are too many; none is looked at.
    """
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) > BATCH_LINES:
        raise MessageTooLarge(f"a batch has at most {BATCH_LINES} lines; this has {len(lines)}")
    return [_read(line) for line in lines]


def _read(line: bytes) -> Draft | BusError:
    try:
        return draft_of_line(line)
    except InvalidMessage as error:
        return error


def content_of(answer: AcceptedMessage) -> bytes:
    """Return the body of the answer to a single message."""
    unchecked = b', "unchecked": true' if answer.unchecked else b""
    duplicate = b"true" if answer.duplicate else b"false"
    return b'{"id": "%s", "duplicate": %s%s}' % (answer.id.encode(), duplicate, unchecked)


def results_of(drafts: Sequence[Draft | BusError], answers: Sequence[AcceptedMessage | BusError]) -> bytes:
    """Return the body of the answer to a batch."""
    return encode({"results": [_result(draft, answer) for draft, answer in zip(drafts, answers, strict=True)]})


def _result(draft: Draft | BusError, answer: AcceptedMessage | BusError) -> dict[str, Any]:
    if isinstance(answer, AcceptedMessage):
        unchecked = {"unchecked": True} if answer.unchecked else {}
        return {"id": answer.id, "status": "duplicate" if answer.duplicate else "accepted", **unchecked}
    given = draft.id if isinstance(draft, Draft) else ""
    return {"id": given or None, "status": "rejected", "error": problem_of(answer)}
