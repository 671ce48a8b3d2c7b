"""A trace as the document that MongoDB keeps, readable in its shell, and back.

A form may lack fields that have a default and may have others besides, as one does that another version of the bus
wrote; anything else is ``DamagedDocument``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from bus.domain.delivery.delivery import Attempt, Resend, Status
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.domain.searching.conditions import trace_id_of
from bus.domain.tracing.failures import FailureGroup, failures_in
from bus.domain.tracing.trace import DeliveryTrace, Trace, attempts_in_order
from bus.stores.mongodb.connection import Form
from bus.stores.mongodb.indexes import lane_entry
from bus.stores.mongodb.names import lane_name

Kind = TypeVar("Kind", bound=msgspec.Struct)
Value = TypeVar("Value")


class DamagedDocument(Exception):
    """A document is not one that this bus can read; the text says what is wrong with it."""


def damaged(error: Exception) -> DamagedDocument:
    """Return the error of a document for one that its fields gave."""
    if isinstance(error, KeyError):
        return DamagedDocument(f"field {error} missing")
    return DamagedDocument(str(error))


def trace_form(trace: Trace, body: str) -> Form:
    """Return a trace's document without its revision; ``body`` is the reference of the message's body."""
    form: Form = {
        "destination": trace.destination,
        "retention_days": trace.retention_days,
        "received_at": _received_at(trace),
        "status": trace.status.value,
        "lanes": sorted(
            lane_entry(delivery.status, lane_name(trace.destination, name))
            for name, delivery in trace.deliveries.items()
            if delivery.status is not Status.DELIVERED
        ),
        "names": _names(trace.message),
        "failures": [_failure_form(group) for group in failures_in(trace)],
        "deliveries": [_delivery_form(name, delivery) for name, delivery in sorted(trace.deliveries.items())],
    }
    if trace.message is not None:
        form["message"] = _message_form(trace.message)
        form["body"] = {"ref": body, "bytes": trace.body_bytes}
    return form


def read_trace(form: Form) -> Trace:
    """Undo ``trace_form``.

    Raises
    ------
    Damaged
        The form lacks a part, or one is of another kind.
    """
    try:
        trace = Trace(
            _typed(form["_id"], str),
            _typed(form["destination"], str),
            _typed(form["retention_days"], int),
            deliveries={
                _typed(each["subscription"], str): _read_delivery(each) for each in _typed(form["deliveries"], list)
            },
        )
        if form.get("message") is not None:
            trace.message = _read_message(trace.id, form["message"])
            trace.body_bytes = _typed(form["body"]["bytes"], int)
            read_body_reference(form)
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise damaged(error) from error
    return trace


def read_body_reference(form: Form) -> str:
    """Return the reference of the message's body, empty while there is no message."""
    return _typed(form["body"]["ref"], str) if form.get("message") is not None else ""


_TEXT: Final = tuple(
    name for name in Message.__struct_fields__ if name not in {"id", "body", "headers", "expected"}
)  # what has the same form in the document
_STATE: Final = tuple(name for name in DeliveryTrace.__struct_fields__ if name not in {"attempts", "resends"})


def _message_form(message: Message) -> Form:
    form = {name: getattr(message, name) for name in _TEXT}
    form["headers"] = [{"name": name, "value": value} for name, value in message.headers.items()]
    form["expected"] = list(message.expected)
    return form


def _read_message(message_id: str, form: Form) -> Message:
    headers = {each["name"]: each["value"] for each in form.get("headers", [])}
    given = {"id": message_id, "body": b"", "headers": headers}
    return _struct(Message, form | given)


def _delivery_form(name: str, delivery: DeliveryTrace) -> Form:
    form = {"subscription": name} | {field: getattr(delivery, field) for field in _STATE}
    form["status"] = delivery.status.value
    form["attempts"] = [_attempt_form(attempt) for attempt in attempts_in_order(delivery)]
    form["resends"] = [structs.asdict(resend) for resend in delivery.resends]
    return form


def _failure_form(group: FailureGroup) -> Form:
    (status,) = group.counts
    return {
        "subscription": group.subscription,
        "signature": group.signature,
        "status": status.value,
        "at": group.last_at,
    }


def read_failures(form: Form) -> list[FailureGroup]:
    """Return a group for each delivery of a document that fails.

    Raises
    ------
    Damaged
        The form lacks a part, or one is of another kind.
    """
    try:
        return [_read_failure(form, each) for each in _typed(form.get("failures", []), list)]
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
        raise damaged(error) from error


def _read_failure(form: Form, failure: Form) -> FailureGroup:
    at = _typed(failure["at"], int)
    return FailureGroup(
        _typed(form["destination"], str),
        _typed(failure["subscription"], str),
        _typed(failure["signature"], str),
        {_typed(failure["status"], Status): 1},
        at,
        at,
        _typed(form["_id"], str),
    )


def _read_delivery(form: Form) -> DeliveryTrace:
    attempts = [_struct(Attempt, each) for each in form.get("attempts", [])]
    resends = tuple(_struct(Resend, each) for each in form.get("resends", []))
    delivery = _struct(DeliveryTrace, {**form, "attempts": {}, "resends": ()})
    delivery.resends = resends
    delivery.attempts = {attempt.id: attempt for attempt in attempts}
    return delivery


def _attempt_form(attempt: Attempt) -> Form:
    form = structs.asdict(attempt)
    form["by"] = attempt.by.value
    form["phases"] = list(attempt.phases)
    form["batch"] = attempt.batch and list(attempt.batch)
    form["receipt"] = attempt.receipt and list(attempt.receipt)
    return form


def _struct(kind: type[Kind], form: Form) -> Kind:
    """Return a record from a document's fields, with its defaults for those that are missing."""
    names: Sequence[str] = kind.__struct_fields__
    defaults: Sequence[Any] = kind.__struct_defaults__
    required = len(names) - len(defaults)
    values = [
        form[name] if place < required else form.get(name, defaults[place - required])
        for place, name in enumerate(names)
    ]
    return msgspec.convert(values, kind)


def _typed(value: Any, kind: type[Value]) -> Value:
    return msgspec.convert(value, kind)


def _names(message: Message | None) -> list[str]:
    """Return the names of a message besides its id and its biz id: its keys, trace id and first id."""
    if message is None:
        return []
    names = (message.key, message.idempotency_key, trace_id_of(message.traceparent), message.original_id)
    return sorted({name for name in names if name})


def _received_at(trace: Trace) -> int:
    """Return the time of receipt of the message; while it has not arrived, the time of its id."""
    return trace.message.received_at if trace.message is not None else id_time(trace.id)
