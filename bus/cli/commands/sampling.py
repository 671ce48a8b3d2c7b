"""``bus subscription sample``: one message to a subscriber now, and what came of it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bus.cli.api import subscription_path
from bus.cli.commands.destinations import Code, Name
from bus.cli.grouping import grouped
from bus.cli.inputs import check_body, guess_type, opened
from bus.cli.options import AsJson, Server, read_pairs
from bus.cli.output import plain, print_json


@grouped
def send_sample(
    code: Code,
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The body: a file, or - for standard input.")] = "-",
    content_type: Annotated[str, typer.Option(help="Without: JSON if it is, else text or bytes.")] = "",
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the message's own; repeatable.")] = None,
    as_json: AsJson = False,
    *,
    server: Server,
) -> int:
    """Send a subscriber one message now, and show the exact request and answer; exit 1 when it was not taken.

    It is signed as a delivery is, with bus-sample: true, and sent once, while the subscription is paused too. It leaves
    no trace and is in no statistics.
    """
    with opened(file) as stream:
        content = stream.read()
    check_body(content, content_type)
    body = {
        "body_base64": base64.b64encode(content).decode(),
        "content_type": content_type or guess_type(content),
        "headers": read_pairs(header, "--header") or {},
    }
    with server.api() as api:
        found = api.call("POST", f"{subscription_path(code, name)}/sample", body=body)
    if as_json:
        print_json(found)
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(found))
    return 0 if found["delivered"] else 1


def _lines(found: dict[str, Any]) -> Iterator[str]:
    request, answer = found["request"], found["response"]
    yield plain(f"{request['method']} {request['url']}")
    yield from _message(request)
    phases = " ".join(f"{name}={value}" for name, value in found["phases"].items())
    ended = answer["status"] if answer is not None else found["error"] or "no answer"
    yield plain(f"{ended}  {found['duration_ms']} ms  {phases}")
    if answer is not None:
        yield from _message(answer)
    yield "taken" if found["delivered"] else plain(f"not taken: {found['error'] or ended}")


def _message(found: dict[str, Any]) -> Iterator[str]:
    """Yield the headers of a request or an answer, and its body."""
    yield from (plain(f"  {name}: {value}") for name, value in found["headers"])
    body = found["body"]
    lines = [f"{found['bytes']} bytes that are no text"] if body is None else body.splitlines()
    yield from (plain(f"  | {line}") for line in lines)
    if found["truncated"]:
        yield f"  | ... {found['bytes']} bytes in all"
