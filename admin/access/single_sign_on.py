"""Logging in at the OpenID Connect provider that the settings name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from bus.errors import AccessDenied, ConfigurationError, TooManyAttempts
from bus.extras import extra
from bus.ports.clock import Clock
from bus.security.clients import network_of
from bus.security.egress import EgressPolicy
from bus.security.keyring import Keyring, StoredUser
from bus.security.throttle import Limit, Throttle
from bus.settings import Settings

if TYPE_CHECKING:
    from bus.security.oidc import Flow, Mapping, Provider

CALLBACK: Final = "/api/v1/session/oidc/callback"
_LIMIT: Final = Limit(free=20, longest=60.0)
_HINT: Final = "see docs/configuration.md, Single sign-on"
_log = logging.getLogger(__name__)


class SingleSignOn:
    """The provider, and how its users map to users of the bus."""

    def __init__(self, provider: Provider, mapping: Mapping, label: str, keyring: Keyring, clock: Clock) -> None:
        self.label = label
        self._provider = provider
        self._mapping = mapping
        self._keyring = keyring
        self._clock = clock
        self._failures = Throttle(_LIMIT, clock.monotonic)

    async def begin(self, place: str | None, redirect_uri: str) -> tuple[str, Flow]:
        """Return the URL to send a browser to, and the flow for its cookie; raises ``IssuerUnavailable``."""
        from bus.security.oidc import Flow  # noqa: PLC0415 - only with the extra

        flow = Flow.begin(self._clock.now(), place)
        return await self._provider.authorization_url(flow, redirect_uri), flow

    def flow(self, cookie: str | None, state: str | None) -> Flow:
        """Return the flow in a browser's cookie; raises ``AccessDenied`` (403) when there is none or it is too old."""
        from bus.security.oidc import Flow  # noqa: PLC0415 - only with the extra

        found = Flow.of(cookie, state, self._clock.now())
        if found is None:
            raise AccessDenied(
                "the login is older than ten minutes, or was started in another browser; no session was created",
                hint="log in again; the browser must take cookies: GET /api/v1/session/oidc",
            )
        return found

    def check_issuer(self, issuer: str | None) -> None:
        """Raise ``AccessDenied`` (403) when an answer names another provider as its issuer (RFC 9207)."""
        if issuer is not None and issuer != self._provider.registration.issuer:
            raise AccessDenied("this response is from another provider; no session was created", hint="log in again")

    async def finish(self, flow: Flow, code: str, redirect_uri: str, *, address: str) -> StoredUser:
        """Return the user of the bus who has logged in at the provider.

        Raises
        ------
        AccessDenied
            403: the provider refuses the code, its token is not valid, or the claims give no role of the bus.
        TooManyAttempts
            Too many recent logins from this network failed.
        IssuerUnavailable
            The provider does not answer, or its answer does not follow OpenID Connect.
        """
        network = network_of(address)
        wait = self._failures.wait(network)
        if wait > 0:
            raise TooManyAttempts("too many attempts to log in failed", hint="try again later", wait=wait)
        self._failures.count(network)
        try:
            user = await self._user(flow, code, redirect_uri)
        except AccessDenied as error:
            _log.warning("a login at the OpenID Connect provider from %s failed: %s", address, error)
            raise
        self._failures.forgive(network)
        return user

    async def _user(self, flow: Flow, code: str, redirect_uri: str) -> StoredUser:
        from bus.security.oidc import subject_of  # noqa: PLC0415 - only with the extra

        issuer = self._provider.registration.issuer
        claims = await self._provider.claims(code, flow, redirect_uri)
        try:
            identity = self._mapping.identity(issuer, claims)
        except AccessDenied:
            # A user who may no longer log in also loses the sessions they have.
            await self._keyring.sign_out(subject_of(issuer, claims))
            raise
        return await self._keyring.sign_in(identity)


def single_sign_on(settings: Settings, keyring: Keyring, egress: EgressPolicy, clock: Clock) -> SingleSignOn | None:
    """Return the log-in at a provider, None when the settings name none.

    Raises
    ------
    ConfigurationError
        The settings are impossible, or the ``oidc`` extra is missing.
    """
    if not settings.oidc_issuer:
        return None
    with extra("oidc"):
        from bus.security.oidc import Mapping, Provider, Registration, parse_roles  # noqa: PLC0415 - only with the extra

    if not settings.oidc_client_id or not settings.oidc_roles:
        raise ConfigurationError("oidc_issuer needs oidc_client_id and oidc_roles", hint=_HINT)
    registration = Registration(
        settings.oidc_issuer,
        settings.oidc_client_id,
        settings.oidc_client_secret,
        settings.oidc_scopes,
        tuple(filter(None, map(str.strip, settings.oidc_algorithms.split(",")))),
    )
    try:
        provider = Provider(registration, egress, clock)
        roles = parse_roles(settings.oidc_roles)
    except ValueError as error:
        raise ConfigurationError(f"the oidc settings are impossible: {error}", hint=_HINT) from error
    mapping = Mapping(settings.oidc_name_claim, settings.oidc_role_claim, roles, settings.oidc_destinations_claim)
    return SingleSignOn(provider, mapping, settings.oidc_label, keyring, clock)
