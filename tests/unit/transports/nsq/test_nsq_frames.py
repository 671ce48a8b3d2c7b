"""Frames out of bytes: any split gives the same, and rubbish a clear error."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.transports.nsq.errors import NotNsq
from bus.transports.nsq.protocol.frames import (
    ERROR,
    LARGEST,
    MESSAGE,
    MESSAGE_HEAD,
    RESPONSE,
    Form,
    FrameReader,
    first_frame,
    name_of,
    read_error,
    read_message,
    read_traced,
)

frames = st.lists(st.tuples(st.sampled_from([RESPONSE, ERROR, MESSAGE]), st.binary(max_size=60)), max_size=8)


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", len(payload) + 4, kind) + payload


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    ends = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[begin:end] for begin, end in itertools.pairwise(ends)]


@given(frames, st.lists(st.integers(min_value=0), max_size=30))
def test_any_split_gives_the_same_frames(expected: list[tuple[int, bytes]], cuts: list[int]) -> None:
    reader = FrameReader()
    stream = b"".join(frame(*one) for one in expected)
    assert [found for piece in pieces(stream, cuts) for found in reader.feed(piece)] == expected


@given(frames)
def test_byte_by_byte_gives_the_same_frames(expected: list[tuple[int, bytes]]) -> None:
    reader = FrameReader()
    stream = b"".join(frame(*one) for one in expected)
    assert [found for byte in stream for found in reader.feed(bytes([byte]))] == expected


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0), max_size=10))
def test_rubbish_is_frames_by_chance_or_a_clear_error(stream: bytes, cuts: list[int]) -> None:
    reader = FrameReader(largest=200)
    found, why = [], None
    try:
        for piece in pieces(stream, cuts):
            found += reader.feed(piece)
    except NotNsq as error:
        why = str(error)
    assert stream.startswith(b"".join(frame(*one) for one in found))
    assert why is None or "not NSQ's protocol: a frame of" in why


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "a frame of"),
        (b"\x15\x03\x01\x00\x02\x02\x16\x00", "a frame of"),
        (struct.pack(">II", 3, 0), "a frame of 3 bytes"),
        (struct.pack(">II", 4, 3), "a frame of type 3"),
        (struct.pack(">II", LARGEST + 1, 2), f"a frame of {LARGEST + 1} bytes"),
    ],
)
def test_what_is_no_nsq_is_told_at_once(stream: bytes, why: str) -> None:
    with pytest.raises(NotNsq, match=why):
        FrameReader().feed(stream)
    with pytest.raises(NotNsq, match=why):
        first_frame(stream)


def test_a_large_frame_in_many_pieces_is_put_together_once() -> None:
    reader = FrameReader()
    stream = frame(MESSAGE, bytes(8 * 2**20)) + frame(RESPONSE, b"OK")
    found = [one for begin in range(0, len(stream), 4096) for one in reader.feed(stream[begin : begin + 4096])]
    assert [(kind, len(payload)) for kind, payload in found] == [(MESSAGE, 8 * 2**20), (RESPONSE, 2)]


@given(frames.filter(bool), st.binary(max_size=20))
def test_the_first_frame_leaves_the_rest_as_it_is(some: list[tuple[int, bytes]], rest: bytes) -> None:
    head = frame(*some[0])
    assert first_frame(head + rest) == (some[0], rest)
    for end in range(len(head)):
        assert first_frame(head[:end]) is None


def test_a_message_frame_tells_when_how_often_and_which() -> None:
    payload = struct.pack(">qH", 1_795_262_400_000_000_000, 7) + b"0123456789abcdef" + b"body"
    assert read_message(payload) == (1_795_262_400_000_000_000, 7, b"0123456789abcdef")
    assert payload[MESSAGE_HEAD:] == b"body"
    with pytest.raises(NotNsq, match="a message frame of 25 bytes"):
        read_message(payload[:25])


def test_an_error_frame_is_a_code_and_words_that_may_be_missing() -> None:
    error = read_error(b"E_BAD_TOPIC PUB topic name \xff is not valid")
    assert error.code == "E_BAD_TOPIC"
    assert str(error) == "E_BAD_TOPIC PUB topic name � is not valid"
    assert (read_error(b"E_INVALID ").code, str(read_error(b"E_INVALID "))) == ("E_INVALID", "E_INVALID")


@pytest.mark.parametrize("is_detailed", [False, True])
@pytest.mark.parametrize(("is_extended", "header"), [(False, b""), (True, b"\x00"), (True, b"\x04\x00\x02{}")])
def test_a_body_is_found_behind_what_topic_and_subscription_put_before_it(
    is_extended: bool, header: bytes, is_detailed: bool
) -> None:
    head = struct.pack(">qH16s", 5, 1, b"0123456789abcdef")
    payload = head + header + (struct.pack(">QI", 400, 60) if is_detailed else b"") + b"body"
    form = Form(is_extended, is_detailed)
    assert payload[form.body_at(payload) :] == b"body"


@pytest.mark.parametrize(
    ("form", "rest"), [(Form(), b""), (Form(is_extended=True), b"\x04\xff\xff{}"), (Form(is_detailed=True), b"short")]
)
def test_a_message_that_ends_before_its_body_is_no_nsq(form: Form, rest: bytes) -> None:
    head = struct.pack(">qH16s", 5, 1, b"0123456789abcdef")
    with pytest.raises(NotNsq):
        form.body_at(head + rest if rest else head[:-1])


def test_ids_are_named_as_their_cluster_names_them() -> None:
    assert name_of(b"0c52b9a5c6a0f000") == "0c52b9a5c6a0f000"
    assert name_of(struct.pack(">QQ", 2**50 + 10, 2**64 - 1)) == "1125899906842634/18446744073709551615"


def test_the_answer_to_a_traced_publish_says_where_the_message_is() -> None:
    answer = b"OK" + struct.pack(">QQQI", 77, 2**63, 400, 60)
    assert len(answer) == 30
    assert read_traced(answer) == (77, 2**63, 400, 60)
    for other in (b"OK", answer[:-1], b"NO" + answer[2:]):
        with pytest.raises(NotNsq):
            read_traced(other)
