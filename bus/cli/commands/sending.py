"""``bus send``: one message, or a file of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, NamedTuple
from urllib.parse import quote

import typer

from bus.cli.api import Api, destination_path
from bus.cli.grouping import grouped
from bus.cli.inputs import STANDARD_INPUT, check_body, guess_type, opened
from bus.cli.lines import body_line, envelope_line
from bus.cli.options import AsJson, Server, read_pairs
from bus.cli.output import print_json, progress, suggest
from bus.client.spooling.line import Line, decode_head
from bus.domain.message import check_destination
from bus.domain.times import format_time
from bus.errors import ReceiverRefused, ReceiverUnavailable

BATCH_LINES: Final = 500
BATCH_BYTES: Final = 8 * 2**20
TRIES: Final = 5
_PAUSE: Final = 0.5
_SHOWN: Final = 20
_FILES: Final = frozenset({".ndjson", ".jsonl", ".json"})
_NOT_FOUND: Final = 404
_ACCEPTED: Final = ("accepted", "duplicate")


class NumberedLine(NamedTuple):
    """A line of the input and its number, from 1."""

    number: int
    line: bytes


@grouped
def send(
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="Destination; with --envelope, of lines that have none.")
    ] = "",
    file: Annotated[
        str,
        typer.Argument(metavar="FILE|-", help="File to read, or - for standard input (default).", show_default=False),
    ] = "",
    biz_id: Annotated[str, typer.Option(help="Business id, by which people search.")] = "",
    key: Annotated[str, typer.Option(help="Ordering key.")] = "",
    routing_key: Annotated[str, typer.Option(help="Routing key, for the routing patterns of subscriptions.")] = "",
    source: Annotated[str, typer.Option(help="Name of the producer.")] = "bus-cli",
    content_type: Annotated[
        str, typer.Option(help="Content type of the body.  [default: JSON, text or bytes, by the body]")
    ] = "",
    deliver_at: Annotated[str, typer.Option(help="Time of delivery (RFC 3339).")] = "",
    header: Annotated[list[str] | None, typer.Option(help="Header NAME=VALUE of the message; repeatable.")] = None,
    ndjson: Annotated[bool, typer.Option("--ndjson", help="Send each line as the body of a message.")] = False,
    envelope: Annotated[
        bool,
        typer.Option(
            "--envelope", help="Send each line as a message: JSON with destination, body, key, biz_id, headers."
        ),
    ] = False,
    as_json: AsJson = False,
    *,
    server: Server,
) -> int:
    """Send one message, or one per line of a file.

    Prints the id of the message; with --ndjson or --envelope, the number of lines that were accepted, duplicates and
    rejected. Lines of --envelope have the fields of POST /v1/messages; options apply to fields that a line lacks.
    """
    if ndjson and envelope:
        raise typer.BadParameter("give --ndjson or --envelope, not both")
    if envelope and not file:
        code, file = "", code
    if not envelope:
        _check_named(code, file, "--ndjson" if ndjson else "")
    if code:
        check_destination(code)
    common = Line(
        id="",
        destination=code,
        source=source,
        biz_id=biz_id,
        key=key,
        routing_key=routing_key,
        content_type=content_type,
        deliver_at=deliver_at,
        headers=read_pairs(header, "--header") or {},
    )
    with server.api() as api, opened(file or STANDARD_INPUT) as stream:
        if ndjson or envelope:
            tally = _send_lines(api, common, stream, envelope_line if envelope else body_line)
            if not any(tally.counts.values()) and not file and Path(code).is_file():
                raise _no_destination(code, "--ndjson")
            _report(api, tally, as_json=as_json)
            return 1 if tally.counts["rejected"] else 0
        answer = _send_one(api, common, stream.read())
    if as_json:
        print_json(answer)
    else:
        typer.echo(answer["id"])
        suggest(server.options, ("follow it", ["trace", answer["id"]]))
    return 0


def _check_named(code: str, file: str, option: str) -> None:
    """Raise a usage error if no destination is given, or a file in its place."""
    if not code:
        raise typer.BadParameter(f"no destination given: bus send CODE FILE {option}".rstrip(), param_hint="CODE")
    path = Path(code)
    if not file and (path.suffix in _FILES or (path.is_file() and ("/" in code or sys.stdin.isatty()))):
        raise _no_destination(code, option)


def _no_destination(code: str, option: str) -> typer.BadParameter:
    right = f"bus send CODE {code} {option}".rstrip()
    other = "" if "/" in code else f" (for a destination of that name: {f'bus send {code} - {option}'.rstrip()})"
    return typer.BadParameter(f"no destination given, and {code} looks like a file: {right}{other}", param_hint="CODE")


def _send_one(api: Api, common: Line, body: bytes) -> Any:
    check_body(body, common.content_type)
    fields = {
        "content-type": common.content_type or guess_type(body),
        "bus-source": common.source,
        "bus-biz-id": common.biz_id,
        "bus-key": common.key,
        "bus-routing-key": common.routing_key,
        "bus-sent-at": format_time(_now()),
        "bus-deliver-at": common.deliver_at,
        **{f"bus-header-{name}": value for name, value in common.headers.items()},
    }
    headers = {name: value for name, value in fields.items() if value}
    return api.call("POST", f"/v1/messages/{quote(common.destination, safe='')}", content=body, headers=headers)


class Tally:
    """The outcome of the lines."""

    def __init__(self) -> None:
        self.counts = {"accepted": 0, "duplicate": 0, "rejected": 0}
        self.refused: list[dict[str, object]] = []
        self.unknown: dict[str, None] = {}

    def refuse(self, number: int, reason: str) -> None:
        """Count a rejected line, and keep the first reasons."""
        self.counts["rejected"] += 1
        if len(self.refused) < _SHOWN:
            self.refused.append({"line": number, "reason": reason})

    def count(self, number: int, line: bytes, result: dict[str, Any]) -> None:
        """Count a line by its result, and keep unknown destinations."""
        if result["status"] in _ACCEPTED:
            self.counts[result["status"]] += 1
            return
        problem = result.get("error") or {}
        self.refuse(number, problem.get("detail") or problem.get("title") or "unknown reason")
        if problem.get("status") == _NOT_FOUND and len(self.unknown) < _SHOWN:
            self.unknown[decode_head(line).destination] = None


def _send_lines(api: Api, common: Line, stream: BinaryIO, make: Callable[[Line, bytes], bytes | None]) -> Tally:
    """Send the messages of all lines in batches, and count the outcomes."""
    tally = Tally()
    batch: list[tuple[int, bytes]] = []
    size = 0
    with progress(in_bytes=True) as bar:
        task = bar.add_task(f"to {common.destination}" if common.destination else "sending", total=_size(stream))
        for number, raw in read_lines(stream):
            bar.advance(task, len(raw))
            try:
                line = make(common, raw)
            except ValueError as error:
                tally.refuse(number, str(error))
                continue
            if line is None:
                continue
            if batch and (len(batch) == BATCH_LINES or size + len(line) >= BATCH_BYTES):
                _post(api, batch, tally)
                batch, size = [], 0
            batch.append((number, line))
            size += len(line) + 1
        _post(api, batch, tally)
    return tally


def read_lines(stream: BinaryIO) -> Iterator[NumberedLine]:
    """Yield lines with their line breaks; the file is never in memory as a whole."""
    for number, line in enumerate(stream, 1):
        yield NumberedLine(number, line)


def _size(stream: BinaryIO) -> int | None:
    """Return the number of bytes to read, None for a pipe."""
    if not stream.seekable():
        return None
    here = stream.tell()
    size = stream.seek(0, 2)
    stream.seek(here)
    return size - here


def _post(api: Api, batch: list[tuple[int, bytes]], tally: Tally) -> None:
    """Send a batch; the ids are set here, so that a repetition after a lost response makes no duplicates."""
    if not batch:
        return
    content = b"\n".join(line for _, line in batch)
    for left in reversed(range(TRIES)):
        try:
            answer = api.call("POST", "/v1/messages", content=content, headers={"content-type": "application/x-ndjson"})
            break
        except (ReceiverUnavailable, ReceiverRefused) as error:
            if left and error.retriable:
                time.sleep(_PAUSE)
                continue
            raise type(error)(
                f"stopped at line {batch[0][0]}: {error}; {tally.counts['accepted']} earlier messages were accepted",
                hint=error.hint,
                status=error.status,
            ) from error
    for (number, line), result in zip(batch, answer["results"], strict=True):
        tally.count(number, line, result)


def _report(api: Api, tally: Tally, *, as_json: bool) -> None:
    if as_json:
        print_json({**tally.counts, "refused": tally.refused})
        return
    for item in tally.refused:
        typer.echo(f"line {item['line']}: {item['reason']}", err=True)
    more = tally.counts["rejected"] - len(tally.refused)
    if more:
        typer.echo(f"and {more} more rejected lines", err=True)
    for code in tally.unknown:
        if meant := api.meant(destination_path(code)):
            typer.echo(f"there is no destination {code}: {meant}", err=True)
    typer.echo(", ".join(f"{count} {name}" for name, count in tally.counts.items()))


def _now() -> int:
    return time.time_ns() // 1_000_000
