"""``bus doctor``: whether this machine, and the bus that it speaks to, are as they should be."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from bus.cli.api import Api
from bus.cli.options import DEFAULT_URL, ApiKey, AsJson, BusUrl
from bus.cli.output import console, plain, print_json
from bus.errors import BusError, ConfigurationError

_LEAST_FREE: Final = 256 * 2**20
_OLDEST_SQLITE: Final = (3, 51, 3)


class Check(NamedTuple):
    """One line: whether it is well, what was found, what to do when it is not."""

    name: str
    ok: bool
    detail: str
    do: str = ""


def doctor(
    data: Annotated[Path | None, typer.Option(help="Data or spool directory to look at.")] = None,
    config: Annotated[Path | None, typer.Option(help="A bus.toml to check.")] = None,
    as_json: AsJson = False,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> int:
    """Check configuration, disk and every part of the bus; exit 1 with what to do when something is wrong."""
    configured, found = _configuration(config)
    checks = [_python(), _sqlite(), *configured, _disk(data or found), *_bus(url, api_key)]
    if as_json:
        print_json({"ok": all(check.ok for check in checks), "checks": [check._asdict() for check in checks]})
    else:
        out = console()
        for check in checks:
            mark = ("ok  ", "green") if check.ok else ("FAIL", "bold red")
            out.print(mark[0], style=mark[1], end="  ")
            out.print(f"{check.name}: {plain(check.detail)}" + (f" -> {check.do}" if check.do else ""))
    return 0 if all(check.ok for check in checks) else 1


def _python() -> Check:
    return Check("python", ok=True, detail=sys.version.split()[0])


def _sqlite() -> Check:
    import apsw  # noqa: PLC0415

    version = apsw.sqlite_lib_version()
    new = tuple(int(part) for part in version.split(".")) >= _OLDEST_SQLITE
    return Check("sqlite", new, version, "" if new else 'pip install -U "apsw>=3.51.3"')


def _configuration(config: Path | None) -> tuple[list[Check], Path]:
    """Check the settings; returns the data directory that they name as well."""
    if importlib.util.find_spec("pydantic_settings") is None:
        if config is None:
            return [Check("server extra", ok=True, detail="not installed: client commands only")], Path()
        return [Check("server extra", ok=False, detail="not installed", do='pip install "pier-bus[server]"')], Path()
    from bus.settings import load_settings  # noqa: PLC0415

    try:
        settings = load_settings(config, {})
    except ConfigurationError as error:
        return [Check("configuration", ok=False, detail=str(error), do=error.hint)], Path()
    return [Check("configuration", ok=True, detail=str(config or "defaults and BUS_* environment"))], settings.data


def _disk(directory: Path) -> Check:
    place = directory.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if not os.access(place, os.W_OK):
        return Check("disk", ok=False, detail=f"{place} cannot be written", do="change its owner, or choose another")
    enough = free >= _LEAST_FREE
    detail = f"{free / 2**30:.1f} GiB free at {place}"
    return Check("disk", enough, detail, "" if enough else "free disk: below the reserve new messages are refused")


def _bus(url: str, api_key: str) -> list[Check]:
    try:
        with Api(url, api_key, timeout=5) as api:
            api.call("GET", "/healthz")
            health = api.call("GET", "/readyz")
            parts = [
                Check(part["name"], part["ok"], part["detail"] or "ok", "" if part["ok"] else "see docs/operations.md")
                for part in health["checks"]
            ]
            return [Check("bus", ok=True, detail=f"{url} {health['status']}"), *parts, _access(api)]
    except BusError as error:
        return [Check("bus", ok=False, detail=str(error), do=error.hint)]
    except (KeyError, TypeError):
        return [Check("bus", ok=False, detail=f"{url} does not answer as a bus does", do="check --url")]


def _access(api: Api) -> Check:
    try:
        api.call("GET", "/api/v1/destinations")
    except BusError as error:
        return Check("access", ok=False, detail=str(error), do=error.hint)
    return Check("access", ok=True, detail="the admin API answers")
