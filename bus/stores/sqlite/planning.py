"""Which index a search follows in one partition."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import apsw

from bus.domain.delivery import Status
from bus.domain.selection import Selection
from bus.stores.sqlite import partition_sql as sql

# The narrowest first.
_WAYS: Final = (
    ("biz_id", sql.BY_BIZ_ID, sql.WHERE_BIZ_ID),
    ("status", sql.BY_STATUS, sql.WHERE_STATUS),
    ("destination", sql.BY_DESTINATION, sql.WHERE_DESTINATION),
    ("source", sql.BY_SOURCE, sql.WHERE_SOURCE),
)


class Plan(NamedTuple):
    """The queries of one partition's search; ``exact`` when every row of the index is a match."""

    floor: str
    rows: str
    values: dict[str, Any]
    exact: bool


def plan_for(connection: apsw.Connection, selection: Selection) -> Plan | None:
    """Choose the narrowest index; None when the partition cannot have a match."""
    values: dict[str, Any] = {}
    if selection.destination is not None:
        row = connection.execute(sql.NUMBER_OF_DESTINATION, (selection.destination,)).fetchone()
        if row is None:
            return None
        values["destination"] = row[0]
    if selection.source:
        values["source"] = selection.source
    if selection.biz_id:
        values["biz_id"] = selection.biz_id
    if selection.subscription is not None and selection.destination is not None and selection.biz_id is None:
        if selection.signature is not None:
            return _by_signature(connection, selection, selection.signature)
        if selection.status is not None and selection.status is not Status.DELIVERED:
            return _by_delivery(connection, selection, selection.status)
    if selection.subscription is None and selection.signature is None and selection.status is not None:
        values["status"] = sql.STATUS[selection.status]
    return _by_message(selection, values)


def _by_delivery(connection: apsw.Connection, selection: Selection, status: Status) -> Plan:
    """Follow the index of deliveries; it does not have those that are delivered."""
    row = connection.execute(sql.NUMBER_OF_LANE, (selection.destination, selection.subscription)).fetchone()
    values = {"lane": row[0] if row else -1, "status": sql.STATUS[status]}
    exact = selection.source is None and not selection.text
    return Plan(sql.DELIVERY_FLOOR, sql.DELIVERY_ROWS, values, exact)


def _by_signature(connection: apsw.Connection, selection: Selection, signature: str) -> Plan | None:
    """Follow the index of deliveries that fail."""
    lane = connection.execute(sql.NUMBER_OF_LANE, (selection.destination, selection.subscription)).fetchone()
    number = connection.execute(sql.NUMBER_OF_SIGNATURE, (signature,)).fetchone()
    if lane is None or number is None:
        return None
    exact = selection.source is None and selection.status is None and not selection.text
    return Plan(sql.SIGNATURE_FLOOR, sql.SIGNATURE_ROWS, {"lane": lane[0], "signature": number[0]}, exact)


def _by_message(selection: Selection, values: dict[str, Any]) -> Plan:
    name, (rows, first) = next(
        (
            (name, way)
            for name, way, _ in _WAYS
            if name in values and not (name == "status" and values[name] == sql.DELIVERED)
        ),
        ("", sql.BY_ID),
    )
    rest = "".join(condition for other, _, condition in _WAYS if other in values and other != name)
    if selection.text:
        rest += sql.WHERE_TEXT
        values |= {"text": selection.text, "hex": selection.text.replace("-", "").lower()}
    exact = (
        not rest
        and selection.subscription is None
        and selection.signature is None
        and "" not in (selection.source, selection.biz_id)
    )
    return Plan(
        sql.FLOOR.format(rows=rows, first=first), sql.ROWS.format(rows=rows, first=first, rest=rest), values, exact
    )
