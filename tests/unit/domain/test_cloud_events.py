"""A message as a CloudEvent is the very message that was sent, whichever of its fields are set."""

from msgspec.structs import fields

from bus.domain.cloudevents import attributes_of, message_of
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.testing.writes import NOON, message


def test_no_field_of_a_message_is_lost_on_a_transport() -> None:
    texts = (
        "key",
        "routing_key",
        "traceparent",
        "tracestate",
        "original_id",
        "idempotency_key",
        "edited_from",
        "claim",
    )
    sent = message(
        content_type="text/plain",
        headers={"X-A": "ü"},
        deliver_at=NOON + 1,
        retention_days=7,
        replay=f"again-1 {new_id(NOON)}",
        epoch=7,
        is_late=True,
        **dict.fromkeys(texts, "text"),
    )
    assert not [each.name for each in fields(Message) if getattr(sent, each.name) == each.default], "of no use here"
    assert message_of(attributes_of(sent), sent.body) == sent
