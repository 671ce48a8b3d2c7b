"""The tree of commands; only the command that runs is loaded."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Final, NamedTuple

import typer

_START = """\b
Start with:
  bus up
  bus destination set orders
  bus subscription set orders shop --url http://127.0.0.1:9000/
  echo '{"order": 42}' | bus send orders"""
_SEND = """\b
Examples:
  echo '{"order": 42}' | bus send order.cancelled --biz-id 42
  bus send order.cancelled orders.ndjson --ndjson
  bus send --envelope messages.ndjson"""
_TRACE = """\b
Examples:
  bus trace 019a2f4e-0000-7000-8000-000000000000
  bus trace order-42
  bus trace 019a2f4e-0000-7000-8000-000000000000 --body > order.json"""
_SEARCH = """\b
Examples:
  bus search --ref 4bf92f3577b34da6a3ce929d0e0e4736
  bus search --destination orders --status dead --from 1h
  bus search --status-class 5xx --body-path order.lines[0].sku --body-value A-1"""
_LISTEN = """\b
Examples:
  bus listen orders
  bus listen orders --to http://127.0.0.1:9000/hook --secret whsec_... --from 10m"""
_RESEND = """\b
Examples:
  bus resend 019a2f4e-0000-7000-8000-000000000000
  bus resend --destination orders --status dead --from 2h --to 1h --dry-run
  bus resend 019a2f4e-0000-7000-8000-000000000000 --edit order.json --reason "wrong sku"
  bus resend --pause 019a2f4e-0000-7000-8000-000000000000"""

_DISCARD = """\b
Examples:
  bus discard orders coupons --status dead --dry-run
  bus discard orders coupons --to 1h --reason "coupons are void"
  bus resend --rerun 019a2f4e-0000-7000-8000-000000000000"""
_APPLY = """\b
Examples:
  bus export configuration -o bus-configuration.json
  bus apply bus-configuration.json --dry-run
  bus apply configuration/ --prune"""
_BACKUP = """\b
Examples:
  bus backup /backups/bus --data /var/lib/bus
  bus backup /backups/bus --config bus.toml --json"""
_RESTORE = """\b
Examples:
  bus restore /backups/bus --data /var/lib/bus-restored
  bus up --data /var/lib/bus-restored"""
_EXPORT = """\b
Examples:
  bus export --destination orders --status dead --from 1d -o dead.csv
  bus export configuration -o bus-configuration.json"""


class _Command(NamedTuple):
    """A command: the module with the function of this name, and the text below its help."""

    module: str
    epilog: str


_GROUPS: Final = {
    "destination": ("destinations", "app"),
    "subscription": ("subscriptions", "app"),
    "ordering": ("ordering", "app"),
    "cluster": ("clusters", "app"),
    "alarms": ("alarms", "app"),
    "lookup": ("lookup", "app"),
    "spool": ("files.spools", "app"),
    "context": ("contexts", "app"),
    "key": ("access", "keys"),
    "user": ("access", "users"),
    "secrets": ("sealing", "app"),
}
_COMMANDS: Final = {
    "up": _Command("serving", "Example:  bus up --data /var/lib/bus --port 8700"),
    "run": _Command("serving", "Example:  bus run receiver --config bus.toml"),
    "agent": _Command("agent", "Example:  bus agent --server https://bus.example.com --spool /var/spool/pier"),
    "send": _Command("sending", _SEND),
    "trace": _Command("tracing", _TRACE),
    "search": _Command("finding", _SEARCH),
    "export": _Command("finding", _EXPORT),
    "listen": _Command("listening", _LISTEN),
    "apply": _Command("configuring", _APPLY),
    "stats": _Command("statistics", "Example:  bus stats --from 1d --by subscription"),
    "failures": _Command("failing", "Example:  bus failures --destination orders --from 1d"),
    "resend": _Command("resends.resending", _RESEND),
    "discard": _Command("resends.discarding", _DISCARD),
    "status": _Command("status", "Example:  bus status --json"),
    "producers": _Command("producers", "Example:  bus producers --source order-service"),
    "backup": _Command("files.backups", _BACKUP),
    "restore": _Command("files.backups", _RESTORE),
    "doctor": _Command("doctor", "Example:  bus doctor --config bus.toml"),
}


def tree(wanted: str = "") -> typer.Typer:
    """Return the tree with the wanted command or group only; with all commands if there is no such command."""
    app = typer.Typer(
        name="bus",
        help="Pier, a message bus: send a message once, and every subscriber receives it.",
        epilog=_START,
        rich_markup_mode=None,  # rich is loaded by the commands that draw
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        callback=_stay_a_tree,
    )
    if wanted in _GROUPS:
        _add_group(app, wanted)
    elif wanted in _COMMANDS:
        _add_command(app, wanted)
    elif wanted != "--version":
        _add_all(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(f"pier-bus {version('pier-bus')}")
        raise typer.Exit


def _stay_a_tree(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep typer from collapsing a tree with a single command into that command."""


def _add_group(app: typer.Typer, name: str) -> None:
    module, group = _GROUPS[name]
    app.add_typer(getattr(_module(module), group))


def _add_command(app: typer.Typer, name: str) -> None:
    module, epilog = _COMMANDS[name]
    app.command(epilog=epilog)(getattr(_module(module), name))


def _add_all(app: typer.Typer) -> None:
    from importlib.metadata import entry_points  # noqa: PLC0415 - looks at every package that is installed

    for name in _GROUPS:
        _add_group(app, name)
    for name in _COMMANDS:
        _add_command(app, name)
    for command in entry_points(group="bus.commands"):  # of other packages that extend the bus
        app.add_typer(command.load())


def _module(name: str) -> object:
    return import_module(f"bus.cli.commands.{name}")
