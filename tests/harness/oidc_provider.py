"""An OpenID Connect provider on a loopback port: it checks what it is asked as one does, and can be told to err."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from functools import cache
from html import escape
from typing import Any
from urllib.parse import urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "the-bus", "s3cret of the bus"
REMOVED = object()


class OidcProvider:
    """A provider at ``url`` whose clock is ``now`` (ms); ``person`` is who logs in there next.

    ``endpoints`` replaces URLs in its description. ``claims`` replaces claims of the next tokens, ``alg`` and
    ``forged`` say how they are signed. A person ``denies``, or is shown a page with a link (``asks``); the token's
    endpoint fails with ``status``, or never answers (``held``).
    """

    def __init__(self, now: Callable[[], int] = lambda: round(time.time() * 1000)) -> None:
        self.reset(now)
        self._let_go = threading.Event()
        self._codes: dict[str, dict[str, str]] = {}
        routes = [
            Route("/.well-known/openid-configuration", self._describe),
            Route("/keys", self._keys),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), host="127.0.0.1", port=0, lifespan="off", ws="none", log_config=None
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def reset(self, now: Callable[[], int]) -> None:
        """Be again as one that was just made."""
        self.now = now
        self.person: dict[str, Any] = {"sub": "1", "preferred_username": "ann", "groups": ["oncall"]}
        self.claims: dict[str, Any] = {}
        self.alg = "RS256"
        self.forged = False
        self.denies = False
        self.asks = False
        self.status = 200
        self.held = False
        self.issuer = ""
        self.lacks_id_token = False
        self.endpoints: dict[str, str] = {}
        self.asked: list[str] = []
        self._made: list[RSAKey] = []
        self.rotate()

    def start(self) -> OidcProvider:
        """Serve, once this returns."""
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < deadline, "the provider does not start"
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def stop(self) -> None:
        """Serve no more."""
        self._let_go.set()
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    def rotate(self, kid: str | None = None) -> None:
        """Sign with a new key from now on, and show only that one."""
        first, *rest = self._made or _keys()
        self._made = [*rest, first]
        self.key, self.other = self._made[:2]
        self.kid = kid or secrets.token_hex(4)

    async def _describe(self, _: Request) -> Response:
        self.asked.append("description")
        return JSONResponse(
            {
                "issuer": self.issuer or self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                **self.endpoints,
            }
        )

    async def _keys(self, _: Request) -> Response:
        self.asked.append("keys")
        shown = self.key.as_dict(private=False) | {"kid": self.kid, "use": "sig"}
        return JSONResponse({"keys": [shown, {"kty": "of-tomorrow", "kid": "x"}]})

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        assert asked["client_id"] == CLIENT
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        back = {"state": asked["state"], "iss": self.url}
        if self.denies:
            back |= {"error": "access_denied", "error_description": "<b>Ann</b> said no"}
        else:
            back["code"] = secrets.token_urlsafe(8)
            self._codes[back["code"]] = dict(asked)
        place = f"{asked['redirect_uri']}?{urlencode(back)}"
        return (
            HTMLResponse(f'<a id="yes" href="{escape(place)}">Yes</a>') if self.asks else RedirectResponse(place, 303)
        )

    async def _token(self, request: Request) -> Response:
        self.asked.append("token")
        if self.held:
            import anyio.to_thread  # noqa: PLC0415

            await anyio.to_thread.run_sync(self._let_go.wait, 60)
        if self.status != 200:
            return Response("<html>broken</html>", self.status)
        shown = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {shown}":
            return JSONResponse({"error": "invalid_client"}, 401)
        form = await request.form()
        began = self._codes.pop(str(form["code"]), None)
        if began is None or not _fits(began, form):
            return JSONResponse({"error": "invalid_grant"}, 400)
        answer = {"access_token": secrets.token_urlsafe(8), "token_type": "Bearer"}
        return JSONResponse(answer if self.lacks_id_token else {**answer, "id_token": self._signed(began["nonce"])})

    def _signed(self, nonce: str) -> str:
        now = self.now() // 1000
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        claims = {name: value for name, value in (claims | self.claims).items() if value is not REMOVED}
        header = {"alg": self.alg, "kid": self.kid}
        if self.alg == "none":
            return f"{_part(header)}.{_part(claims)}."
        if self.alg == "HS256":
            signed = f"{_part(header)}.{_part(claims)}"
            # As if the public key were a shared secret: what a careless check takes.
            mac = hmac.digest(self.key.as_pem(private=False), signed.encode(), "sha256")
            return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
        return jwt.encode(header, claims, self.other if self.forged else self.key, [self.alg])


@cache
def _keys() -> tuple[RSAKey, ...]:
    """Make keys once for all providers: it takes long, and so does reading one."""
    return tuple(RSAKey.generate_key(2048) for _ in range(3))


def _fits(began: dict[str, str], form: Any) -> bool:
    """Whether who has the code began the login (PKCE), for the same place."""
    digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return challenge == began["code_challenge"] and form["redirect_uri"] == began["redirect_uri"]


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
