"""``bus trace``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bus.cli.api import Api, message_path
from bus.cli.options import DEFAULT_URL, ApiKey, AsJson, BusUrl
from bus.cli.output import STYLES, console, plain, print_json

if TYPE_CHECKING:
    from rich.text import Text

_RESPONSE: Final = 200
_CALLED: Final = {"road": "transport"}  # what is stored keeps its name


def trace(
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="Of the message, as bus send prints it.", show_default=False)
    ],
    as_json: AsJson = False,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Show the life of a message: who sent it when, who got it when, every attempt."""
    with Api(url, api_key) as api:
        found = api.call("GET", message_path(message_id))
    if as_json:
        print_json(found)
    else:
        _draw(found)


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
        tree.add(_line("", edited_from.get("at"), "made of", edited_from["id"], _by(edited_from)))
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
        tree.add(_line("", edit.get("at"), "edited, the new one is", edit["id"], _by(edit)))
    if trace.get("completed_at"):
        tree.add(_line("", trace["completed_at"], "completed"))
    console().print(tree, soft_wrap=True)


def _by(done: dict[str, Any]) -> str:
    """Say who did something and why, as far as that is known."""
    reason = f": {done['reason']}" if done.get("reason") else ""
    return f"by {done['by']}{reason}" if done.get("by") else ""


def _why(delivery: dict[str, Any]) -> str:
    due = f"due {delivery['due_at']}" if delivery.get("due_at") and delivery["status"] in ("retrying", "resend") else ""
    return " ".join(part for part in (plain(delivery.get("reason") or ""), due) if part)


def _held(delivery: dict[str, Any]) -> str:
    """Say why it has not ended yet, but for the time of the next attempt, which ``_why`` says."""
    held = delivery.get("held") or {}
    return f"now: {held['what']}" if held.get("cause") not in (None, "retry") else ""


def _attempt(attempt: dict[str, Any]) -> Text:
    known = (attempt.get("status_code"), attempt.get("error"))  # both where a batch was taken without this message
    ended = plain(": ".join(str(part) for part in known if part) or "no answer")
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
