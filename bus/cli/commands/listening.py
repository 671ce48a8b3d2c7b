"""``bus listen``."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import typer

from bus.cli.api import Api, destination_path, message_path
from bus.cli.options import DEFAULT_URL, ApiKey, BusUrl, read_time
from bus.cli.output import plain, print_json_line
from bus.cli.passing import Passing
from bus.domain.delivery.request import USER_AGENT, message_headers
from bus.domain.message import Message
from bus.domain.sizes import format_size
from bus.domain.times import parse_time
from bus.errors import ReceiverRefused, ReceiverUnavailable

if TYPE_CHECKING:
    import httpx

    from bus.security.signatures import Signer

_EVERY: Final = 0.5
_AGAIN: Final = 2.0
_PATIENCE: Final = 10.0
_MOST_SHOWN: Final = 4_000  # bytes of a body on a terminal
_FORBIDDEN: Final = 403
_CONSTANT: Final = {"user-agent": USER_AGENT}
_utf8: Final = codecs.getincrementaldecoder("utf-8")


def listen(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The destination.", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="POST each there too, as to a subscriber.", show_default=False),
    ] = None,
    secret: Annotated[
        str | None, typer.Option(metavar="whsec_...", help="Sign what is POSTed.", show_default=False)
    ] = None,
    since: Annotated[str | None, typer.Option("--from", help="Begin earlier: RFC 3339, or a duration ago.")] = None,
    no_body: Annotated[bool, typer.Option("--no-body", help="Leave bodies out; reading one is on record.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for each.")] = False,
    url: BusUrl = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Show what passes through a destination, until Ctrl-C; no subscriber notices.

    Each is shown within about a second of being stored. What comes too fast to be shown is passed over, which is said.
    """
    begin = parse_time(read_time(since, "--from") or "") if since else time.time_ns() // 1_000_000
    with _copying(to, secret, no_body=no_body) as copy, Api(url, api_key) as api, suppress(KeyboardInterrupt):
        api.call("GET", destination_path(code))
        _say(f"listening to {code} at {url}; end it with Ctrl-C")
        for one in islice(_passing(Passing(api, code, begin)), count):
            _show(_read(api, one, with_body=not no_body), copy, as_json=as_json)


def _passing(passing: Passing) -> Iterator[dict[str, Any]]:
    """Yield what comes, for ever; while the bus is away it is waited for."""
    is_away = False
    while True:
        try:
            found, is_cut = passing.new()
        except ReceiverUnavailable as error:
            if not is_away:
                _say(f"{error}; listening goes on")
            is_away = True
            time.sleep(_AGAIN)
            continue
        if is_away:
            _say("it answers again")
        is_away = False
        if is_cut:
            _say("more came than is shown: the oldest of them were passed over")
        yield from found
        time.sleep(_EVERY)


class _Heard(NamedTuple):
    """A message as it was found; ``body`` is None where it may not be shown, or was not asked for."""

    found: dict[str, Any]
    body: bytes | None


class _Copying(NamedTuple):
    """Where copies go, and how."""

    url: str
    signer: Signer | None
    http: httpx.Client


@contextmanager
def _copying(to: str | None, secret: str | None, *, no_body: bool) -> Iterator[_Copying | None]:
    if to is None:
        if secret is not None:
            raise typer.BadParameter("it signs what --to gets", param_hint="--secret")
        yield None
        return
    if no_body:
        raise typer.BadParameter("a copy has a body", param_hint="--no-body")
    if urlsplit(to).scheme not in ("http", "https") or not urlsplit(to).hostname:
        raise typer.BadParameter(f"{to!r} is not an http or https address", param_hint="--to")
    import httpx  # noqa: PLC0415 - `bus --help` does without

    from bus.security.signatures import Signer  # noqa: PLC0415

    try:
        signer = Signer([secret]) if secret is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--secret") from error
    with httpx.Client(timeout=_PATIENCE, trust_env=False) as http:
        yield _Copying(to, signer, http)


def _read(api: Api, found: dict[str, Any], *, with_body: bool) -> _Heard:
    trace = api.call("GET", message_path(found["id"]))
    body = None
    if with_body:
        try:
            with api.download(f"{message_path(found['id'])}/body", {}) as pieces:
                body = b"".join(pieces)
        except ReceiverRefused as error:
            if error.status != _FORBIDDEN:
                raise
    return _Heard(trace["message"], body)


def _show(heard: _Heard, copy: _Copying | None, *, as_json: bool) -> None:
    answer = _copied(heard, copy) if copy is not None and heard.body is not None else None
    if as_json:
        body = heard.body.decode(errors="replace") if heard.body is not None else None
        print_json_line({**heard.found, "body": body, **({"copied": answer} if copy is not None else {})})
        return
    found = heard.found
    named = [f"{name}={plain(found[name])}" for name in ("biz_id", "key", "source") if found[name]]
    own = [f"{name}: {plain(value)}" for name, value in found["headers"].items()]
    size = format_size(found["bytes"])
    sys.stdout.write("  ".join([found["received_at"], found["id"], *named, found["content_type"], size, *own]) + "\n")
    if heard.body is not None:
        sys.stdout.write(_shown(heard.body) + "\n")
    if answer is not None:
        sys.stdout.write(f"  copied: {answer}\n")
    sys.stdout.flush()


def _shown(body: bytes) -> str:
    """Return a body as lines for people, without what would change their terminal."""
    try:
        text = _utf8().decode(body[:_MOST_SHOWN], final=len(body) <= _MOST_SHOWN)
    except UnicodeDecodeError:
        return f"  ({format_size(len(body))} that are not text)"
    lines = "\n".join(f"  {plain(line)}" for line in text.splitlines())
    return lines + (f"\n  ... {format_size(len(body) - _MOST_SHOWN)} more" if len(body) > _MOST_SHOWN else "")


def _copied(heard: _Heard, copy: _Copying) -> str:
    import httpx  # noqa: PLC0415

    now, message = time.time_ns() // 1_000_000, _message(heard)
    signature = copy.signer.sign(message.id, now // 1000, message.body) if copy.signer is not None else ""
    constant = {**_CONSTANT, "bus-destination": message.destination}
    headers = [*constant.items(), *message_headers(message, 1, now, signature, constant)]
    begun = time.monotonic()
    try:
        answer = copy.http.post(
            copy.url, content=message.body, headers=[(name.encode(), value.encode()) for name, value in headers]
        )
    except httpx.HTTPError as error:
        return f"no answer ({type(error).__name__}: {error})"
    return f"{answer.status_code} in {(time.monotonic() - begun) * 1000:.0f} ms"


def _message(heard: _Heard) -> Message:
    found = heard.found
    return Message(
        id=found["id"],
        destination=found["destination"],
        body=heard.body or b"",
        content_type=found["content_type"],
        sent_at=parse_time(found["sent_at"]) if found["sent_at"] else 0,
        biz_id=found["biz_id"] or "",
        key=found["key"] or "",
        headers=found["headers"],
        traceparent=found["traceparent"] or "",
    )


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
