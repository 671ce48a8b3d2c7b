"""One OpenID Connect provider: where it is, its keys, and what it says of who logged in. Every wait is bounded."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec
from authlib.common.urls import add_params_to_qs
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import BadSignatureError, ExpiredTokenError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from bus.error_texts import error_text
from bus.errors import AccessDenied, EgressDenied, IssuerUnavailable
from bus.network.certificates import with_expiry_date
from bus.network.http_client import bounded_client
from bus.ports.clock import Clock
from bus.security.egress import EgressPolicy
from bus.security.oidc.flow import Flow

_log = logging.getLogger(__name__)
_TIMEOUT: Final = httpx.Timeout(5.0)
_WHOLE: Final = 10.0  # seconds for one login's questions
_LARGEST: Final = 2**20
_KEPT: Final = 3600.0  # seconds until the provider's description is read again
_KEYS_AGAIN: Final = 5.0  # seconds between two looks for new keys
_LEEWAY: Final = 60  # seconds that clocks may differ
_AT_ONCE: Final = 16
_OK: Final = 200
_SHOWN: Final = 200
_ASYMMETRIC: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
_OURS: Final = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_request"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Registration(NamedTuple):
    """What the provider and this bus agreed on; ``algorithms`` are those that its tokens may be signed with."""

    issuer: str
    client_id: str
    client_secret: str
    scopes: str
    algorithms: tuple[str, ...]


class Provider:
    """Asks the provider; its description and keys are kept, and its keys read again when a token shows a new one.

    Endpoints that it names on another host than its own are asked only where the egress policy lets the bus call.

    Raises
    ------
    ValueError
        The issuer is not an https URL (or http on loopback), or an algorithm is none that a provider signs with.
    """

    def __init__(self, registration: Registration, egress: EgressPolicy, clock: Clock) -> None:
        _check_url(registration.issuer)
        wrong = [name for name in registration.algorithms if name not in _ASYMMETRIC]
        if wrong or not registration.algorithms:
            raise ValueError(f"algorithms {wrong} are not of {', '.join(_ASYMMETRIC)}")
        self.registration = registration
        self._egress = egress
        self._clock = clock
        self._described: dict[str, Any] = {}
        self._described_at = float("-inf")
        self._keys: KeySet | None = None
        self._keys_at = float("-inf")
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def authorization_url(self, flow: Flow, redirect_uri: str) -> str:
        """Return where to send the browser; raises ``IssuerUnavailable``."""
        described = await self._within(self._describe())
        url: str = prepare_grant_uri(
            _endpoint(described, "authorization_endpoint"),
            client_id=self.registration.client_id,
            response_type="code",
            redirect_uri=redirect_uri,
            scope=self.registration.scopes,
            state=flow.state,
            nonce=flow.nonce,
            code_challenge=create_s256_code_challenge(flow.verifier),
            code_challenge_method="S256",
        )
        return url

    async def claims(self, code: str, flow: Flow, redirect_uri: str) -> dict[str, Any]:
        """Return what the provider says of who logged in, for the code that the browser brought.

        Raises
        ------
        AccessDenied
            403: the code or the token is refused: used before, of another login, expired, wrongly signed.
        IssuerUnavailable
            The provider does not answer in time, or not as one should.
        """
        return await self._within(self._exchange(code, flow, redirect_uri))

    async def _within(self, asking: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_WHOLE), self._turns:
                found: dict[str, Any] = await asking
                return found
        except (TimeoutError, httpx.HTTPError) as error:
            asking.close()
            _log.warning("the OpenID Connect provider does not answer: %s", error_text(error))
            raise _away("it does not answer") from error

    async def _exchange(self, code: str, flow: Flow, redirect_uri: str) -> dict[str, Any]:
        described = await self._describe()
        token = await self._fetch_token(described, code, flow, redirect_uri)
        raw, access = token.get("id_token"), token.get("access_token")
        if not isinstance(raw, str):
            raise _away("it gave no id_token", hint="the scopes must have openid: BUS_OIDC_SCOPES")
        return await self._verified(described, raw, access, flow)

    async def _fetch_token(self, described: dict[str, Any], code: str, flow: Flow, redirect_uri: str) -> dict[str, Any]:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": flow.verifier,
        }
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        client = ClientAuth(self.registration.client_id, self.registration.client_secret, self._method(described))
        uri, headers, body = client.prepare(
            "POST", _endpoint(described, "token_endpoint"), headers, add_params_to_qs("", fields.items())
        )
        guard = self._guard("token_endpoint", uri)
        status, answer = await _ask("POST", uri, headers=headers, content=body.encode(), extensions=guard)
        if status == _OK:
            return answer
        reason = str(answer.get("error", ""))[:_SHOWN]
        if not 400 <= status < 500 or reason in _OURS:  # noqa: PLR2004 - HTTP's own classes
            _log.error("the OpenID Connect provider refused this bus: HTTP %d %r", status, reason)
            raise _away(f"it refuses this bus: HTTP {status} {reason}", hint="check BUS_OIDC_CLIENT_ID and its secret")
        raise _refused(f"the provider refused the code: {reason or status}; it is old, or was used before")

    def _method(self, described: dict[str, Any]) -> str:
        """Return how to authenticate at the token endpoint: the standard's default, unless it takes only the other."""
        if not self.registration.client_secret:
            return "none"
        offered = described.get("token_endpoint_auth_methods_supported")
        only_post = isinstance(offered, list) and "client_secret_basic" not in offered
        return "client_secret_post" if only_post else "client_secret_basic"

    async def _verified(self, described: dict[str, Any], raw: str, access: Any, flow: Flow) -> dict[str, Any]:
        keys = await self._load_keys(described)
        try:
            token = self._decoded(raw, keys)
        except (InvalidKeyIdError, BadSignatureError) as first:
            # It may be signed with a new key: read the keys again, and refuse it if that does not help.
            try:
                token = self._decoded(raw, await self._load_keys(described, again=True))
            except JoseError as error:
                raise _refused(f"the provider's token is not signed with one of its keys: {first.error}") from error
        except (JoseError, ValueError) as error:
            raise _refused(f"the provider's token is refused: {getattr(error, 'error', 'it is malformed')}") from error
        options: Any = {
            "iss": {"essential": True, "value": self.registration.issuer},
            "aud": {"essential": True, "value": self.registration.client_id},
            "nonce": {"essential": True, "value": flow.nonce},
        }
        params = {"nonce": flow.nonce, "client_id": self.registration.client_id, "access_token": access}
        claims = CodeIDToken(token.claims, token.header, options, params)
        try:
            claims.validate(now=self._clock.now() // 1000, leeway=_LEEWAY)
        except ExpiredTokenError as error:
            raise _refused("the provider's token has expired; the clocks may differ by a minute at most") from error
        except (JoseError, ValueError, TypeError) as error:
            raise _refused(f"the provider's token is not one for this login: {_told(error)}") from error
        return dict(claims)

    def _decoded(self, raw: str, keys: KeySet) -> jwt.Token:
        return jwt.decode(raw, keys, algorithms=list(self.registration.algorithms))

    async def _describe(self) -> dict[str, Any]:
        now = self._clock.monotonic()
        if now - self._described_at > _KEPT:
            issuer = self.registration.issuer
            described = await _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration", {})
            if described.get("issuer") != issuer:
                raise _away(
                    f"it says that it is {str(described.get('issuer'))[:_SHOWN]!r}",
                    hint="give BUS_OIDC_ISSUER as it says",
                )
            self._described, self._described_at = described, now
        return self._described

    async def _load_keys(self, described: dict[str, Any], *, again: bool = False) -> KeySet:
        now = self._clock.monotonic()
        if self._keys is None or (again and now - self._keys_at > _KEYS_AGAIN):
            url = _endpoint(described, "jwks_uri")
            found: Any = await _fetch(url, self._guard("jwks_uri", url))
            try:
                self._keys, self._keys_at = KeySet.import_key_set(found), now
            except (JoseError, KeyError, TypeError, ValueError) as error:
                raise _away("its keys cannot be read") from error
        return self._keys

    def _guard(self, name: str, url: str) -> dict[str, Any]:
        """Return extensions of httpx that close a connection to an address that the egress policy denies.

        The issuer's own host is allowed.
        """
        if urlsplit(url).hostname == urlsplit(self.registration.issuer).hostname:
            return {}
        try:
            host = self._egress.check_url(url).host
        except EgressDenied as error:
            raise _forbidden(name, error) from error
        wanted, dialed = httpx.URL(url).raw_host.decode(), ""

        async def look(event: str, info: Mapping[str, Any]) -> None:
            nonlocal dialed
            if event == "connection.connect_tcp.started":
                dialed = info["host"]
            elif event == "connection.connect_tcp.complete" and dialed == wanted:  # and no proxy
                stream = info["return_value"]
                try:
                    self._egress.check_address(stream.get_extra_info("server_addr")[0], host)
                except EgressDenied as error:
                    await stream.aclose()
                    raise _forbidden(name, error) from error

        return {"trace": look}


def _endpoint(described: Mapping[str, Any], name: str) -> str:
    found = described.get(name)
    try:
        return _check_url(found if isinstance(found, str) else "")
    except ValueError as error:
        raise _away(f"its {name} is not an https URL") from error


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return url
    raise ValueError(f"{url!r} is not an https URL")


async def _fetch(url: str, guard: Mapping[str, Any]) -> dict[str, Any]:
    status, found = await _ask("GET", url, headers={"accept": "application/json"}, extensions=guard)
    if status != _OK:
        raise _away(f"{urlsplit(url).path} answers HTTP {status}", hint="check BUS_OIDC_ISSUER")
    return found


async def _ask(method: str, url: str, **more: Any) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON object of an answer; an empty one for an error without such an object."""
    async with bounded_client(_LARGEST, timeout=_TIMEOUT, verify=_tls()) as client:
        answer = await client.request(method, url, **more)
    status = answer.status_code
    try:
        return status, msgspec.json.decode(answer.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if status == _OK:
            raise _away("its answer is not a JSON object") from error
        return status, {}


@cache
def _tls() -> ssl.SSLContext:
    """Read the authorities' certificates once: it takes long."""
    return with_expiry_date(httpx.create_ssl_context())


def _told(error: Exception) -> str:
    claim = getattr(error, "claim", None)
    return f"the claim {claim!r} is wrong" if claim else str(error_text(error))


def _away(what: str, *, hint: str = "") -> IssuerUnavailable:
    return IssuerUnavailable(
        f"login through the OpenID Connect provider is unavailable: {what}; existing sessions and passwords work",
        hint=hint or "try again in a moment, or log in with a password",
    )


def _forbidden(name: str, error: EgressDenied) -> IssuerUnavailable:
    return _away(f"its {name} may not be called: {error}", hint="allow it with BUS_EGRESS_ALLOW if that is intended")


def _refused(what: str) -> AccessDenied:
    return AccessDenied(f"{what}; no session was created", hint="log in again: GET /api/v1/session/oidc")
