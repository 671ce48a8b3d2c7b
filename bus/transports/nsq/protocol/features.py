"""The features that client and nsqd negotiate when a connection begins (IDENTIFY)."""

from __future__ import annotations

import os
import socket
from typing import Final

import msgspec

from bus.localized_text import localized
from bus.transports.nsq.config import Compression, NsqConfig
from bus.transports.nsq.errors import NotNsq, PermissionRefused

_MS: Final = 1000
_AGENT: Final = "pier-bus"
# With the smallest buffer nsqd hands each message of more than twice its size to the system at once; with a larger one
# the last messages of a burst wait for the buffer's time-out, which is 25 ms at least.
_SMALLEST_BUFFER: Final = 64
_SHORTEST_BUFFERING: Final = 25


class NegotiatedFeatures(msgspec.Struct, frozen=True):
    """nsqd's answer, as far as the client uses it; times in milliseconds."""

    max_rdy_count: int = 2500
    msg_timeout: int = 60_000
    max_msg_timeout: int = 900_000
    tls_v1: bool = False
    snappy: bool = False
    deflate: bool = False
    auth_required: bool = False
    version: str = ""


_decoder: Final = msgspec.json.Decoder(NegotiatedFeatures)


def request(config: NsqConfig, *, is_extended: bool = False) -> bytes:
    """Return the JSON body of IDENTIFY; consumers of an extended topic must say so, and no others."""
    asked: dict[str, object] = {
        "client_id": f"{socket.gethostname()}/{os.getpid()}",
        "hostname": socket.gethostname(),
        "user_agent": _AGENT,
        "feature_negotiation": True,
        "heartbeat_interval": round(config.heartbeat * _MS),
        "msg_timeout": round(config.msg_timeout * _MS),
        "output_buffer_timeout": _SHORTEST_BUFFERING,
        "tls_v1": config.tls is not None,
        "snappy": config.compression is Compression.SNAPPY,
        "deflate": config.compression is Compression.DEFLATE,
    }
    if is_extended:
        asked["extend_support"] = True
    if config.compression is Compression.NONE:
        asked["output_buffer_size"] = _SMALLEST_BUFFER
    return msgspec.json.encode(asked)


def read_answer(payload: bytes, config: NsqConfig) -> NegotiatedFeatures:
    """Read nsqd's answer.

    Raises
    ------
    NotNsq
        It is no answer to IDENTIFY.
    Denied
        nsqd does not offer what the settings demand: TLS is never left out.
    """
    try:
        agreed = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotNsq(localized("nsqd does not negotiate features: {text}", text=repr(payload[:60]))) from error
    if config.tls is not None and not agreed.tls_v1:
        raise PermissionRefused(
            localized("nsqd offers no TLS, and the settings demand it: start it with --tls-cert and --tls-key")
        )
    if agreed.auth_required and not config.auth_secret:
        raise PermissionRefused(localized("nsqd asks for a secret, and none is set"))
    return agreed
