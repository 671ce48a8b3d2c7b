"""``bus context``: the buses of a person who works with several."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
import typer

from bus.cli.commands.destinations import show
from bus.cli.contexts import Context, Contexts, check_context, read_contexts, write_contexts
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Output
from bus.cli.output import print_json
from bus.errors import ConfigurationError

app = typer.Typer(
    name="context",
    help="Switch between several buses.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_SET = """\b
Examples:
  bus context set production --server https://bus.example.com --api-key KEY
  bus context use production
  bus status --context staging"""
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.", show_default=False)]


@app.command("list", epilog="Example:  bus context list")
@grouped
def list_contexts(output: Output) -> None:
    """List the contexts."""
    table = output.table("name", "server", "api_key", "current")
    known = read_contexts()
    rows = [_row(known, name) for name in sorted(known.contexts)]
    if output.as_json:
        print_json({"items": rows, "next": None})
    else:
        table.show(rows)


@app.command("show", epilog="Example:  bus context show production")
def show_context(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Default: the context in use.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show one context; its key is never printed."""
    known = read_contexts()
    wanted = name or known.current
    if not wanted:
        raise ConfigurationError("no context is in use", hint="choose one with: bus context use NAME")
    known.named(wanted)
    show(_row(known, wanted), as_json=as_json)


@app.command("use", epilog="Example:  bus context use production")
def use_context(name: Name, as_json: AsJson = False) -> None:
    """Use a context in all commands that name no other bus."""
    known = read_contexts()
    known.named(name)
    changed = msgspec.structs.replace(known, current=name)
    write_contexts(changed)
    show(_row(changed, name), as_json=as_json)


@app.command("set", epilog=_SET)
def set_context(
    name: Name,
    server: Annotated[
        str,
        typer.Option("--server", "--url", "--bus-url", metavar="URL", help="Address of the bus.", show_default=False),
    ] = "",
    api_key: Annotated[str | None, typer.Option(metavar="KEY", help='API key for the bus; "" removes it.')] = None,
    as_json: AsJson = False,
) -> None:
    """Create a context, or change the given options of one.

    A new server without --api-key removes the key, which is for the former server.
    """
    known = read_contexts()
    former = known.contexts.get(name, Context(server=""))
    if not server and not former.server:
        raise typer.BadParameter("a new context needs an address", param_hint="--server")
    address = server.rstrip("/") or former.server
    check_context(name, address)
    kept = former.api_key if address == former.server else ""
    context = Context(address, kept if api_key is None else api_key)
    changed = msgspec.structs.replace(known, contexts={**known.contexts, name: context})
    write_contexts(changed)
    show(_row(changed, name), as_json=as_json)
    if api_key is None and former.api_key and not kept:
        sys.stderr.write(f"removed the key, which was for {former.server}; give the new one with --api-key\n")


@app.command("delete", epilog="Example:  bus context delete staging")
def delete_context(name: Name, as_json: AsJson = False) -> None:
    """Delete a context; the bus itself is not changed."""
    known = read_contexts()
    known.named(name)
    kept = {each: context for each, context in known.contexts.items() if each != name}
    write_contexts(Contexts("" if known.current == name else known.current, kept))
    show({"deleted": name}, as_json=as_json)


def _row(known: Contexts, name: str) -> dict[str, Any]:
    context = known.contexts[name]
    return {
        "name": name,
        "server": context.server,
        "api_key": "set" if context.api_key else None,
        "current": known.current == name,
    }
