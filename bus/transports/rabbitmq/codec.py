"""A message as an AMQP 0-9-1 message: CloudEvents' binary binding, attributes in headers named ``cloudEvents_*``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiormq.abc import DeliveredMessage
from pamqp import frame
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from bus.domain.cloudevents import attributes_of, message_of
from bus.domain.message import Message

PREFIX: Final = "cloudEvents_"
_CONTENT_TYPE: Final = "datacontenttype"
_PERSISTENT: Final = 2
_SHORT: Final = 255
# Below this many characters, properties fit into the smallest frame that RabbitMQ may be set to use for us.
_SURELY_FITS: Final = 8_192


def properties_of(message: Message, frame_max: int) -> Basic.Properties:
    """Return a message's properties; its body travels as it is.

    Parameters
    ----------
    frame_max
        The largest frame in bytes.

    Raises
    ------
    ValueError
        The broker cannot take the message; the text says why.
    """
    if len(message.routing_key.encode()) > _SHORT:
        raise ValueError(f"its routing key is longer than {_SHORT} bytes")
    attributes = attributes_of(message)
    properties = Basic.Properties(delivery_mode=_PERSISTENT)
    if message.content_type and len(message.content_type.encode()) <= _SHORT:
        properties.content_type = attributes.pop(_CONTENT_TYPE)
    properties.headers = {PREFIX + name: value for name, value in attributes.items()}
    if frame_max and sum(map(len, attributes.values())) > _SURELY_FITS:
        _check_size(properties, frame_max)
    return properties


def read(delivered: DeliveredMessage) -> Message:
    """Undo ``properties_of``.

    Raises
    ------
    ValueError
        It is no message of the bus; the text says what is missing.
    """
    attributes = {
        name.removeprefix(PREFIX): _text(value)
        for name, value in headers_of(delivered).items()
        if name.startswith(PREFIX)
    }
    content_type = delivered.header.properties.content_type
    if content_type:
        attributes.setdefault(_CONTENT_TYPE, content_type)
    return message_of(attributes, delivered.body)


def headers_of(delivered: DeliveredMessage) -> Mapping[str, object]:
    """Return the headers of any AMQP message."""
    return delivered.header.properties.headers or {}


def described(delivered: DeliveredMessage) -> dict[str, str]:
    """Return the headers and properties of a foreign message as text."""
    shown = {str(name): _text(value) for name, value in headers_of(delivered).items()}
    for name, value in delivered.header.properties:
        if value is not None and name != "headers":
            shown.setdefault(name, _text(value))
    return shown


def _check_size(properties: Basic.Properties, frame_max: int) -> None:
    size = len(frame.marshal(ContentHeader(properties=properties, body_size=0), 0))
    if size > frame_max:
        raise ValueError(f"its headers take {size} bytes, more than the {frame_max} that RabbitMQ takes in one frame")


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, (bytes, bytearray)) else str(value)
