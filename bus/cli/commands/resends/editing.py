"""``bus resend ID --edit FILE``: a new message with another body, in place of one that cannot be delivered."""

from __future__ import annotations

import base64
from typing import NamedTuple

import typer

from bus.cli.api import Api, message_path
from bus.cli.inputs import opened
from bus.cli.outcomes import follow
from bus.cli.tables import Table


class ResendOptions(NamedTuple):
    """The options of a resend by id; ``table`` prints the outcomes, None for JSON."""

    subscription: str | None
    reason: str
    wait: float
    table: Table | None
    reorder: bool


def edit(api: Api, message_id: str, file: str, asked: ResendOptions) -> int:
    """Create a message from another one with the body in a file, and wait for its outcome."""
    if not asked.reason:
        raise typer.BadParameter("an edit needs a reason", param_hint="--reason")
    with opened(file) as stream:
        content = base64.b64encode(stream.read()).decode()
    body = {
        "body_base64": content,
        "reason": asked.reason,
        **({"subscriptions": [asked.subscription]} if asked.subscription else {}),
        **allowing(asked.reorder),
    }
    made = api.call("POST", f"{message_path(message_id)}/edit", body=body)
    if asked.table is not None:
        typer.echo(f"{made['id']} replaces {made['edited_from']}")
    links = {"id": made["id"], "edited_from": made["edited_from"]}
    return follow(api, {made["id"]: made["subscriptions"]}, [], asked.wait, asked.table, **links)


def allowing(reorder: bool) -> dict[str, bool]:
    """Return the field of a request that permits another order; none by default."""
    return {"reorder": True} if reorder else {}
