"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from bus.errors import (
    AccessDenied,
    BusError,
    Conflict,
    EgressDenied,
    EventsUnavailable,
    InvalidDestination,
    InvalidMessage,
    IssuerUnavailable,
    LeaseLost,
    MessageTooLarge,
    NotFound,
    NotLeader,
    PeerUnavailable,
    QuotaUsedUp,
    RefusedElsewhere,
    SpoolError,
    SpoolFull,
    StoreUnavailable,
    TooManyAttempts,
    TransportError,
    TransportRefused,
)
from bus.localized_text import localized

CONTENT_TYPE: Final = "application/problem+json"
_HEADERS: Final = {
    401: {"www-authenticate": "Bearer"},
    429: {"retry-after": "1"},
    503: {"retry-after": "1"},
}
_TITLES: Final = {
    400: "Malformed request",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request not received in time",
    409: "Conflict",
    413: "Too large",
    414: "Target too long",
    415: "Unsupported content type",
    421: "Served elsewhere",
    422: "Invalid value",
    429: "Too many requests",
    431: "Head too long",
    500: "Internal error",
    501: "Not understood here",
    503: "Temporarily unavailable",
    505: "Version not supported",
    507: "Spool full",
}
FAILED: Final = localized("the bus failed at this request; what it acknowledged before is not lost")
REPORT_IT: Final = localized("its log has the traceback: report it; see bus doctor")
# The first class that matches decides.
_STATUS: Final[tuple[tuple[type[BusError], int], ...]] = (
    (MessageTooLarge, 413),
    (InvalidDestination, 404),
    (InvalidMessage, 422),
    (EgressDenied, 422),
    (QuotaUsedUp, 429),
    (SpoolFull, 507),
    (SpoolError, 503),
    (StoreUnavailable, 503),
    (TransportRefused, 409),
    (TransportError, 503),
    (LeaseLost, 409),
    (NotLeader, 503),
    (PeerUnavailable, 503),
    (IssuerUnavailable, 503),
    (NotFound, 404),
    (Conflict, 409),
)


PRODUCER: Final = "producer"
"""``field`` of the refusal of a message whose producer has lost the lease of its destination."""
# Refusals after which a producer's spool keeps a message: a key is mended, a rate passes.
_PASSING: Final = frozenset({401, 403, 408, 425, 429})
_FIRST_SERVER_ERROR: Final = 500


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened, what was not lost, what to do.

    Attributes
    ----------
    retry_after
        In how many seconds to try again; 0 when not said.
    leader
        The URL of the process to send to instead.
    """

    title: str
    status: int
    detail: str = ""
    hint: str = ""
    field: str = ""
    retry_after: int = 0
    leader: str = ""
    type: str = "about:blank"


def is_kept_trying(status: int) -> bool:
    """Whether a producer sends a message again after this status: the cause passes, or an operator mends it."""
    return status in _PASSING or status >= _FIRST_SERVER_ERROR


def problem(
    status: int, detail: str, *, hint: str = "", field: str = "", retry_after: int = 0, leader: str = ""
) -> Problem:
    """Return the document of a status."""
    return Problem(_TITLES.get(status, "Error"), status, detail, hint, field, retry_after, leader)


def problem_of(error: BusError) -> Problem:
    """Return the document of an error of the bus."""
    if isinstance(error, RefusedElsewhere):
        return problem(error.status, str(error), hint=error.hint, field=error.field, retry_after=error.wait)
    wait = error.wait if isinstance(error, (NotLeader, QuotaUsedUp, TooManyAttempts)) else 0
    if isinstance(error, (AccessDenied, EventsUnavailable)):
        return problem(error.status, str(error), hint=error.hint, retry_after=wait)
    field = error.field if isinstance(error, (InvalidMessage, QuotaUsedUp)) else ""
    if isinstance(error, EgressDenied):
        field = "url"
    elif isinstance(error, LeaseLost):
        field = PRODUCER
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    leader = error.url if isinstance(error, NotLeader) else ""
    return problem(status, str(error), hint=error.hint, field=field, retry_after=wait, leader=leader)


def failure() -> Problem:
    """Return the document of a failure inside the bus (500)."""
    return problem(500, str(FAILED), hint=str(REPORT_IT))


def headers_of(status: int, retry_after: int = 0) -> Mapping[str, str]:
    """Return the headers that go with a status, and with the seconds to wait when they are known."""
    own = _HEADERS.get(status, {})
    return {**own, "retry-after": str(retry_after)} if retry_after else own


def fields_of(found: Problem) -> list[tuple[bytes, bytes]]:
    """Return those headers of a document as they are sent."""
    return [(name.encode(), value.encode()) for name, value in headers_of(found.status, found.retry_after).items()]
