"""``bus key`` and ``bus user``: through the admin API, or offline on a data directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from bus.cli.commands.destinations import show, without_rate
from bus.cli.commands.serving import Config, server_extra
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Output, Server
from bus.cli.output import print_json
from bus.errors import ConfigurationError

if TYPE_CHECKING:
    from bus.security.keyring import Keyring

keys = typer.Typer(
    name="key", help="Create, limit, list and revoke API keys.", no_args_is_help=True, rich_markup_mode=None
)
users = typer.Typer(name="user", help="Manage users.", no_args_is_help=True, rich_markup_mode=None)
Data = Annotated[
    Path | None, typer.Option("--data", help="Work without the API, on this data directory; its bus may run.")
]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Messages per second that each receiver accepts.")]
Burst = Annotated[int | None, typer.Option(min=1, help="Messages that each receiver accepts at once.")]
KeyId = Annotated[str, typer.Argument(metavar="ID", help="Id of the key, see bus key list.", show_default=False)]
UserName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.", show_default=False)]
_USERS: Final = "/api/v1/users"
# Each of them is made by the first start of a bus, or by the first key or user.
_MARKS: Final = ("processes", "store")


class KeyRole(StrEnum):
    """The role of a key."""

    PRODUCER = "producer"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class UserRole(StrEnum):
    """The role of a user."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@keys.callback()
def _keys() -> None:
    """Create, limit, list and revoke API keys."""


@users.callback()
def _users() -> None:
    """Manage users."""


@keys.command("create", epilog="Example:  bus key create --destination order.cancelled --role producer")
@grouped
def create_key(
    destination: Annotated[
        list[str] | None, typer.Option(help="Limit the key to this destination; repeatable.")
    ] = None,
    role: Annotated[KeyRole, typer.Option(help="Role of the key.")] = KeyRole.PRODUCER,
    name: Annotated[str, typer.Option(help="Name of the key.")] = "",
    rate: Rate = None,
    burst: Burst = None,
    data: Data = None,
    config: Config = None,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Create an API key and print it, once."""
    codes = destination or []
    if data is None:
        limits = {key: value for key, value in (("rate", rate), ("burst", burst)) if value is not None}
        body = {"name": name, "role": role.value, "destinations": codes, **limits}
        with server.api() as api:
            made = api.call("POST", "/api/v1/keys", body=body)
    else:
        secret = _offline(
            data,
            config,
            lambda ring: ring.create_key(roles=(role,), destinations=tuple(codes), name=name, rate=rate, burst=burst),
        )
        made = {"key": secret, "role": role.value, "destinations": codes}
    if as_json:
        print_json(made)
    else:
        typer.echo(made["key"])


@keys.command("list", epilog="Example:  bus key list")
@grouped
def list_keys(output: Output, server: Server) -> None:
    """List API keys with role, limits and last use."""
    table = output.table("id", "name", "role", "destinations", "rate", "created_at", "last_used_at")
    with server.api() as api:
        found = api.call("GET", "/api/v1/keys")
    if output.as_json:
        print_json(found)
    else:
        table.show(found["items"])


@keys.command("set", epilog="Example:  bus key set 0a1b2c3d4e5f --rate 50 --burst 200")
@grouped
def limit_key(
    key_id: KeyId,
    rate: Rate = None,
    burst: Burst = None,
    no_rate: Annotated[bool, typer.Option("--no-rate", help="Remove the rate limit.")] = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Change the rate limit of an API key."""
    given = {name: value for name, value in (("rate", rate), ("burst", burst)) if value is not None}
    with server.api() as api:
        changed = api.call("PATCH", _key_path(key_id), body=given | without_rate(rate, burst, no_rate))
    show(changed, as_json=as_json)


@keys.command("revoke", epilog="Example:  bus key revoke 0a1b2c3d4e5f")
@grouped
def revoke_key(
    key_id: KeyId,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Revoke an API key; it takes effect within seconds."""
    with server.api() as api:
        api.call("DELETE", _key_path(key_id))
    show({"revoked": key_id}, as_json=as_json)


@users.command("add", epilog="Example:  bus user add ann --role operator --destination order.cancelled")
@grouped
def add_user(
    name: UserName,
    role: Annotated[UserRole, typer.Option(help="Role of the user.")] = UserRole.VIEWER,
    destination: Annotated[
        list[str] | None, typer.Option(help="Limit the user to this destination; repeatable.")
    ] = None,
    data: Data = None,
    config: Config = None,
    as_json: AsJson = False,
    *,
    server: Server,
) -> None:
    """Create a user and print the password, once."""
    codes = destination or []
    if role is UserRole.ADMIN and codes:
        raise ConfigurationError(
            "the role admin cannot be limited to destinations", hint="omit --destination, or choose another --role"
        )
    if data is None:
        body = {"name": name, "role": role.value, "destinations": codes}
        with server.api() as api:
            made: dict[str, Any] = api.call("POST", _USERS, body=body)
    else:
        password = _offline(data, config, lambda ring: ring.add_user(name, role, tuple(codes)))
        made = {"name": name, "role": role.value, "destinations": codes, "password": password}
    show(made, as_json=as_json)


@users.command("list", epilog="Example:  bus user list")
@grouped
def list_users(output: Output, server: Server) -> None:
    """List users and their roles."""
    table = output.table("name", "role", "destinations", "created_at", "login", "blocked")
    with server.api() as api:
        found = api.call("GET", _USERS)
    if output.as_json:
        print_json(found)
    else:
        table.show([one | {"login": one.get("logs_in_by")} for one in found["items"]])


@users.command("reset-password", epilog="Example:  bus user reset-password ann")
@grouped
def reset_password(name: UserName, as_json: AsJson = False, *, server: Server) -> None:
    """Set a new password, print it once, and end all sessions."""
    with server.api() as api:
        show(api.call("POST", f"{_user_path(name)}/reset-password"), as_json=as_json)


@users.command("block", epilog="Example:  bus user block ann")
@grouped
def block_user(name: UserName, as_json: AsJson = False, *, server: Server) -> None:
    """Block a user and end all sessions."""
    with server.api() as api:
        show(api.call("PATCH", _user_path(name), body={"blocked": True}), as_json=as_json)


@users.command("unblock", epilog="Example:  bus user unblock ann")
@grouped
def unblock_user(name: UserName, as_json: AsJson = False, *, server: Server) -> None:
    """Unblock a user."""
    with server.api() as api:
        show(api.call("PATCH", _user_path(name), body={"blocked": False}), as_json=as_json)


@users.command("rm", epilog="Example:  bus user rm ann")
@grouped
def remove_user(name: UserName, as_json: AsJson = False, *, server: Server) -> None:
    """Remove a user and end all sessions."""
    with server.api() as api:
        api.call("DELETE", _user_path(name))
    show({"removed": name}, as_json=as_json)


def _key_path(key_id: str) -> str:
    return f"/api/v1/keys/{quote(key_id, safe='')}"


def _user_path(name: str) -> str:
    return f"{_USERS}/{quote(name, safe='')}"


def _offline(data: Path, config: Path | None, change: Callable[[Keyring], Awaitable[str]]) -> str:
    """Change the keyring in the store that a bus with this configuration and data directory would have."""
    import asyncio  # noqa: PLC0415 - not for `bus --help`

    with server_extra():
        from bus.bootstrap import open_offline_keyring  # noqa: PLC0415
        from bus.settings import load_settings  # noqa: PLC0415

    settings = load_settings(config, {"data": data})
    is_new = _check_data(data) and not settings.store

    async def work() -> str:
        async with open_offline_keyring(settings) as keyring:
            return await change(keyring)

    made = asyncio.run(work())
    if is_new:
        typer.echo(f"{data} is a new data directory; start its bus with: bus up --data {data}", err=True)
    return made


def _check_data(data: Path) -> bool:
    """Return whether a data directory is new; raises ``ConfigurationError`` when it holds something else."""
    if not data.exists():
        return True
    if not data.is_dir():
        raise ConfigurationError(
            f"--data {data} is not a directory; nothing was created", hint="give the data directory of bus up"
        )
    names = {path.name for path in data.iterdir()}
    if names and names.isdisjoint(_MARKS):
        raise ConfigurationError(
            f"--data {data} is not the data directory of a bus; nothing was created",
            hint="give the data directory of bus up, or an empty directory",
        )
    return not names
