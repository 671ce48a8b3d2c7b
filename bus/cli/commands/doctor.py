"""``bus doctor``: checks of this host and of the bus."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from bus.cli.api import Api
from bus.cli.commands.serving import server_extra
from bus.cli.grouping import grouped
from bus.cli.options import DEFAULT_URL, AsJson, Server, own_url
from bus.cli.output import console, counted, plain, print_json
from bus.cli.permissions import close, opened
from bus.error_texts import error_text
from bus.errors import BusError, ConfigurationError, ReceiverRefused, SpoolError

if TYPE_CHECKING:
    from bus.settings import Settings
    from bus.spool.inspect import Overview

_FORBIDDEN: Final = 403
_DAMAGED: Final = "see docs/operations.md, Damaged files, and bus spool show"
_AS_OWNER: Final = "run bus doctor as the owner of the directory"
_UNCONFIGURED: Final = "for a subscription that does not exist"
_BRING_BACK: Final = "restore its brokers; see docs/ordering.md, Operating a strict order"
_OLDEST_SQLITE: Final = (3, 51, 3)


class Check(NamedTuple):
    """The result of a check: name, success, finding, and next step if it failed."""

    name: str
    ok: bool
    detail: str
    do: str = ""


@grouped
def doctor(
    data: Annotated[Path | None, typer.Option(help="Data or spool directory to check.")] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file to check.")] = None,
    as_json: AsJson = False,
    *,
    server: Server,
    accept_empty_store: Annotated[
        bool,
        typer.Option(
            "--accept-empty-store",
            help="Accept an emptied store: remove what was restored into it, discard orphaned records.",
        ),
    ] = False,
    keep_configuration: Annotated[
        bool,
        typer.Option("--keep-configuration", help="Keep the configuration that was restored into an emptied store."),
    ] = False,
    close_directory: Annotated[
        bool, typer.Option("--close-directory", help="Restrict the data directory to its owner.")
    ] = False,
) -> int:
    """Check the configuration, the disk and the bus.

    Prints the next step for each problem. Exit 1: there is a problem.
    """
    configuration, settings = _configuration(config)
    place = data or (settings.data if settings is not None else None)
    if settings is not None and (config is not None or own_url(settings) != DEFAULT_URL):
        server = server.local(settings)
    if accept_empty_store or keep_configuration:
        _choose(server, accept=accept_empty_store, keep=keep_configuration)
    checks = [_python(), _sqlite(), configuration, _disk(place or Path(), settings)]
    if place is not None:
        checks += [_permissions(place, mend=close_directory), *_spools(place, server)]
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
    """Accept an emptied store, or keep the configuration that was restored into it."""
    if accept and keep:
        raise typer.BadParameter("give --accept-empty-store or --keep-configuration, not both")
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
    """Check the settings as at the start of a bus; returns them as well."""
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
        return Check("disk", ok=False, detail=f"{place} is not a directory", do="give another --data")
    if not os.access(place, os.W_OK | os.X_OK):
        return Check("disk", ok=False, detail=f"{place} is not writable", do="change its owner, or give another --data")
    usage = shutil.disk_usage(place)
    detail = f"{usage.free / 2**30:.1f} GiB free at {place}"
    if settings is None or usage.free > settings.reserve(usage.total):
        return Check("disk", ok=True, detail=detail)
    reserve = f"{settings.reserve(usage.total) / 2**30:.1f} GiB are reserved for outcomes"
    return Check(
        "disk", ok=False, detail=f"{detail}; {reserve}", do="free disk space: new messages are rejected until then"
    )


def _permissions(directory: Path, *, mend: bool) -> Check:
    """Check that only the owner can read the data: signing secrets, hashes of keys, messages."""
    name = "permissions"
    try:
        found = opened(directory)
    except OSError as error:
        return Check(name, ok=False, detail=f"cannot read {directory}: {error_text(error)}", do=_AS_OWNER)
    if not found:
        return Check(name, ok=True, detail=f"only the owner can read {directory}")
    many = counted(len(found), "file or directory", "files and directories")
    said = f"other users can read {many} in {directory}"
    if not mend:
        return Check(
            name, ok=False, detail=f"{said}, such as {found[-1]}", do=f"bus doctor --close-directory --data {directory}"
        )
    try:
        close(found)
    except OSError as error:
        return Check(name, ok=False, detail=f"{said}: {error_text(error)}", do=_AS_OWNER)
    return Check(name, ok=True, detail=f"restricted {many} in {directory} to the owner")


def _spools(directory: Path, server: Server) -> list[Check]:
    """Check the local queues in a directory, of any owner."""
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
        damaged = counted(found.damaged, "damaged record", "damaged records")
        detail = counted(found.records, "record", "records") + (f", {damaged} set aside" if found.damaged else "")
        checks.append(Check(name, not found.damaged, detail, _DAMAGED if found.damaged else ""))
        checks += _foreign(found, server)
    return checks


def _foreign(overview: Overview, server: Server) -> list[Check]:
    from bus.cli.commands.files.foreign import ForeignQueueCheck  # noqa: PLC0415

    foreign = ForeignQueueCheck(overview.directory)
    command = shlex.join(["bus", "doctor", "--accept-empty-store", *server.options])
    return [
        Check(
            f"stream {found.lane}/{found.consumer}",
            False,
            f"{counted(found.records, 'record', 'records')} in {overview.directory} {_UNCONFIGURED}",
            f"create the subscription again, or discard them: {command}",
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
    return Check("coordinator", ok=True, detail=f"ZooKeeper at {settings.zookeeper} is reachable")


def _groups(settings: Settings) -> list[Check]:
    """Probe each broker group of strictly ordered destinations, by the name of its setting."""
    import asyncio  # noqa: PLC0415 - not for `bus --help`

    from bus.bootstrap.probing import probe_groups  # noqa: PLC0415 - the server extra is there

    try:
        found = asyncio.run(probe_groups(settings))
    except ConfigurationError as error:
        return [Check("broker groups", ok=False, detail=str(error), do=error.hint)]
    return [
        Check(name, not trouble, str(trouble or "reachable"), _BRING_BACK if trouble else "")
        for name, trouble in found.items()
    ]


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
            return Check("access", ok=True, detail=f"the key is valid, for sending only: {error}")
        return Check("access", ok=False, detail=str(error), do=error.hint)
    except BusError as error:
        return Check("access", ok=False, detail=str(error), do=error.hint)
    return Check("access", ok=True, detail="the key is accepted")
