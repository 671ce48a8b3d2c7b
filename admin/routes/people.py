"""Routes of users and their rights. No answer has a password's hash."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Response

from admin.deps import Configurer, ServicesDep
from admin.models.access import UserBody
from admin.models.base import optional_time
from admin.models.responses.access import NewPasswordView, UserView
from admin.models.responses.base import Listing
from admin.requests.audited import AuditedRoute, NotingDep
from admin.requests.changing import merged
from admin.routes.sessions import login_of
from admin.services import AdminServices
from bus.errors import Conflict, InvalidMessage, NotFound
from bus.localized_text import localized
from bus.security.keyring import StoredUser

router = APIRouter(prefix="/users", tags=["users"], route_class=AuditedRoute)


@router.get("")
async def list_users(services: ServicesDep, _: Configurer) -> Listing[UserView]:
    """Return the users by name."""
    return Listing(items=[_view(user) for user in services.context.keyring.all_users()])


@router.post("", status_code=201)
async def create_user(body: UserBody, services: ServicesDep, _: Configurer) -> NewPasswordView:
    """Create a user with a generated password, which is shown once."""
    keyring = services.context.keyring
    if body.blocked:
        raise InvalidMessage(localized("a user is made to log in, and blocked later"), field="blocked")
    password = await keyring.add_user(body.name, body.role, tuple(body.destinations))
    return _with_password(_user(services, body.name), password)


@router.get("/{user}")
async def get_user(user: str, services: ServicesDep, _: Configurer) -> UserView:
    """Return one user."""
    return _view(_user(services, user))


@router.patch("/{user}")
async def patch_user(
    user: str, changes: dict[str, Any], services: ServicesDep, noting: NotingDep, _: Configurer
) -> UserView:
    """Change the rights of a user; it holds for their sessions at once here, within seconds in other processes.

    ``blocked`` ends them. The rights of who logs in at the OpenID Connect provider are changed there (409).
    """
    known = _user(services, user)
    body = merged(UserBody.of(known), changes)
    if body.name != user:
        raise InvalidMessage(localized("a user's name does not change"), field="name")
    if known.subject and (body.role, tuple(body.destinations)) != (known.role, known.destinations):
        raise Conflict(
            localized(
                "what {user} may do is what the OpenID Connect provider says at each login; nothing was changed",
                user=repr(user),
            ),
            hint=localized("change it there, or block the user here"),
        )
    changed = await services.context.keyring.change_user(
        user, body.role, tuple(body.destinations), blocked=body.blocked
    )
    noting.compare(msgspec.structs.asdict(_view(known)), msgspec.structs.asdict(_view(changed)))
    return _view(changed)


@router.post("/{user}/reset-password")
async def reset_password(user: str, services: ServicesDep, _: Configurer) -> NewPasswordView:
    """Make another password, shown once, and end the user's sessions."""
    changed, password = await services.context.keyring.set_password(user)
    return _with_password(changed, password)


@router.delete("/{user}", status_code=204)
async def delete_user(user: str, services: ServicesDep, _: Configurer) -> Response:
    """Remove a user and end their sessions: at once here, within seconds in other processes."""
    if not await services.context.keyring.delete_user(user):
        raise _missing(user)
    await services.saved.forget("user", user)
    return Response(status_code=204)


def _user(services: AdminServices, name: str) -> StoredUser:
    found = services.context.keyring.user(name)
    if found is None:
        raise _missing(name)
    return found


def _missing(name: str) -> NotFound:
    return NotFound(localized("there is no user {name}", name=repr(name[:128])), hint="bus user list")


def _with_password(user: StoredUser, password: str) -> NewPasswordView:
    return NewPasswordView(**msgspec.structs.asdict(_view(user)), password=password)


def _view(user: StoredUser) -> UserView:
    return UserView(
        name=user.name,
        role=user.role,
        destinations=list(user.destinations),
        created_at=optional_time(user.created_at),
        logs_in_by=login_of(user),
        blocked=user.blocked,
    )
