"""Input from an nsqd."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bus.transports.nsq.config import NsqConfig
from bus.transports.nsq.errors import NotNsq, PermissionRefused
from bus.transports.nsq.protocol.compression import Deflate, Snappy
from bus.transports.nsq.protocol.features import read_answer as read_features
from bus.transports.nsq.protocol.frames import Form, Frame, FrameReader, name_of, numbers_of, read_error, read_message
from tests.fuzz.target import Target

_MESSAGE: Final = b"\x00\x00\x00\x24\x00\x00\x00\x02" + bytes(10) + b"0123456789abcdef" + b"body!!"


def nsq_frames(data: bytes) -> None:
    whole, is_good = _frames([data])
    one_by_one, is_good_too = _frames([data[at : at + 1] for at in range(len(data))])
    assert is_good == is_good_too
    assert whole == one_by_one or not is_good
    for _, payload in whole:
        read_error(payload)
        with suppress(NotNsq, PermissionRefused):
            read_features(payload, NsqConfig())
        for form in (Form(), Form(is_extended=True), Form(is_extended=True, is_detailed=True)):
            with suppress(NotNsq):
                _, _, name = read_message(payload)
                assert name_of(name)
                assert len(numbers_of(name)) == 2
                body_at = form.body_at(payload)
                assert body_at <= len(payload)
                form.place_of(payload, body_at)


def _frames(pieces: Sequence[bytes]) -> tuple[list[Frame], bool]:
    """Return the frames, and whether all of it was NSQ."""
    reader = FrameReader(largest=4096)
    found: list[Frame] = []
    try:
        for piece in pieces:
            found += reader.feed(piece)
    except NotNsq:
        return found, False
    return found, True


def nsq_compression(data: bytes) -> None:
    for kind in (Deflate, Snappy):
        assert kind().decode(kind().encode(data)) == data
        with suppress(NotNsq):
            kind().decode(data)


TARGETS: Final = {
    "nsq_frames": Target(
        nsq_frames,
        [
            b"\x00\x00\x00\x06\x00\x00\x00\x00OK",
            b"\x00\x00\x00\x0f\x00\x00\x00\x01E_BAD_TOPIC x",
            b"\x00\x00\x00\x06\x00\x00\x00\x00{}",
            _MESSAGE,
        ],
    ),
    "nsq_compression": Target(nsq_compression, [b"", b"abcabcabc", Snappy().encode(b"abc"), Deflate().encode(b"abc")]),
}
