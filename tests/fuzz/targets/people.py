"""Input from browsers and proxies: cookies, addresses, and tokens of an OpenID Connect provider."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import suppress
from functools import cache
from ipaddress import ip_network
from typing import Any, Final

from fastapi import Request
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from admin.access.cookies import device_token, session_token
from bus.errors import AccessDenied, IssuerUnavailable
from bus.security.clients import client_address
from bus.security.egress import EgressPolicy
from bus.security.oidc.flow import Flow
from bus.security.oidc.provider import Provider, Registration
from bus.testing.clock import NOON, ManualClock
from tests.fuzz.target import Target

_FLOW: Final = Flow("a" * 43, NOON, "/admin")


_CLAIMS: Final = {
    "iss": "https://login.example",
    "sub": "one",
    "aud": "pier",
    "iat": NOON // 1000,
    "exp": NOON // 1000 + 300,
    "nonce": _FLOW.nonce,
}


def cookies(data: bytes) -> None:
    request = Request({"type": "http", "headers": [(b"cookie", data)]})
    assert isinstance(session_token(request), str | None)
    assert isinstance(device_token(request), str | None)
    cookie, _, state = data.decode("latin-1").partition(";")
    flow = Flow.of(cookie, state, NOON)
    assert flow is None or Flow.of(flow.cookie, flow.state, NOON) == flow


def forwarded(data: bytes) -> None:
    fields = [(b"x-forwarded-for", line) for line in data.split(b"\n")]
    assert client_address("192.0.2.1", fields, [ip_network("10.0.0.0/8")]) == "192.0.2.1"
    assert len(client_address("10.0.0.1", fields, [ip_network("0.0.0.0/0")])) <= 64


@cache
def _key() -> ECKey:
    return ECKey.generate_key("P-256", parameters={"kid": "one"})


@cache
def _provider() -> Provider:
    registration = Registration("https://login.example", "pier", "", "openid", ("ES256",))
    provider = Provider(registration, EgressPolicy(), ManualClock(NOON))
    provider._keys = KeySet([_key()])
    provider._keys_at = float("inf")
    return provider


def oidc_tokens(data: bytes) -> None:
    """Nothing without a signature is believed, and of what is signed only what is meant for this login."""
    assert _claims(data.decode("latin-1")) is None
    with suppress(ValueError, TypeError, RecursionError):
        claims = json.loads(data)
        signed = jwt.encode({"alg": "ES256", "kid": "one"}, claims if isinstance(claims, dict) else {}, _key())
        found = _claims(signed)
        assert found is None or all(found[name] == _CLAIMS[name] for name in ("iss", "nonce"))


def _claims(token: str) -> dict[str, Any] | None:
    with suppress(AccessDenied, IssuerUnavailable):
        return asyncio.run(_provider()._verified({}, token, None, _FLOW))
    return None


TARGETS: Final = {
    "cookies": Target(
        cookies,
        [
            b"bus_session=abc; bus_device=def; __Host-bus_session=ghi",
            f"{_FLOW.cookie};{_FLOW.state}".encode(),
            b'bus_session="a\\054b"; =; ;',
        ],
    ),
    "forwarded": Target(forwarded, [b"192.0.2.7:80, 10.0.0.2", b'"[2001:db8::1]:80"', b"::ffff:10.0.0.3\n, ,unknown"]),
    "oidc_tokens": Target(
        oidc_tokens,
        [
            json.dumps(_CLAIMS).encode(),
            json.dumps(_CLAIMS | {"aud": ["pier", "other"], "azp": "pier", "at_hash": "x"}).encode(),
            b".".join(base64.urlsafe_b64encode(part) for part in (b'{"alg":"none"}', b"{}", b"")),
            b".".join(base64.urlsafe_b64encode(part) for part in (b'{"alg":"ES256","kid":"one"}', b"{}", bytes(64))),
        ],
    ),
}
