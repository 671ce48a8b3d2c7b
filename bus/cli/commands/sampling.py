"""``bus subscription sample``: one test message to a subscriber, and its response."""

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
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Body: a file, or - for standard input.")] = "-",
    content_type: Annotated[
        str, typer.Option(help="Content type of the body.  [default: JSON, text or bytes, by the body]")
    ] = "",
    header: Annotated[list[str] | None, typer.Option(help="Header NAME=VALUE of the message; repeatable.")] = None,
    as_json: AsJson = False,
    *,
    server: Server,
) -> int:
    """Send one test message and show request and response.

    The message is signed like a delivery, has the header bus-sample: true, and is sent once, also to a paused
    subscription. It has no trace and is not in the statistics. Exit 1: the subscriber did not accept it.
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
    ended = answer["status"] if answer is not None else found["error"] or "no response"
    yield plain(f"{ended}  {found['duration_ms']} ms  {phases}")
    if answer is not None:
        yield from _message(answer)
    yield "accepted" if found["delivered"] else plain(f"not accepted: {found['error'] or ended}")


def _message(found: dict[str, Any]) -> Iterator[str]:
    """Yield the headers of a request or a response, and its body."""
    yield from (plain(f"  {name}: {value}") for name, value in found["headers"])
    body = found["body"]
    lines = [f"{found['bytes']} bytes, not text"] if body is None else body.splitlines()
    yield from (plain(f"  | {line}") for line in lines)
    if found["truncated"]:
        yield f"  | ... {found['bytes']} bytes in total"
