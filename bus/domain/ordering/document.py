"""A chain as the document that a coordinator keeps."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.ordering.chain import Chain

COLLECTION: Final = "chains"
"""The coordinator's collection: a chain for each destination, by its code."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Chain)


def encode_chain(chain: Chain) -> bytes:
    """Return the document of a chain."""
    return _encoder.encode(chain)


def decode_chain(value: bytes) -> Chain:
    """Decode a chain; raises ``msgspec.DecodeError`` for a document of another version or of another program."""
    return _decoder.decode(value)
