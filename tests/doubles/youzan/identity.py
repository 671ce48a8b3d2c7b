"""IDENTIFY: the client's features, and the nsqd's response."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.doubles.youzan.refusals import bad_body

VERSION: Final = "0.3.7-HA.1.13.0"
MOST_READY: Final = 2500
LONGEST_TIMEOUT: Final = 15 * 60.0
_HEARTBEATS: Final = (1_000, 60_000)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that hold for clients that ask for none of their own."""

    msg_timeout: float = 60.0
    heartbeat: float = 30.0


@dataclass(frozen=True, slots=True)
class Identity:
    """One client; ``heartbeat`` is 0 when it wants none, times are in seconds."""

    client_id: str
    hostname: str
    user_agent: str
    extend_support: bool
    msg_timeout: float
    heartbeat: float

    @classmethod
    def unknown(cls, limits: Limits) -> Identity:
        """Return what holds before IDENTIFY."""
        return cls("", "", "", extend_support=False, msg_timeout=limits.msg_timeout, heartbeat=limits.heartbeat)


def identify(body: bytes, limits: Limits) -> tuple[Identity, bytes]:
    """Return the client and the answer: JSON if it negotiates features.

    Raises
    ------
    Refused
        It is not JSON, or asks for what is out of range.
    """
    try:
        asked: dict[str, Any] = json.loads(body)
    except ValueError:
        raise bad_body("IDENTIFY failed to decode JSON body") from None
    identity = Identity(
        client_id=asked.get("client_id") or asked.get("short_id") or "",
        hostname=asked.get("hostname") or asked.get("long_id") or "",
        user_agent=asked.get("user_agent") or "",
        extend_support=bool(asked.get("extend_support")),
        msg_timeout=_msg_timeout(asked.get("msg_timeout") or 0, limits.msg_timeout),
        heartbeat=_heartbeat(asked.get("heartbeat_interval") or 0, limits.heartbeat),
    )
    return identity, _answer(identity) if asked.get("feature_negotiation") else b"OK"


def _msg_timeout(milliseconds: int, default: float) -> float:
    if not 0 <= milliseconds <= LONGEST_TIMEOUT * 1000:
        raise bad_body(f"IDENTIFY msg timeout ({milliseconds}) is invalid")
    return milliseconds / 1000 or default


def _heartbeat(milliseconds: int, default: float) -> float:
    if milliseconds == -1:
        return 0.0
    if milliseconds and not _HEARTBEATS[0] <= milliseconds <= _HEARTBEATS[1]:
        raise bad_body(f"IDENTIFY heartbeat interval ({milliseconds}) is invalid")
    return milliseconds / 1000 or default


def _answer(identity: Identity) -> bytes:
    return json.dumps(
        {
            "max_rdy_count": MOST_READY,
            "version": VERSION,
            "max_msg_timeout": int(LONGEST_TIMEOUT * 1000),
            "msg_timeout": int(identity.msg_timeout * 1000),
            "tls_v1": False,
            "deflate": False,
            "deflate_level": 0,
            "max_deflate_level": 6,
            "snappy": False,
            "sample_rate": 0,
            "auth_required": False,
            "output_buffer_size": 16384,
            "output_buffer_timeout": 250,
        }
    ).encode()
