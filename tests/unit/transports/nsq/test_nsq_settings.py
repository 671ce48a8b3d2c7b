"""Addresses, names and the envelope."""

from __future__ import annotations

import msgspec
import pytest

from bus.domain.message import encode_message
from bus.errors import ConfigurationError, InvalidDestination, TransportRefused
from bus.testing.writes import message
from bus.transports.nsq import Compression, NsqConfig, parse_lookupd, parse_nsqd, parse_partitions
from bus.transports.nsq.codec import HEADER, unwrap, wrap
from bus.transports.nsq.config import Address, NsqdAddress
from bus.transports.nsq.errors import NotNsq, PermissionRefused
from bus.transports.nsq.names import channel_of, topic_of
from bus.transports.nsq.protocol import features


def test_addresses_are_read() -> None:
    assert parse_nsqd("") == ()
    assert parse_nsqd(" a:4150, 10.0.0.1:5000/5010 ,[::1]:4150/4151,") == (
        NsqdAddress(Address("a", 4150)),
        NsqdAddress(Address("10.0.0.1", 5000), 5010),
        NsqdAddress(Address("::1", 4150), 4151),
    )
    assert parse_lookupd("a:4161,http://b:4161/") == (Address("a", 4161), Address("b", 4161))
    assert str(Address("::1", 4150)) == "[::1]:4150"


@pytest.mark.parametrize(
    "text", ["a", ":4150", "a:", "a:0", "a:65536", "a:x", "a:4150/", "a:4150/x", "a:-1", "a:4150/4151/4152", "a:٤"]
)
def test_what_is_no_address_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_nsqd(f"good:4150,{text}")
    assert repr(text) in str(refusal.value)


def test_partitions_are_numbers() -> None:
    assert parse_partitions("") == frozenset()
    assert parse_partitions(" 0, 12,") == {0, 12}
    for text in ("a", "-1", "1.5", "٤"):
        with pytest.raises(ConfigurationError):
            parse_partitions(f"0,{text}")


@pytest.mark.parametrize("text", ["a", "https://a:4161", "http://a:4161/lookup"])
def test_what_is_no_nsqlookupd_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_lookupd(text)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 64])
def test_names_are_used_as_they_are(name: str) -> None:
    assert topic_of(name) == channel_of(name) == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a#ephemeral", "ü", "a\n"])
def test_names_that_nsq_does_not_allow_are_refused(name: str) -> None:
    with pytest.raises(InvalidDestination) as refusal:
        topic_of(name)
    assert refusal.value.field == "code"
    with pytest.raises(TransportRefused):
        channel_of(name)


def test_a_message_passes_through_the_envelope_without_being_encoded_again() -> None:
    one = message(1, body=bytes(range(256)), headers={"X": "ü"})
    payload = encode_message(one)
    assert wrap(payload) == HEADER + payload
    assert unwrap(wrap(payload)) == one


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "does not begin with the bus's mark"),
        (b'{"a": 1}', "does not begin with the bus's mark"),
        (HEADER[:-1], "does not begin with the bus's mark"),
        (HEADER[:-1] + b"\x02", "an envelope of version 2, and this bus reads version 1"),
        (HEADER, "damaged"),
        (HEADER + b"\x92\xa1\xff\xa1a", "damaged"),
        (wrap(encode_message(message()))[:-1], "damaged"),
    ],
)
def test_what_is_not_ours_is_told_apart(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unwrap(body)


def test_features_are_asked_for_as_the_settings_say() -> None:
    plain = msgspec.json.decode(features.request(NsqConfig(heartbeat=2.5, msg_timeout=15)))
    assert plain["feature_negotiation"] is True
    assert (plain["heartbeat_interval"], plain["msg_timeout"]) == (2500, 15_000)
    assert (plain["tls_v1"], plain["snappy"], plain["deflate"]) == (False, False, False)
    assert plain["output_buffer_size"] == 64
    deflate = msgspec.json.decode(features.request(NsqConfig(compression=Compression.DEFLATE)))
    assert (deflate["snappy"], deflate["deflate"]) == (False, True)
    assert "output_buffer_size" not in deflate


def test_an_answer_that_lacks_what_is_demanded_is_refused() -> None:
    assert features.read_answer(b'{"max_rdy_count": 7, "unknown": []}', NsqConfig()).max_rdy_count == 7
    with pytest.raises(NotNsq, match="does not negotiate"):
        features.read_answer(b"OK", NsqConfig())
    with pytest.raises(PermissionRefused, match="asks for a secret"):
        features.read_answer(b'{"auth_required": true}', NsqConfig())
    assert features.read_answer(b'{"auth_required": true}', NsqConfig(auth_secret="s")).auth_required
