"""``bus doctor``: whether this machine, and the bus that it speaks to, are as they should be."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from urllib.parse import urlsplit

import typer

from bus.cli.api import Api
from bus.cli.commands.serving import server_extra
from bus.cli.grouping import grouped
from bus.cli.options import DEFAULT_URL, AsJson, Server
from bus.cli.output import console, plain, print_json
from bus.cli.permissions import close, opened
from bus.errors import BusError, ConfigurationError, ReceiverRefused, SpoolError
from bus.network.error_texts import error_text

if TYPE_CHECKING:
    from bus.settings import Settings
    from bus.spool.inspect import Overview

_FORBIDDEN: Final = 403
_DAMAGED: Final = "see docs/operations.md, Damaged files, and bus spool show"
_AS_OWNER: Final = "run it as the owner"
_LACKED: Final = "wait for a subscription that the configuration lacks"
_LACKING: Final = "make it again, or bus doctor --accept-empty-store"
_BRING_BACK: Final = "bring its brokers back; see docs/ordering.md, Operating a strict order"
_OLDEST_SQLITE: Final = (3, 51, 3)


class Check(NamedTuple):
    """One line: whether it is well, what was found, what to do when it is not."""

    name: str
    ok: bool
    detail: str
    do: str = ""


@grouped
def doctor(
    data: Annotated[Path | None, typer.Option(help="Data or spool directory to look at.")] = None,
    config: Annotated[Path | None, typer.Option(help="A bus.toml to check.")] = None,
    as_json: AsJson = False,
    *,
    server: Server,
    accept_empty_store: Annotated[
        bool,
        typer.Option(
            "--accept-empty-store",
            help="The emptied store was meant: remove what was put back into it, drop what waits for nobody.",
        ),
    ] = False,
    keep_configuration: Annotated[
        bool, typer.Option("--keep-configuration", help="What was put back into an emptied store is right.")
    ] = False,
    close_directory: Annotated[
        bool, typer.Option("--close-directory", help="Let nobody but its owner read what is in the data directory.")
    ] = False,
) -> int:
    """Check configuration, disk and every part of the bus; exit 1 with what to do when something is wrong."""
    configuration, settings = _configuration(config)
    place = data or (settings.data if settings is not None else None)
    if settings is not None and not server.is_chosen:
        server = replace(server, address=_own_url(settings))
    if accept_empty_store or keep_configuration:
        _choose(server, accept=accept_empty_store, keep=keep_configuration)
    checks = [_python(), _sqlite(), configuration, _disk(place or Path(), settings)]
    if place is not None:
        checks += [_permissions(place, mend=close_directory), *_spools(place)]
    if settings is not None and settings.zookeeper:
        checks.append(_coordinator(settings))
    if settings is not None and (settings.kafka_groups or settings.rabbitmq_groups):
        checks += _groups(settings)
    checks += _bus(server)
    if as_json:
        print_json({"ok": all(check.ok for check in checks), "checks": [check._asdict() for check in checks]})
    else:
        out = console()
        for check in checks:
            mark = ("ok  ", "green") if check.ok else ("FAIL", "bold red")
            out.print(mark[0], style=mark[1], end="  ")
            out.print(f"{check.name}: {plain(check.detail)}" + (f" -> {check.do}" if check.do else ""))
    return 0 if all(check.ok for check in checks) else 1


def _choose(server: Server, *, accept: bool, keep: bool) -> None:
    """Tell the bus whether to accept a store that was found emptied, or to keep the configuration put back into it."""
    if accept and keep:
        raise typer.BadParameter("choose one of --accept-empty-store and --keep-configuration")
    with server.api() as api:
        api.call("POST", "/api/v1/emptied-store", body={"accept": accept})


def _python() -> Check:
    return Check("python", ok=True, detail=sys.version.split()[0])


def _sqlite() -> Check:
    import apsw  # noqa: PLC0415

    version = apsw.sqlite_lib_version()
    new = tuple(int(part) for part in version.split(".")) >= _OLDEST_SQLITE
    return Check("sqlite", new, version, "" if new else 'pip install -U "apsw>=3.51.3"')


def _configuration(config: Path | None) -> tuple[Check, Settings | None]:
    """Check the settings as a start of the bus does; returns them as well."""
    if importlib.util.find_spec("pydantic_settings") is None:
        if config is None:
            return Check("server extra", ok=True, detail="not installed: client commands only"), None
        return Check("server extra", ok=False, detail="not installed", do='pip install "pier-bus[server]"'), None
    try:
        with server_extra():
            from bus.bootstrap import check_settings  # noqa: PLC0415
            from bus.settings import load_settings  # noqa: PLC0415
        settings = load_settings(config, {})
        check_settings(settings)
    except ConfigurationError as error:
        return Check("configuration", ok=False, detail=str(error), do=error.hint), None
    return Check("configuration", ok=True, detail=str(config or "defaults and BUS_* environment")), settings


def _disk(directory: Path, settings: Settings | None) -> Check:
    place = directory.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return Check("disk", ok=False, detail=f"{place} is not a directory", do="choose another --data")
    if not os.access(place, os.W_OK | os.X_OK):
        return Check("disk", ok=False, detail=f"{place} cannot be written", do="change its owner, or choose another")
    usage = shutil.disk_usage(place)
    detail = f"{usage.free / 2**30:.1f} GiB free at {place}"
    if settings is None or usage.free > settings.reserve(usage.total):
        return Check("disk", ok=True, detail=detail)
    reserve = f"{settings.reserve(usage.total) / 2**30:.1f} GiB are kept for outcomes"
    return Check("disk", ok=False, detail=f"{detail}; {reserve}", do="free disk: new messages are refused until then")


def _permissions(directory: Path, *, mend: bool) -> Check:
    """Check that only its owner can read what the bus keeps: secrets of signatures, hashes of keys, messages."""
    name = "permissions"
    try:
        found = opened(directory)
    except OSError as error:
        return Check(name, ok=False, detail=f"{directory} cannot be looked at: {error_text(error)}", do=_AS_OWNER)
    if not found:
        return Check(name, ok=True, detail=f"what is in {directory} is its owner's alone")
    said = f"{len(found)} files and directories of {directory} are open to other users"
    if not mend:
        return Check(name, ok=False, detail=f"{said}, such as {found[-1]}", do="bus doctor --close-directory")
    try:
        close(found)
    except OSError as error:
        return Check(name, ok=False, detail=f"{said}: {error_text(error)}", do=_AS_OWNER)
    return Check(name, ok=True, detail=f"{said} no more")


def _spools(directory: Path) -> list[Check]:
    """Look into the local file queues under a directory, whoever owns them."""
    from bus.spool.inspect import Inspection, spools  # noqa: PLC0415

    checks = []
    for path in spools(directory):
        name = f"spool {path}"
        try:
            with Inspection(path) as inspection:
                found = inspection.overview()
        except SpoolError as error:
            checks.append(Check(name, ok=False, detail=str(error), do=_DAMAGED))
            continue
        detail = f"{found.records} records" + (f", {found.damaged} damaged ones set aside" if found.damaged else "")
        checks.append(Check(name, not found.damaged, detail, _DAMAGED if found.damaged else ""))
        checks += _foreign(found)
    return checks


def _foreign(overview: Overview) -> list[Check]:
    from bus.cli.commands.files.foreign import Foreign  # noqa: PLC0415

    foreign = Foreign(overview.directory)
    return [
        Check(
            f"lane {found.lane}/{found.consumer}",
            False,
            f"{found.records} records of {overview.directory} {_LACKED}",
            _LACKING,
        )
        for found in overview.consumers
        if found.records and foreign.has(found)
    ]


def _coordinator(settings: Settings) -> Check:
    import asyncio  # noqa: PLC0415 - not for `bus --help`

    from bus.bootstrap.coordinator import probe_coordinator  # noqa: PLC0415 - the server extra is there

    try:
        asyncio.run(probe_coordinator(settings))
    except BusError as error:
        return Check("coordinator", ok=False, detail=str(error), do=error.hint)
    return Check("coordinator", ok=True, detail=f"ZooKeeper at {settings.zookeeper} answers")


def _groups(settings: Settings) -> list[Check]:
    """Ask from here each group of brokers for strictly ordered destinations, by the name of its setting."""
    import asyncio  # noqa: PLC0415 - not for `bus --help`

    from bus.bootstrap.probing import probe_groups  # noqa: PLC0415 - the server extra is there

    try:
        found = asyncio.run(probe_groups(settings))
    except ConfigurationError as error:
        return [Check("groups of brokers", ok=False, detail=str(error), do=error.hint)]
    return [
        Check(name, not trouble, str(trouble or "answers"), _BRING_BACK if trouble else "")
        for name, trouble in found.items()
    ]


def _own_url(settings: Settings) -> str:
    """Return where a bus with these settings serves, as this machine reaches it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    port = settings.port or urlsplit(DEFAULT_URL).port
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bus(server: Server) -> list[Check]:
    try:
        with server.api(timeout=5) as api:
            api.call("GET", "/healthz")
            health = api.call("GET", "/readyz")
            parts = [
                Check(part["name"], part["ok"], part["detail"] or "ok", "" if part["ok"] else "see docs/operations.md")
                for part in health["checks"]
            ]
            return [Check("bus", ok=True, detail=f"{server.url} {health['status']}"), *parts, _access(api)]
    except BusError as error:
        return [Check("bus", ok=False, detail=str(error), do=error.hint)]
    except (KeyError, TypeError):
        return [Check("bus", ok=False, detail=f"{server.url} is not a bus", do="check --server")]


def _access(api: Api) -> Check:
    try:
        api.call("GET", "/api/v1/destinations")
    except ReceiverRefused as error:
        if error.status == _FORBIDDEN:
            return Check("access", ok=True, detail=f"the key is known, for sending only: {error}")
        return Check("access", ok=False, detail=str(error), do=error.hint)
    except BusError as error:
        return Check("access", ok=False, detail=str(error), do=error.hint)
    return Check("access", ok=True, detail="the admin API answers")
