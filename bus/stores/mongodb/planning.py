"""The index that a search follows in one partition."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import Status
from bus.domain.searching.conditions import ids_traced_as, parse_ref
from bus.domain.searching.selection import Selection
from bus.domain.tracing.signature import FAILING
from bus.stores.mongodb.connection import Form
from bus.stores.mongodb.indexes import lane_entry
from bus.stores.mongodb.names import lane_name

_NARROWEST_FIRST: Final = ("message.biz_id", "status", "destination", "message.source")


class Plan(NamedTuple):
    """The condition that an index answers in the order of ids, and the others; none when every row is a match.

    ``open`` says whether the selection asks for more than these conditions, so that many documents may meet them and
    not the selection.
    """

    first: Form
    rest: Form
    open: bool


def plan_for(selection: Selection) -> Plan:
    """Choose the narrowest index."""
    is_open = selection.reads_bodies or selection.header is not None or selection.asks_how_it_went
    if selection.ref is not None:
        first: Form = {"$and": [{"$or": _called(selection.ref)}]}  # the rest may have an $or of its own
        return Plan(first, _by_message(selection).all, is_open)
    if selection.destination is not None and selection.subscription is not None and not selection.biz_id:
        rest = _source(selection) | _text(selection)
        if selection.signature is not None:
            lanes = lanes_of(FAILING, selection.destination, selection.subscription)
            return Plan(_among("lanes", lanes), _signature(selection) | rest, is_open)
        if Status.DELIVERED not in selection.delivery_states:
            lanes = lanes_of(selection.delivery_states, selection.destination, selection.subscription)
            return Plan(_among("lanes", lanes), rest, is_open)
    found = _by_message(selection)
    return Plan(found.first, found.rest, is_open)


class _Conditions(NamedTuple):
    """The conditions on a message: that of the narrowest index, and the others."""

    first: Form
    rest: Form

    @property
    def all(self) -> Form:
        return self.first | self.rest


def _by_message(selection: Selection) -> _Conditions:
    conditions = _equal("message.biz_id", selection.biz_id) | _equal("destination", selection.destination)
    conditions |= _source(selection) | _status(selection)
    narrowest = next((name for name in _NARROWEST_FIRST if name in conditions and not _is_common(name, selection)), "")
    first = {narrowest: conditions.pop(narrowest)} if narrowest else {}
    return _Conditions(first, conditions | _text(selection) | _delivery(selection) | _signature(selection))


def _called(ref: str) -> list[Form]:
    """Return the conditions of which a message meets at least one when an id, in any meaning, is its."""
    called = parse_ref(ref)
    names = [name for name in called if name]
    traced = ids_traced_as(ref)
    return [
        {"_id": called.message_id},
        {"message.biz_id": {"$eq": called.text}},
        *({"names": {"$eq": name}} for name in names),
        *([{"_id": {"$gte": traced[0], "$lte": traced[1]}}] if traced is not None else []),
    ]


def lanes_of(states: Collection[Status], destination: str, subscription: str) -> list[str]:
    """Return the entries of ``lanes`` for a subscription's deliveries in these states, none of them delivered."""
    return [lane_entry(status, lane_name(destination, subscription)) for status in sorted(states)]


def _is_common(name: str, selection: Selection) -> bool:
    """Whether nearly every message meets the condition, so that its index helps little."""
    return name == "status" and Status.DELIVERED in selection.message_states


def _status(selection: Selection) -> Form:
    """Return the condition on the message's status: the one asked for, or those that the other conditions allow."""
    states = selection.message_states
    return {} if len(states) == len(Status) else _among("status", sorted(state.value for state in states))


def _equal(name: str, value: str | None) -> Form:
    return {} if value is None else {name: value}


def _among(name: str, values: list[str]) -> Form:
    return {name: values[0] if len(values) == 1 else {"$in": values}}


def _source(selection: Selection) -> Form:
    return _equal("message.source", selection.source)


def _signature(selection: Selection) -> Form:
    """Return the condition that deliveries fail in this way and state; whether one does in both is checked later."""
    if selection.signature is None:
        return {}
    return {"failures.signature": selection.signature} | _equal(
        "failures.status", selection.status and selection.status.value
    )


def _delivery(selection: Selection) -> Form:
    """Return the condition on one subscription's delivery, by ``lanes``, which has all but those delivered."""
    if selection.subscription is None:
        return {}
    lane = f":[^/]*/{_literal(selection.subscription)}$"
    if selection.status is None:
        return {"deliveries.subscription": selection.subscription}
    if selection.status is Status.DELIVERED:
        return {"deliveries.subscription": selection.subscription, "lanes": {"$not": {"$regex": lane}}}
    return {"lanes": {"$regex": f"^{selection.status}{lane}"}}


def _text(selection: Selection) -> Form:
    if not selection.text:
        return {}
    inside = {"$regex": _literal(selection.text)}
    return {"$or": [{name: inside} for name in ("_id", "message.biz_id", "message.source")]}


def _literal(text: str) -> str:
    """Return the expression for a text; MongoDB refuses expressions with U+0000 in them."""
    return re.escape(text).replace("\0", r"\x00")
