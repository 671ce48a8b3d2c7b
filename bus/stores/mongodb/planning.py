"""Which index a search follows in one partition."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bus.domain.delivery import Status
from bus.domain.selection import Selection
from bus.domain.signature import FAILING
from bus.stores.mongodb.connection import Form
from bus.stores.mongodb.indexes import lane_entry
from bus.stores.mongodb.names import lane_name

_NARROWEST_FIRST: Final = ("message.biz_id", "status", "destination", "message.source")


class Plan(NamedTuple):
    """The condition that an index answers in the order of ids, and the others; none when every row is a match."""

    first: Form
    rest: Form


def plan_for(selection: Selection) -> Plan:
    """Choose the narrowest index."""
    if selection.destination is not None and selection.subscription is not None and selection.biz_id is None:
        if selection.signature is not None:
            lanes = lanes_of(selection.destination, selection.subscription)
            return Plan({"lanes": {"$in": lanes}}, _signature(selection) | _source(selection) | _text(selection))
        status = selection.status or Status.DELIVERED
        if status is not Status.DELIVERED:
            lane = lane_entry(status, lane_name(selection.destination, selection.subscription))
            return Plan({"lanes": lane}, _source(selection) | _text(selection))
    return _by_message(selection)


def _by_message(selection: Selection) -> Plan:
    conditions = _equal("message.biz_id", selection.biz_id) | _equal("destination", selection.destination)
    conditions |= _source(selection)
    if selection.subscription is None and selection.signature is None:
        conditions |= _equal("status", selection.status and selection.status.value)
    narrowest = next((name for name in _NARROWEST_FIRST if name in conditions and not _is_common(name, selection)), "")
    first = {narrowest: conditions.pop(narrowest)} if narrowest else {}
    return Plan(first, conditions | _text(selection) | _delivery(selection) | _signature(selection))


def lanes_of(destination: str, subscription: str) -> list[str]:
    """Return what ``lanes`` says of a subscription's deliveries that fail."""
    return [lane_entry(status, lane_name(destination, subscription)) for status in sorted(FAILING)]


def _is_common(name: str, selection: Selection) -> bool:
    """Whether nearly every message meets the condition, so that its index helps little."""
    return name == "status" and selection.status is Status.DELIVERED


def _equal(name: str, value: str | None) -> Form:
    return {} if value is None else {name: value}


def _source(selection: Selection) -> Form:
    return _equal("message.source", selection.source)


def _signature(selection: Selection) -> Form:
    """Return the condition that some delivery fails in a way and a state; whether it is one and the same is left."""
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
