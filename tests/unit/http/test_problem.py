"""Every error of the bus has a status that the contract documents."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from bus import errors
from bus.errors import AccessDenied, BusError, EgressDenied, InvalidMessage
from bus.http.problem import CONTENT_TYPE, headers_of, problem, problem_of

STATUS = {
    "BusError": 500,
    "ConfigurationError": 500,
    "InvalidMessage": 422,
    "InvalidDestination": 404,
    "MessageTooLarge": 413,
    "WrongType": 422,
    "SpoolError": 503,
    "SpoolFull": 507,
    "SpoolLocked": 503,
    "SpoolFailed": 503,
    "SpoolClosed": 503,
    "TransportError": 503,
    "PeerUnavailable": 503,
    "RefusedElsewhere": 503,
    "NotLeader": 503,
    "LeaseLost": 409,
    "IssuerUnavailable": 503,
    "TransportUnavailable": 503,
    "TransportRefused": 409,
    "StoreError": 500,
    "StoreUnavailable": 503,
    "NotFound": 404,
    "Conflict": 409,
    "EventsUnavailable": 503,
    "EgressDenied": 422,
    "BackupError": 500,
    "AccessDenied": 403,
    "TooManyAttempts": 429,
    "QuotaUsedUp": 429,
    # Answers of a receiver to the SDK; a server that meets one has a defect.
    "ReceiverError": 500,
    "ReceiverUnavailable": 500,
    "ReceiverRefused": 500,
    "Unconfirmed": 500,
}
DOCUMENTED = {400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 503, 507}


def tree(kind: type[BusError] = BusError) -> Iterator[type[BusError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def test_no_error_is_without_a_decision() -> None:
    assert {kind.__name__ for kind in tree()} == set(STATUS)


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.__name__)
def test_every_error_maps_to_its_status(kind: type[BusError]) -> None:
    found = problem_of(kind("what happened", hint="what to do"))
    assert found.status == STATUS[kind.__name__]
    assert found.status in DOCUMENTED
    assert (found.detail, found.hint) == ("what happened", "what to do")
    assert found.title != "Error"


@pytest.mark.parametrize("kind", [kind for kind in tree() if kind.retriable], ids=lambda kind: kind.__name__)
def test_what_a_client_may_repeat_has_a_status_that_clients_repeat(kind: type[BusError]) -> None:
    if kind.__name__ != "ReceiverUnavailable":
        assert STATUS[kind.__name__] in {429, 503, 507}


def test_access_has_the_status_of_the_error() -> None:
    assert problem_of(AccessDenied("no key", status=401)).status == 401


def test_a_field_is_named() -> None:
    assert problem_of(InvalidMessage("bad", field="deliver_at")).field == "deliver_at"
    assert problem_of(EgressDenied("no")).field == "url"


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        *((status, {"retry-after": "1"}) for status in (429, 503)),
        (401, {"www-authenticate": "Bearer"}),
        *((status, {}) for status in (507, 422, 403)),
    ],
)
def test_headers_go_with_a_status(status: int, headers: dict[str, str]) -> None:
    assert headers_of(status) == headers


def test_the_document_is_that_of_rfc_9457() -> None:
    assert CONTENT_TYPE == "application/problem+json"
    assert msgspec.to_builtins(problem(404, "there is no x", hint="make it", field="x")) == {
        "title": "Not found",
        "status": 404,
        "detail": "there is no x",
        "hint": "make it",
        "field": "x",
    }
    assert msgspec.to_builtins(problem(418, "")) == {"title": "Error", "status": 418}


def test_the_tree_is_the_one_that_is_drawn() -> None:
    drawn = {line.split()[-1] if "──" not in line else line.split("── ")[1].split()[0] for line in _drawing()}
    assert drawn == set(STATUS)


def _drawing() -> list[str]:
    lines = (errors.__doc__ or "").splitlines()
    return [line for line in lines if "──" in line or line.strip() == "BusError"]
