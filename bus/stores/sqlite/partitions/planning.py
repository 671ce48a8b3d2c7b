"""The indexes that a search follows in one partition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import apsw

from bus.domain.delivery.delivery import Status
from bus.domain.searching.conditions import forms_of, ids_traced_as, parse_header, parse_path, parse_ref
from bus.domain.searching.selection import Selection
from bus.stores.sqlite.keys import id_key
from bus.stores.sqlite.partitions import trace_sql

# The narrowest first.
_WAYS: Final = (
    ("biz_id", trace_sql.BY_BIZ_ID, trace_sql.WHERE_BIZ_ID),
    ("status", trace_sql.BY_STATUS, trace_sql.WHERE_STATUS),
    ("destination", trace_sql.BY_DESTINATION, trace_sql.WHERE_DESTINATION),
    ("source", trace_sql.BY_SOURCE, trace_sql.WHERE_SOURCE),
)
Found = tuple[str, str]
_PLAIN: Final = re.compile(r"[\w .,:;$@+-]+")  # text that JSON writes as it is, or with escapes by code


class Plan(NamedTuple):
    """The queries of one partition's search; ``exact`` when every row of the indexes is a match."""

    floor: str
    rows: str
    values: dict[str, Any]
    exact: bool


class _IndexPath(NamedTuple):
    """One index to follow: its table, its condition, and how messages are joined when it is not their table."""

    rows: str
    first: str
    join: str = ""

    def keys(self) -> str:
        """Return the query of the keys in a range."""
        return trace_sql.KEYS.format(rows=self.rows, first=self.first, ordered="i" if self.join else "m")

    def documents(self, rest: str) -> str:
        """Return the query of the rows in a range that meet the rest."""
        ordered = "i" if self.join else "m"
        return trace_sql.ROWS.format(rows=self.rows + self.join, first=self.first, ordered=ordered, rest=rest)


def plan_for(connection: apsw.Connection, selection: Selection) -> Plan | None:
    """Choose the narrowest indexes; None when the partition cannot have a match."""
    values, rest = _conditions(connection, selection)
    if ("destination" not in values and selection.destination is not None) or not selection.delivery_states:
        return None
    if selection.ref is not None:
        return _by_ref(selection.ref, values, rest)
    if selection.subscription is not None and selection.destination is not None and not selection.biz_id:
        lane = connection.execute(trace_sql.NUMBER_OF_LANE, (selection.destination, selection.subscription)).fetchone()
        values["lane"] = lane[0] if lane is not None else -1
        if selection.signature is not None:
            number = connection.execute(trace_sql.NUMBER_OF_SIGNATURE, (selection.signature,)).fetchone()
            values["signature"] = number[0] if number is not None else -1
            return _by_lane(selection, [trace_sql.BY_SIGNATURE], "signature", values, rest)
        if Status.DELIVERED not in selection.delivery_states:
            ways = _of_states(trace_sql.BY_DELIVERY, selection.delivery_states)
            return _by_lane(selection, ways, "status", values, rest)
    return _by_message(selection, values, rest)


def _conditions(connection: apsw.Connection, selection: Selection) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that the selection names, and the SQL that checks each row where no index does."""
    values: dict[str, Any] = {}
    if selection.destination is not None:
        row = connection.execute(trace_sql.NUMBER_OF_DESTINATION, (selection.destination,)).fetchone()
        values |= {"destination": row[0]} if row is not None else {}
    if selection.source:
        values["source"] = selection.source
    if selection.biz_id:
        values["biz_id"] = selection.biz_id
    if selection.status is not None and selection.subscription is None and not selection.asks_how_it_went:
        values["status"] = trace_sql.STATUS[selection.status]
    rest = {name: condition for name, _, condition in _WAYS if name in values}
    if selection.text:
        rest["text"] = trace_sql.WHERE_TEXT
        values |= {"text": selection.text, "hex": selection.text.replace("-", "").lower()}
    for name, condition, more in _contents(selection):
        rest[name] = condition
        values |= more
    return values, rest


def _contents(selection: Selection) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield conditions on the bytes of documents and bodies, so that only rows that may match are decoded."""
    if selection.header is not None and (value := parse_header(selection.header)[1]):
        yield "header", trace_sql.WHERE_DOCUMENT, {"inside": value.encode("utf-8", "surrogatepass")}
    if selection.body_text:
        forms = forms_of(selection.body_text)
        condition = trace_sql.WHERE_BODY.format(one="plain", other="escaped")
        yield "body_text", condition, {"plain": forms[0], "escaped": forms[-1]}
    if selection.body_path is not None and (text := _written_plainly(selection.body_path, selection.body_value)):
        condition = trace_sql.WHERE_BODY.format(one="at_path", other="any_escape")
        yield "body_path", condition, {"at_path": text.encode(), "any_escape": b"\\u"}


def _written_plainly(path: str, value: str | None) -> str:
    """Return a text that is in every matching body, unless it is escaped by code there; empty for none."""
    texts = [value, *(step for step in reversed(parse_path(path)) if isinstance(step, str))]
    return next((text for text in texts if text and _PLAIN.fullmatch(text)), "")


def _by_ref(ref: str, values: dict[str, Any], rest: dict[str, str]) -> Plan:
    """Follow the indexes of all kinds of ids; a message that is found by several of them comes more than once."""
    called = parse_ref(ref)
    names: dict[str, Any] = {"called": called.text}
    ways = [_IndexPath(*trace_sql.BY_OWN_BIZ_ID)]
    if called.message_id:
        names["own"] = id_key(called.message_id)
        ways.append(_IndexPath(*trace_sql.BY_OWN_ID))
    if (traced := ids_traced_as(ref)) is not None:
        values |= {"first_traced": id_key(traced[0]), "last_traced": id_key(traced[1])}
        ways.append(_IndexPath(*trace_sql.BY_TRACE))
    if called.trace_id:
        names["traced"] = bytes.fromhex(called.trace_id)
    rows, first = trace_sql.BY_REFERENCE
    ways += [_IndexPath(rows, first.format(name=name), trace_sql.OF_ID) for name in names]
    return _plan(ways, rest.values(), values | names, exact=False)


def _by_lane(
    selection: Selection, found: Sequence[Found], covered: str, values: dict[str, Any], rest: dict[str, str]
) -> Plan:
    """Follow the index of one subscription's deliveries that are not delivered, or that fail in one way."""
    ways = [_IndexPath(rows, first, trace_sql.OF_MESSAGE) for rows, first in found]
    exact = not _given(selection) - {"destination", "subscription", "undelivered", covered}
    return _plan(ways, [rest[name] for name in rest if name != "destination"], values, exact=exact)


def _by_message(selection: Selection, values: dict[str, Any], rest: dict[str, str]) -> Plan:
    """Follow one index of messages."""
    if Status.DELIVERED not in selection.message_states and "biz_id" not in values:
        name, found = "status", _of_states(trace_sql.BY_STATUS, selection.message_states)
    else:
        name, way = next(
            ((name, way) for name, way, _ in _WAYS if name in values and name != "status"), ("", trace_sql.BY_ID)
        )
        found = [way]
    covered = {name} & values.keys()
    others = [rest[other] for other in rest if other not in covered]
    return _plan([_IndexPath(*way) for way in found], others, values, exact=not _given(selection) - covered)


def _plan(ways: Sequence[_IndexPath], rest: Iterable[str], values: dict[str, Any], *, exact: bool) -> Plan:
    checks = "".join(rest)
    keys = trace_sql.TOGETHER.join(way.keys() for way in ways)
    rows = trace_sql.TOGETHER.join(way.documents(checks) for way in ways)
    return Plan(keys + trace_sql.NEWEST_FIRST + trace_sql.LAST_OF_STEP, rows + trace_sql.NEWEST_FIRST, values, exact)


def _of_states(way: Found, states: Iterable[Status]) -> list[Found]:
    """Return an index to follow for each state, since an index is in the order of ids only within one state."""
    rows, first = way
    return [(rows, first.format(status=trace_sql.STATUS[state])) for state in sorted(states)]


def _given(selection: Selection) -> set[str]:
    """Return the names of all conditions but the times, which every plan applies."""
    names = {name for name in selection.__struct_fields__ if getattr(selection, name) not in (None, False)}
    return names - {"since", "before"} - {name for name in ("text", "body_text") if not getattr(selection, name)}
