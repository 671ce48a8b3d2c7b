"""Messages through the frames of the client library and back."""

from __future__ import annotations

import pytest
from aiormq.abc import DeliveredMessage
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from bus.domain.message import Message
from bus.testing.writes import message
from bus.transports.rabbitmq.codec import described, properties_of, read

FRAME = 131_072
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def delivered(properties: Basic.Properties, body: bytes) -> DeliveredMessage:
    marshalled = frame.marshal(ContentHeader(properties=properties, body_size=len(body)), 1)
    _, _, header = frame.unmarshal(marshalled)
    assert isinstance(header, ContentHeader)
    return DeliveredMessage(Basic.Deliver("consumer", 1, False, "pier.orders", "key"), header, body, None)


def travelled(sent: Message) -> Message:
    return read(delivered(properties_of(sent, FRAME), sent.body))


@given(
    TEXT,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.dictionaries(TEXT, TEXT, max_size=5),
    st.binary(max_size=50),
)
def test_a_message_arrives_as_it_was(text: str, content_type: str, headers: dict[str, str], body: bytes) -> None:
    sent = message(
        1, body=body, biz_id=text, key=text, source=text, content_type=content_type, headers=headers, routing_key="a.b"
    )
    assert travelled(sent) == sent


def test_others_can_read_it_as_a_cloud_event() -> None:
    properties = properties_of(message(3, content_type="application/json", key="k"), FRAME)
    assert properties.content_type == "application/json"
    assert properties.delivery_mode == 2
    headers = properties.headers or {}
    assert headers["cloudEvents_id"] == message(3).id
    assert headers["cloudEvents_type"] == "orders"
    assert headers["cloudEvents_specversion"] == "1.0"
    assert "cloudEvents_datacontenttype" not in headers


def test_headers_that_no_frame_takes_are_refused() -> None:
    fits = message(headers={"x": "y" * (FRAME - 4_096)})
    assert travelled(fits) == fits
    with pytest.raises(ValueError, match=r"headers take 13\d{4} bytes"):
        properties_of(message(headers={"x": "y" * FRAME}), FRAME)
    with pytest.raises(ValueError, match="headers take"):
        properties_of(message(headers={"x": "ü" * (FRAME // 2)}), FRAME)


def test_a_routing_key_that_amqp_cannot_carry_is_refused() -> None:
    properties_of(message(routing_key="k" * 255), FRAME)
    with pytest.raises(ValueError, match="routing key"):
        properties_of(message(routing_key="ü" * 128), FRAME)


@pytest.mark.parametrize(
    ("headers", "missing"),
    [
        (None, "id, type"),
        ({"cloudEvents_id": "x"}, "type"),
        ({"cloudEvents_id": bytearray(b"\xff"), "n": 1}, "busmeta"),
    ],
)
def test_a_message_of_somebody_else_is_told_apart(headers: dict[str, object] | None, missing: str) -> None:
    foreign = delivered(Basic.Properties(headers=headers, content_type="text/plain"), b"hello")
    with pytest.raises(ValueError, match=missing):
        read(foreign)
    shown = described(foreign)
    assert shown["content_type"] == "text/plain"
    assert all(isinstance(value, str) for value in shown.values())
