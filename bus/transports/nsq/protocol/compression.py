"""Compressed streams as NSQ uses them; nothing here reads or writes a socket."""

from __future__ import annotations

import zlib
from typing import Final, Protocol

import cramjam

from bus.transports.nsq.errors import NotNsq

_STREAM_BEGIN: Final = b"\xff\x06\x00\x00sNaPpY"
_CHUNK_HEAD: Final = 4


class Codec(Protocol):
    """Both directions of one connection."""

    def encode(self, data: bytes) -> bytes:
        """Return bytes from which the peer can read all of ``data`` at once."""
        ...

    def decode(self, data: bytes) -> bytes:
        """Return the data that can be decoded so far; raises ``NotNsq`` for a damaged stream."""
        ...


class Deflate:
    """A raw deflate stream, flushed after each write."""

    def __init__(self) -> None:
        self._out = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._in = zlib.decompressobj(wbits=-zlib.MAX_WBITS)

    def encode(self, data: bytes) -> bytes:
        """Compress and flush."""
        return self._out.compress(data) + self._out.flush(zlib.Z_SYNC_FLUSH)

    def decode(self, data: bytes) -> bytes:
        """Decompress."""
        try:
            return self._in.decompress(data)
        except zlib.error as error:
            raise NotNsq(f"the deflate stream is damaged: {error}") from error


class Snappy:
    """Snappy's framing format: chunks with checksums, after a chunk that begins the stream."""

    def __init__(self) -> None:
        self._out = cramjam.snappy.Compressor()
        self._rest = b""

    def encode(self, data: bytes) -> bytes:
        """Compress into whole chunks."""
        self._out.compress(data)
        return bytes(self._out.flush())

    def decode(self, data: bytes) -> bytes:
        """Decompress the chunks that are whole, and keep the rest."""
        data = self._rest + data
        end = _whole_chunks(data)
        self._rest = data[end:]
        if not end:
            return b""
        # The library reads whole streams, and a stream may begin more than once.
        try:
            return bytes(cramjam.snappy.decompress(_STREAM_BEGIN + data[:end]))
        except cramjam.DecompressionError as error:
            raise NotNsq(f"the snappy stream is damaged: {error}") from error


def _whole_chunks(data: bytes) -> int:
    """Return how many bytes are whole chunks."""
    end = 0
    while len(data) - end >= _CHUNK_HEAD:
        after = end + _CHUNK_HEAD + int.from_bytes(data[end + 1 : end + _CHUNK_HEAD], "little")
        if after > len(data):
            break
        end = after
    return end
