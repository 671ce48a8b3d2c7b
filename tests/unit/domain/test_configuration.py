"""Messages, destinations, subscriptions, and the catalog that holds them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination
from bus.domain.message import Message, check_destination, decode_message, encode_message
from bus.domain.subscription import Secret, Subscription
from bus.errors import InvalidDestination
from bus.testing.writes import message


@pytest.mark.parametrize("code", ["a", "0", "_", "order.cancelled", "A-b_c.9", "x" * 128])
def test_a_code_may_name_a_destination(code: str) -> None:
    assert check_destination(code) == code


@pytest.mark.parametrize("code", ["", ".a", "-a", "a b", "a/b", "é", "x" * 129, "a\n", "a%2f", "\x00", "a:b"])
def test_what_cannot_name_a_destination_is_refused(code: str) -> None:
    with pytest.raises(InvalidDestination) as refused:
        check_destination(code)
    assert refused.value.field == "destination"


texts = st.text(max_size=20)


@given(
    st.builds(
        Message,
        id=texts,
        destination=texts,
        body=st.binary(max_size=50),
        headers=st.dictionaries(texts, texts, max_size=3),
        expected=st.lists(texts, max_size=3).map(tuple),
        sent_at=st.integers(-(2**47), 2**47),
        biz_id=texts,
    )
)
def test_a_message_travels_as_it_is(sent: Message) -> None:
    assert decode_message(encode_message(sent)) == sent


@given(st.binary(max_size=40))
def test_other_bytes_are_no_message(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_message(payload)


def test_a_message_of_an_older_version_has_defaults_for_what_it_lacks() -> None:
    older = msgspec.msgpack.encode(["id", "orders", b"body", "text/plain"])
    assert decode_message(older) == Message("id", "orders", b"body", "text/plain")
    with_more = msgspec.msgpack.encode([*msgspec.msgpack.decode(encode_message(message())), "of a newer version"])
    assert decode_message(with_more) == message()


def test_a_message_expects_those_whose_pattern_takes_its_key() -> None:
    patterns = {"all": "#", "europe": "eu.#", "shoes": "*.shoes"}
    subscriptions = [
        Subscription(destination="orders", name=name, url="http://a/", routing_pattern=pattern)
        for name, pattern in patterns.items()
    ]
    catalog = Catalog([Destination(code="orders")], subscriptions)
    assert catalog.names("orders") == ("all", "europe", "shoes")
    assert catalog.expected("orders", "") == ("all",)
    assert catalog.expected("orders", "eu.shoes") == ("all", "europe", "shoes")
    assert catalog.expected("orders", "us.shoes") == ("all", "shoes")


def test_a_catalog_answers_by_code_and_key() -> None:
    orders, mails = Destination(code="orders"), Destination(code="mails")
    subscriptions = [
        Subscription(destination=code, name=name, url="http://a/")
        for code, name in (("orders", "b"), ("orders", "a"), ("gone", "x"))
    ]
    catalog = Catalog([orders, mails], subscriptions)
    assert catalog.destinations == {"orders": orders, "mails": mails}
    assert catalog.of("orders") == tuple(subscriptions[:2])
    assert catalog.names("orders") == ("b", "a")
    assert catalog.of("mails") == catalog.of("nothing") == ()
    assert catalog.names("mails") == ()
    assert catalog.subscriptions["gone", "x"] is subscriptions[2]


def test_an_old_secret_signs_until_it_expires() -> None:
    secrets = (Secret("new"), Secret("old", expires_at=100))
    subscription = Subscription(destination="d", name="n", url="http://a/", secrets=secrets)
    assert subscription.signing_secrets(99) == ["new", "old"]
    assert subscription.signing_secrets(100) == ["new"]
    assert subscription.key == ("d", "n")
