"""Options that several commands take, and values as people write them on the command line."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from bus.domain.durations import parse_duration
from bus.domain.times import format_time, parse_time

DEFAULT_URL: Final = "http://127.0.0.1:8700"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BusUrl = Annotated[str, typer.Option("--url", "--bus-url", envvar="BUS_URL", help="Where the bus is.")]
ApiKey = Annotated[str, typer.Option("--api-key", envvar="BUS_API_KEY", help="Key of the bus.", show_default=False)]


_AGO: Final = re.compile(r"\d+(\.\d+)?(ms|s|m|h|d)")


def read_time(text: str | None, option: str) -> str | None:
    """Return RFC 3339 text; a duration such as ``15m`` means that long ago. Raises a usage error for anything else."""
    if text is None:
        return None
    try:
        if _AGO.fullmatch(text):
            return format_time(time.time_ns() // 1_000_000 - parse_duration(text))
        return format_time(parse_time(text))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"{text!r} is neither a time such as 2026-01-31T12:00:00Z nor a duration ago such as 15m",
            param_hint=option,
        ) from error


def read_pairs(pairs: Sequence[str] | None, option: str) -> dict[str, str] | None:
    """Return NAME=VALUE texts as a dictionary, None for none; raises a usage error for a text without ``=``."""
    if not pairs:
        return None
    split = [pair.partition("=") for pair in pairs]
    if not all(separator for _, separator, _ in split):
        raise typer.BadParameter("write it as NAME=VALUE", param_hint=option)
    return {name.strip(): value for name, _, value in split}
