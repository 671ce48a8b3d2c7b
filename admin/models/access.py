"""Bodies of keys, users and logins."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    model_validator,
)

from admin.models.base import MOST_AT_ONCE, Body, Code, Whole
from bus.localized_text import localized
from bus.security.keyring import StoredUser
from bus.security.passwords import LONGEST


class KeyBody(Body):
    """An API key to create."""

    name: str = Field(default="", max_length=200)
    role: Literal["producer", "viewer", "operator", "admin"] = "producer"
    destinations: list[Code] = Field(default_factory=list)
    rate: StrictFloat | None = Field(default=None, gt=0)
    burst: Whole | None = Field(default=None, ge=1, le=MOST_AT_ONCE)


class KeyRateBody(Body):
    """The fields of a key that can be changed: how many messages it may send a second, and at once."""

    rate: StrictFloat | None = Field(default=None, gt=0)
    burst: Whole | None = Field(default=None, ge=1, le=MOST_AT_ONCE)


class UserBody(Body):
    """A user to create; a ``blocked`` one cannot log in, and has no session."""

    name: str = Field(pattern=r"^[A-Za-z0-9._@-]{1,128}$")
    role: Literal["viewer", "operator", "admin"] = "viewer"
    destinations: list[Code] = Field(default_factory=list, max_length=1000)
    blocked: StrictBool = False

    @model_validator(mode="after")
    def _limits_hold(self) -> Self:
        """Refuse to limit an admin to destinations."""
        if self.role == "admin" and self.destinations:
            raise ValueError(localized("an admin is not limited to destinations"))
        return self

    @classmethod
    def of(cls, user: StoredUser) -> UserBody:
        """Return the body of a stored user."""
        return cls.model_validate(
            {"name": user.name, "role": user.role, "destinations": list(user.destinations), "blocked": user.blocked}
        )


class LoginBody(Body):
    """The name and the password of a login."""

    name: str = Field(max_length=128)
    password: str = Field(max_length=LONGEST)


class PasswordBody(Body):
    """The current password of the caller, and the new one."""

    current_password: str = Field(max_length=LONGEST)
    password: str = Field(max_length=LONGEST)
