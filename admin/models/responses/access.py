"""Keys, users, sessions and saved views."""

from __future__ import annotations

from admin.models.responses.base import View


class KeyView(View, kw_only=True):
    """An API key without its secret."""

    id: str
    name: str
    role: str | None
    roles: list[str]
    destinations: list[str]
    rate: float | None
    burst: int | None
    created_at: str | None
    last_used_at: str | None


class NewKeyView(View, kw_only=True):
    """A new API key; ``key`` is shown once."""

    id: str | None
    key: str
    name: str
    role: str
    destinations: list[str]
    rate: float | None
    burst: int | None


class UserView(View, kw_only=True):
    """A user; ``logs_in_by`` is ``password`` or ``oidc``."""

    name: str
    role: str
    destinations: list[str]
    created_at: str | None
    logs_in_by: str
    blocked: bool


class NewPasswordView(UserView, kw_only=True):
    """A user with a new password, which is shown once."""

    password: str


class SessionView(View, kw_only=True):
    """The caller and their rights; the other fields are null without a session."""

    kind: str
    name: str
    roles: list[str]
    destinations: list[str]
    may: list[str]
    logs_in_by: str | None
    csrf: str | None
    expires_at: str | None
    idle_seconds: int | None


class LoginMethodView(View, kw_only=True):
    """A way to log in, and where it begins."""

    kind: str
    label: str
    url: str


class LoginMethodsView(View, kw_only=True):
    """The ways to log in; ``open`` when no login is needed."""

    items: list[LoginMethodView]
    open: bool


class OwnerView(View, kw_only=True):
    """The owner of a saved view."""

    kind: str
    id: str
    name: str


class SavedView(View, kw_only=True):
    """A page and the query string of its URL, kept under a name."""

    name: str
    page: str
    query: str
    shared: bool
    owner: OwnerView
    mine: bool
    version: int
    updated_at: str
