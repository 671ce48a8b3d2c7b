"""The common rule for texts that accompany a message: biz id, key, source, content type and the like."""

from __future__ import annotations

from typing import Final

from bus.errors import InvalidMessage
from bus.localized_text import localized

LONGEST_TEXT: Final = 512
_SHOWN: Final = 80


def check_text(value: str, field: str) -> str:
    """Return the value; raises ``InvalidMessage``, ``field`` naming it, unless it is short and printable."""
    if len(value) > LONGEST_TEXT or not value.isprintable():
        shown = ascii(value[:_SHOWN])
        raise InvalidMessage(
            localized(
                "{field} {shown} is not a text of at most {longest} printable characters",
                field=field,
                shown=shown,
                longest=LONGEST_TEXT,
            ),
            field=field,
        )
    return value


def check_ascii(value: str, field: str) -> str:
    """Return the value, which goes into a subscriber's HTTP header as it is; raises as ``check_text`` does."""
    if not value.isascii():
        raise InvalidMessage(
            localized("{field} {value} has a character that is not ASCII", field=field, value=ascii(value[:_SHOWN])),
            field=field,
        )
    return check_text(value, field)
