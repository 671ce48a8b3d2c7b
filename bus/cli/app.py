"""The tree of commands."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from bus.cli import (
    access,
    clusters,
    destinations,
    doctor,
    failing,
    finding,
    resending,
    sealing,
    sending,
    serving,
    spools,
    statistics,
    status,
    subscriptions,
    tracing,
)

_START = """\b
Start with:
  bus up
  bus destination set orders
  bus subscription set orders shop --url http://127.0.0.1:9000/
  echo '{"order": 42}' | bus send orders"""
_SEND = """\b
Examples:
  echo '{"order": 42}' | bus send order.cancelled --biz-id 42
  bus send order.cancelled orders.ndjson --ndjson"""
_SEARCH = """\b
Examples:
  bus search --ref 4bf92f3577b34da6a3ce929d0e0e4736
  bus search --destination orders --status dead --from 1h
  bus search --status-class 5xx --body-path order.lines[0].sku --body-value A-1"""
_RESEND = """\b
Examples:
  bus resend 019a2f4e-0000-7000-8000-000000000000
  bus resend --destination orders --status dead --from 2h --to 1h --dry-run
  bus resend --pause 019a2f4e-0000-7000-8000-000000000000"""
app = typer.Typer(
    name="bus",
    help="Pier: send a message once, and every subscriber's URL gets it.",
    epilog=_START,
    rich_markup_mode=None,  # rich is loaded by the commands that draw
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for group in (destinations.app, subscriptions.app, clusters.app, spools.app, access.keys, access.users, sealing.app):
    app.add_typer(group)
app.command(epilog="Example:  bus up --data /var/lib/bus --port 8700")(serving.up)
app.command(epilog="Example:  bus run receiver --config bus.toml")(serving.run)
app.command(epilog=_SEND)(sending.send)
app.command(epilog="Example:  bus trace 019a2f4e-0000-7000-8000-000000000000")(tracing.trace)
app.command(epilog=_SEARCH)(finding.search)
app.command(epilog="Example:  bus export --destination orders --status dead --from 1d -o dead.csv")(finding.export)
app.command(epilog="Example:  bus stats --from 1d --by subscription")(statistics.stats)
app.command(epilog="Example:  bus failures --destination orders --from 1d")(failing.failures)
app.command(epilog=_RESEND)(resending.resend)
app.command(epilog="Example:  bus status --json")(status.status)
app.command(epilog="Example:  bus doctor --config bus.toml")(doctor.doctor)
for command in entry_points(group="bus.commands"):  # of packages that stand on the bus
    app.add_typer(command.load())
