"""``bus listen``."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer

from bus.cli.api import Api, destination_path, message_path
from bus.cli.forward_options import ForwardOptions
from bus.cli.grouping import grouped
from bus.cli.new_messages import NewMessages
from bus.cli.options import Server, read_time
from bus.cli.output import plain, print_json_line
from bus.domain.sizes import format_size
from bus.domain.times import parse_time
from bus.errors import ReceiverRefused, ReceiverUnavailable

_EVERY: Final = 0.5
_AGAIN: Final = 2.0
_MOST_SHOWN: Final = 4_000  # bytes of a body on a terminal
_FORBIDDEN: Final = 403
_utf8: Final = codecs.getincrementaldecoder("utf-8")
Found = TypeVar("Found")


@grouped
def listen(
    code: Annotated[str, typer.Argument(metavar="CODE", help="Destination code.", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Also POST each message to this URL, as to a subscriber.", show_default=False),
    ] = None,
    secret: Annotated[
        str | None, typer.Option(metavar="whsec_...", help="Signing secret for --to.", show_default=False)
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Start: RFC 3339, or a duration before now.  [default: now]")
    ] = None,
    no_body: Annotated[
        bool, typer.Option("--no-body", help="Omit bodies; reading one is recorded in the audit log.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of messages.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per message.")] = False,
    *,
    server: Server,
) -> None:
    """Show the messages of a destination as they arrive.

    Runs until Ctrl-C, without effect on subscribers. Each message is shown about a second after it was stored. If
    messages arrive too fast, the oldest are skipped, and a line says so.
    """
    begin = parse_time(read_time(since, "--from") or "") if since else time.time_ns() // 1_000_000
    with _copying(to, secret, no_body=no_body) as copying, server.api() as api, suppress(KeyboardInterrupt):
        api.call("GET", destination_path(code))
        _say(f"listening to {code} at {server.url}; stop with Ctrl-C")
        for heard in islice(_passing(api, NewMessages(api, code, begin), with_body=not no_body), count):
            _show(heard, copying, as_json=as_json)


def _copying(to: str | None, secret: str | None, *, no_body: bool) -> AbstractContextManager[ForwardOptions | None]:
    if to is None:
        if secret is not None:
            raise typer.BadParameter("needs --to", param_hint="--secret")
        return nullcontext()
    if no_body:
        raise typer.BadParameter("--to needs bodies", param_hint="--no-body")
    return ForwardOptions.to(to, secret)


def _passing(api: Api, passing: NewMessages, *, with_body: bool) -> Iterator[_ListenedMessage]:
    """Yield messages as they arrive, without end."""
    while True:
        found, is_cut = _answered(passing.new)
        if is_cut:
            _say("messages arrive too fast: the oldest were skipped")
        for one in found:
            yield _answered(partial(_read, api, one, with_body=with_body))
        time.sleep(_EVERY)


def _answered(ask: Callable[[], Found]) -> Found:
    """Return the response of the bus; waits while the bus is unreachable."""
    is_unreachable = False
    while True:
        try:
            found = ask()
        except ReceiverUnavailable as error:
            if not is_unreachable:
                _say(f"{error}; retrying")
            is_unreachable = True
            time.sleep(_AGAIN)
        else:
            if is_unreachable:
                _say("connected again")
            return found


class _ListenedMessage(NamedTuple):
    """A message; ``body`` is None if it may not be read, or is not wanted."""

    found: dict[str, Any]
    body: bytes | None


def _read(api: Api, found: dict[str, Any], *, with_body: bool) -> _ListenedMessage:
    trace = api.call("GET", message_path(found["id"]))
    body = None
    if with_body:
        try:
            with api.download(f"{message_path(found['id'])}/body", {}) as pieces:
                body = b"".join(pieces)
        except ReceiverRefused as error:
            if error.status != _FORBIDDEN:
                raise
    return _ListenedMessage(trace["message"], body)


def _show(heard: _ListenedMessage, copying: ForwardOptions | None, *, as_json: bool) -> None:
    answer = copying.copy(heard.found, heard.body) if copying is not None and heard.body is not None else None
    if as_json:
        body = heard.body.decode(errors="replace") if heard.body is not None else None
        print_json_line({**heard.found, "body": body, **({"copied": answer} if copying is not None else {})})
        return
    found = heard.found
    named = [f"{name}={plain(found[name])}" for name in ("biz_id", "key", "source") if found[name]]
    own = [f"{name}: {plain(value)}" for name, value in found["headers"].items()]
    size = format_size(found["bytes"])
    kind = plain(found["content_type"])
    sys.stdout.write("  ".join([found["received_at"], found["id"], *named, kind, size, *own]) + "\n")
    if heard.body is not None:
        sys.stdout.write(_shown(heard.body) + "\n")
    if answer is not None:
        sys.stdout.write(f"  copied: {answer}\n")
    sys.stdout.flush()


def _shown(body: bytes) -> str:
    """Return a body as lines for people, without control characters."""
    try:
        text = _utf8().decode(body[:_MOST_SHOWN], final=len(body) <= _MOST_SHOWN)
    except UnicodeDecodeError:
        return f"  ({format_size(len(body))} that are not text)"
    lines = "\n".join(f"  {plain(line)}" for line in text.splitlines())
    return lines + (f"\n  ... {format_size(len(body) - _MOST_SHOWN)} more" if len(body) > _MOST_SHOWN else "")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
