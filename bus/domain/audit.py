"""The audit log's rules: the content of an entry, values that it never contains, and the order of reading entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bus.domain.identity import id_floor

MASK: Final = "***"
_SECRETS: Final = frozenset({"secret", "password", "current_password", "key"})
_HEADERS: Final = "headers"  # their values may be credentials, their names are not
_LONGEST: Final = 1000
_MOST_FIELDS: Final = 100
_HIGHEST: Final = (1 << 128) - 1


class Change(msgspec.Struct, frozen=True):
    """One field before and after, as JSON values without secrets."""

    before: Any = None
    after: Any = None


class Entry(msgspec.Struct, kw_only=True):
    """One change, or one read of a message body.

    ``kind`` of the actor is ``key``, ``user`` or ``open`` (no key was required yet). ``resource`` is the path below
    ``/api/v1``. ``status`` is that of the answer: None from when the request was let in until it is known, and
    permanently when the process or the store failed between the two. Of a request that was not done ``changes`` has
    the names of the fields only.
    """

    id: str
    kind: str
    by: str
    name: str
    method: str
    resource: str
    changes: dict[str, Change] = msgspec.field(default_factory=dict)
    status: int | None = None
    address: str = ""


def masked(name: str, value: Any) -> Any:
    """Return a field's value as it may be kept: without secrets, and not longer than a line that people read."""
    if value is None:
        return None
    if name in _SECRETS:
        return MASK
    if isinstance(value, Mapping):
        value = {field: MASK if name == _HEADERS else masked(field, inner) for field, inner in value.items()}
    text = msgspec.json.encode(value)
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST].decode('utf-8', 'replace')}... ({len(text)} bytes)"
    return value


def named(body: Any) -> dict[str, Change]:
    """Return the fields that a request's body has, without values: a misspelt field may hold a secret."""
    names = list(body)[:_MOST_FIELDS] if isinstance(body, Mapping) else []
    return {name[:_LONGEST]: Change() for name in names}


def sent(body: Any) -> dict[str, Change]:
    """Return the fields of an accepted body, as changes without a known state before."""
    fields = body if isinstance(body, Mapping) else {}
    return {name: Change(None, masked(name, value)) for name, value in fields.items()}


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Change]:
    """Return the fields whose values differ; of a secret only its name is shown, and neither of its values."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: Change(masked(name, before.get(name)), masked(name, after.get(name))) for name in names}


def key_of(entry_id: str) -> str:
    """Return the document's key of an entry: keys in order are entries from the newest to the oldest."""
    return f"{_HIGHEST - int(entry_id.replace('-', ''), 16):032x}"


def key_before(time: int) -> str:
    """Return the key after which all entries made before a time (ms) follow."""
    return key_of(id_floor(max(time, 0)))


def concerns(entry: Entry, *, who: str | None, what: str | None) -> bool:
    """Whether an entry is one of an actor (id, name or kind), and of a resource or of one below it."""
    if who is not None and who not in (entry.by, entry.name, entry.kind):
        return False
    return what is None or f"{entry.resource}/".startswith(f"{what.strip('/')}/")
