"""Compressed streams: any split gives the same bytes, and damage a clear error."""

from __future__ import annotations

import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.transports.nsq.errors import NotNsq
from bus.transports.nsq.protocol.compression import Codec, Deflate, Snappy

CODECS = [Deflate, Snappy]
writes = st.lists(st.binary(max_size=300), max_size=6)


@pytest.mark.parametrize("codec", CODECS)
@given(writes=writes, size=st.integers(min_value=1, max_value=50))
def test_any_split_gives_the_same_bytes(codec: type[Codec], writes: list[bytes], size: int) -> None:
    one, other = codec(), codec()
    stream = b"".join(one.encode(data) for data in writes)
    found = b"".join(other.decode(stream[begin : begin + size]) for begin in range(0, len(stream), size))
    assert found == b"".join(writes)


@pytest.mark.parametrize("codec", CODECS)
def test_each_write_can_be_read_at_once(codec: type[Codec]) -> None:
    one, other = codec(), codec()
    for n in range(1, 200):
        assert other.decode(one.encode(b"x" * n)) == b"x" * n


@pytest.mark.parametrize("codec", CODECS)
def test_much_passes(codec: type[Codec]) -> None:
    data = bytes(range(256)) * 4096
    assert codec().decode(codec().encode(data)) == data


def test_the_forms_are_those_that_others_read() -> None:
    data = b"body" * 1000
    assert bytes(cramjam.snappy.decompress(Snappy().encode(data))) == data
    assert zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(Deflate().encode(data)) == data


@pytest.mark.parametrize("codec", CODECS)
@given(rubbish=st.binary(max_size=200))
def test_rubbish_is_a_clear_error_or_nothing_yet(codec: type[Codec], rubbish: bytes) -> None:
    why = None
    try:
        codec().decode(rubbish)
    except NotNsq as error:
        why = str(error)
    assert why is None or "stream is damaged" in why


def test_a_chunk_with_a_wrong_checksum_is_damage() -> None:
    stream = bytearray(Snappy().encode(b"body" * 100))
    stream[14] ^= 1
    with pytest.raises(NotNsq, match="the snappy stream is damaged"):
        Snappy().decode(bytes(stream))
    with pytest.raises(NotNsq, match="the deflate stream is damaged"):
        Deflate().decode(b"\xff" * 10)
