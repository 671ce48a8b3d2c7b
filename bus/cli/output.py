"""The output of commands: fields and progress bars for people, JSON for programs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

STYLES = {
    "delivered": "green",
    "dead": "bold red",
    "failed": "red",
    "rejected": "red",
    "parked": "magenta",
    "retrying": "yellow",
    "resend": "yellow",
    "pending": "cyan",
    "canceled": "dim",
    "skipped": "dim",
}


def console(*, stderr: bool = False) -> Console:
    """Return a console; text is never read as markup or wrapped when it does not go to a terminal."""
    from rich.console import Console  # noqa: PLC0415

    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = 10_000
    return made


def print_json(value: object, lists: Mapping[str, Iterable[object]] | None = None) -> None:
    """Print a value as indented JSON; an object may have long ``lists``, of which one item is held at a time."""
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    if lists:
        text = text.removesuffix("\n}")
    sys.stdout.write(text)
    for name, items in (lists or {}).items():
        sys.stdout.write(f',\n  "{name}": [')
        for place, item in enumerate(items):
            sys.stdout.write(("," if place else "") + "\n    " + msgspec.json.encode(item).decode())
        sys.stdout.write("\n  ]")
    sys.stdout.write("\n}\n" if lists else "\n")


def print_json_line(value: object) -> None:
    """Print a value as one line of JSON, at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, a line each."""
    width = max((len(name) for name in fields), default=0)
    for name, value in fields.items():
        sys.stdout.write(f"{name:<{width}}  {plain(value)}\n")


def counted(count: int, one: str, many: str) -> str:
    """Return a number with its noun, such as "1 message" and "2 messages"."""
    return f"{count} {one if count == 1 else many}"


def plain(value: Any) -> str:
    """Return a value as one line without control characters, since its source may be untrusted."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(plain(item) for item in value)
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in str(value))


def suggest(options: Sequence[str], *steps: tuple[str, Sequence[str]]) -> None:
    """Print next steps at a terminal: for each a purpose and the words of its command.

    ``options`` are added to each command, so that it calls the same bus. Nothing is printed to a file or a pipe.
    """
    out = console(stderr=True)
    if not (out.is_terminal and sys.stdout.isatty()):
        return
    width = max(len(what) for what, _ in steps)
    for what, words in steps:
        out.print(
            f"{what + ':':<{width + 1}} {shlex.join(['bus', *map(plain, [*words, *options])])}",
            style="dim",
            soft_wrap=True,
        )


def progress(*, in_bytes: bool = False) -> Progress:
    """Return a progress bar on standard error, shown on a terminal only."""
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    out = console(stderr=True)
    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=out, disable=not out.is_terminal, transient=True)
