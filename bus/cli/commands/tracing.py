"""``bus trace``."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bus.cli.api import NOT_FOUND, Api, message_path
from bus.cli.grouping import grouped
from bus.cli.options import Output, Server
from bus.cli.output import STYLES, console, plain, print_json, suggest
from bus.errors import ReceiverRefused

if TYPE_CHECKING:
    from rich.text import Text

_RESPONSE: Final = 200
_QUOTES: Final = "'\"`\u2018\u2019\u201c\u201d"
_MOST: Final = 50
_SEVERAL: Final = 1
_COLUMNS: Final = ("id", "destination", "status", "biz_id", "source", "received_at")
_FAILING: Final = ("retrying", "parked", "dead")
_CALLED: Final = {"road": "transport"}  # stored attempts contain the old name


@grouped
def trace(
    any_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Id of the message; or its biz id, key, trace id or Idempotency-Key.", show_default=False
        ),
    ],
    body: Annotated[bool, typer.Option("--body", help="Write only the body, unchanged.")] = False,
    *,
    output: Output,
    server: Server,
) -> int:
    """Show the history of a message.

    Shows when it was sent and received, and every attempt of every delivery. If several messages have the same biz id
    or key, lists them, newest first, and exits 1.
    """
    table = output.table(*_COLUMNS)
    wanted = any_id.strip().strip(_QUOTES).strip()
    if not wanted:
        raise typer.BadParameter("the id is empty", param_hint="ID")
    with server.api() as api:
        found = _found(api, wanted)
        if body and "items" not in found:
            return _write_body(api, found["id"])
    if output.as_json:
        print_json(found)
    elif "items" in found:
        table.show(found["items"])
    else:
        _draw(found)
        _suggest(found, server)
    if "items" not in found:
        return 0
    count = f"{len(found['items'])} or more" if found["next"] else str(len(found["items"]))
    again = shlex.join(["bus", "trace", "ID", *server.options])
    typer.echo(f"{count} messages match {plain(wanted)}; choose one: {again}", err=True)
    return _SEVERAL


def _found(api: Api, wanted: str) -> dict[str, Any]:
    """Return the trace of the message with this id, or of the only match; else a page of messages.

    Raises
    ------
    ReceiverRefused
        No message matches.
    """
    try:
        found: dict[str, Any] = api.call("GET", message_path(wanted))
    except ReceiverRefused as error:
        if error.status != NOT_FOUND:
            raise
        page: dict[str, Any] = api.call("GET", "/api/v1/messages", query={"ref": wanted, "limit": _MOST})
        if not page["items"]:
            raise
        if len(page["items"]) > 1:
            return page
        found = api.call("GET", message_path(page["items"][0]["id"]))
    return found


def _write_body(api: Api, message_id: str) -> int:
    with api.download(f"{message_path(message_id)}/body", {}) as pieces:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return 0


def _draw(trace: dict[str, Any]) -> None:
    from rich.tree import Tree  # noqa: PLC0415

    message = trace.get("message") or {}
    tree = Tree(_line(trace["status"], trace["id"], "to", trace["destination"]))
    source = trace.get("source")
    tree.add(_line("", trace.get("sent_at"), "sent", f"by {source}" if source else "", _given(trace, "biz_id")))
    tree.add(_line("", trace.get("received_at"), "received", f"{trace.get('bytes')} bytes", _given(message, "key")))
    replay = trace.get("replay")
    if replay:
        tree.add(_line("", None, "copy of", replay["of"], f"by replay {replay['name']}"))
    edited_from = trace.get("edited_from")
    if edited_from:
        tree.add(_line("", edited_from.get("at"), "edited copy of", edited_from["id"], _by(edited_from)))
    for delivery in trace.get("deliveries", ()):
        branch = tree.add(_line(delivery["status"], delivery["subscription"], delivery.get("url"), _why(delivery)))
        if held := _held(delivery):
            branch.add(_line("", held))
        for attempt in delivery.get("attempts", ()):
            branch.add(_attempt(attempt))
        for resend in delivery.get("resends", ()):
            branch.add(_line("", resend["at"], "resent", _by(resend)))
    if not trace.get("deliveries"):
        tree.add(_line("", plain(trace.get("reason") or "no deliveries")))
    for edit in trace.get("edits", ()):
        tree.add(_line("", edit.get("at"), "edited, new message", edit["id"], _by(edit)))
    if trace.get("completed_at"):
        tree.add(_line("", trace["completed_at"], "completed"))
    console().print(tree)


def _suggest(trace: dict[str, Any], server: Server) -> None:
    """Suggest next steps for the first failing delivery."""
    failing = [one["subscription"] for one in trace.get("deliveries", ()) if one["status"] in _FAILING]
    if failing:
        code, name = trace["destination"], failing[0]
        suggest(
            server.options,
            ("similar failures", ["failures", "--destination", code, "--subscription", name]),
            ("test the subscriber", ["subscription", "sample", code, name, "FILE"]),
            ("resend after the repair", ["resend", trace["id"], "--subscription", name]),
        )


def _by(done: dict[str, Any]) -> str:
    """Return actor and reason, as far as they are known."""
    reason = f": {done['reason']}" if done.get("reason") else ""
    return f"by {done['by']}{reason}" if done.get("by") else ""


def _why(delivery: dict[str, Any]) -> str:
    due = f"due {delivery['due_at']}" if delivery.get("due_at") and delivery["status"] in ("retrying", "resend") else ""
    return " ".join(part for part in (plain(delivery.get("reason") or ""), due) if part)


def _held(delivery: dict[str, Any]) -> str:
    """Return why a delivery has not ended, except for the next attempt, which is in ``_why``."""
    held = delivery.get("held") or {}
    return f"now: {held['what']}" if held.get("cause") not in (None, "retry") else ""


def _attempt(attempt: dict[str, Any]) -> Text:
    known = (attempt.get("status_code"), attempt.get("error"))  # both if a batch was accepted without this message
    ended = plain(": ".join(str(part) for part in known if part) or "no response")
    line = _line("", attempt.get("started_at"), f"#{attempt.get('n')}", ended, f"{attempt.get('duration_ms')} ms")
    phases = attempt.get("phases") or {}
    line.append("  " + " ".join(f"{name}={value}" for name, value in phases.items()), "dim")
    if attempt.get("by"):
        line.append(f"  by {plain(_CALLED.get(attempt['by'], attempt['by']))}", "dim")
    response = attempt.get("response")
    if response and not str(attempt.get("status_code", "")).startswith("2"):
        line.append(f"  {plain(str(response)[:_RESPONSE])}", "dim")
    return line


def _line(status: str, *parts: object) -> Text:
    from rich.text import Text  # noqa: PLC0415

    line = Text("  ".join(plain(part) for part in parts if part not in (None, "")))
    if status:
        line = Text.assemble((status, STYLES.get(status, "")), "  ", line)
    return line


def _given(fields: dict[str, Any], name: str) -> str:
    return f"{name}={fields[name]}" if fields.get(name) else ""
