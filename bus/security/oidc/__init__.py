"""Logging in at an OpenID Connect provider: authorization code with PKCE, through authlib."""

from __future__ import annotations

from bus.security.oidc.flow import Flow
from bus.security.oidc.mapping import Mapping, parse_roles, subject_of
from bus.security.oidc.provider import Provider, Registration

__all__ = ["Flow", "Mapping", "Provider", "Registration", "parse_roles", "subject_of"]
