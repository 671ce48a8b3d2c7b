"""``bus apply``, and the configuration that ``bus export configuration`` writes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Server
from bus.cli.output import print_json
from bus.errors import ConfigurationError

WOULD_CHANGE: Final = 3
_PATH: Final = "/api/v1/configuration"
_READERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    ".json": msgspec.json.decode,
    ".toml": lambda content: tomllib.loads(content.decode()),
}
_SIGNS: Final = {"made": "+", "changed": "~", "removed": "-"}
_SECONDS: Final = 600.0


@grouped
def apply(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR", help="A .json or .toml file, or a folder of such files.", show_default=False
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the changes; exit 3 if there are any.")] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove resources that are not in the files, and cancel their open deliveries."),
    ] = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> int:
    """Apply a configuration from files.

    Creates and changes destinations and subscriptions, and prints the changes. Applied again, it changes nothing. Exit
    0: applied, or no changes. 1: failed. 2: wrong usage. 3: --dry-run found changes.
    """
    body = read_set(source)
    with server.api(timeout=_SECONDS) as api:
        query = {"dry_run": str(dry_run).lower(), "prune": str(prune).lower()}
        answer = api.call("PUT", _PATH, body=body, query=query)
    if as_json:
        print_json(answer)
    else:
        _tell(answer, dry_run=dry_run)
    return WOULD_CHANGE if dry_run and answer["changes"] else 0


def _tell(answer: dict[str, Any], *, dry_run: bool) -> None:
    for change in answer["changes"]:
        waiting = change.get("waiting", 0)
        note = f"  ({waiting} open deliveries are canceled)" if waiting else ""
        typer.echo(f"{_SIGNS[change['change']]} {change['resource']}{note}")
        if change["change"] == "changed":
            for name, field in change["fields"].items():
                typer.echo(f"    {name}: {_text(field['before'])} -> {_text(field['after'])}")
    for name, secret in answer.get("secrets", {}).items():
        typer.echo(f"secret of {name}, shown once: {secret}")
    count = len(answer["changes"])
    typer.echo(f"{count} {'to change' if dry_run else 'changed'}" if count else "no changes")


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def read_set(source: Path) -> dict[str, Any]:
    """Return the configuration in a file or a folder of files.

    Raises
    ------
    ConfigurationError
        A file cannot be read, or two of them name the same.
    """
    files = [source]
    if source.is_dir():
        files = sorted(path for path in source.rglob("*") if path.suffix in _READERS and path.is_file())
        if not files:
            raise ConfigurationError(
                f"{source} contains no .json or .toml files", hint="bus export configuration -o FILE"
            )
    found: dict[str, Any] = {}
    homes: dict[str, Path] = {}
    for path in files:
        _add(found, homes, path, _read(path))
    return found


def _read(path: Path) -> dict[str, Any]:
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ConfigurationError(f"{path} is not a .json or .toml file", hint="give such a file, or a folder of them")
    try:
        content = reader(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("destinations", []), list):
        raise ConfigurationError(f"{path} is not a configuration: it has no list of destinations")
    return content


def _add(found: dict[str, Any], homes: dict[str, Path], path: Path, content: dict[str, Any]) -> None:
    for destination in content.pop("destinations", []):
        code = destination.get("code") if isinstance(destination, dict) else None
        _claim(homes, f"destination {code!r}", path)
        found.setdefault("destinations", []).append(destination)
    for name, value in content.items():
        _claim(homes, name, path)
        found[name] = value


def _claim(homes: dict[str, Path], what: str, path: Path) -> None:
    if what in homes:
        raise ConfigurationError(f"{what} is in {homes[what]} and in {path}", hint="keep one of them")
    homes[what] = path


def exported(server: Server) -> bytes:
    """Return the configuration of a bus as a file has it: always in the same order, without secrets and version."""
    with server.api() as api:
        found = api.call("GET", _PATH)
    del found["version"]
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
