"""Messages as Kafka records, in the binary binding of CloudEvents for Kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bus.domain.cloudevents import CONTENT_TYPE, attributes_of, message_of
from bus.domain.message import Message

_PREFIX: Final = "ce_"
_DATA_TYPE: Final = "datacontenttype"
# Lengths, deltas and attributes of a record, and its share of the batch's head, generously.
_FRAME: Final = 128
_HEADER_FRAME: Final = 8


class OutgoingRecord(NamedTuple):
    """A record to publish; ``size`` is an upper bound of its bytes in the log."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    size: int


def record_of(message: Message) -> OutgoingRecord:
    """Return the record that carries a message; its key decides the partition."""
    headers = [
        (CONTENT_TYPE if name == _DATA_TYPE else _PREFIX + name, value.encode())
        for name, value in attributes_of(message).items()
    ]
    key = message.key.encode() if message.key else None
    size = _FRAME + len(message.body) + len(key or b"")
    size += sum(_HEADER_FRAME + len(name) + len(value) for name, value in headers)
    return OutgoingRecord(key, message.body, headers, size)


def read_record(headers: Iterable[tuple[str, bytes | None]], value: bytes | None) -> Message:
    """Undo ``record_of``.

    Raises
    ------
    ValueError
        The record was not published by this bus, or is damaged; the text says what is missing.
    """
    attributes: dict[str, str] = {}
    for name, content in headers:
        if content is None:
            continue
        if name.startswith(_PREFIX):
            attributes[name.removeprefix(_PREFIX)] = content.decode()
        elif name == CONTENT_TYPE:
            attributes[_DATA_TYPE] = content.decode()
    return message_of(attributes, value or b"")


def headers_as_text(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """Return a record's headers for a person to read."""
    return {name: (content or b"").decode(errors="backslashreplace") for name, content in headers}
