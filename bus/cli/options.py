"""Options of several commands, and values as people write them on the command line."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bus.domain.durations import parse_duration
from bus.domain.times import format_time, parse_time

if TYPE_CHECKING:
    from bus.cli.api import Api
    from bus.cli.contexts import Context
    from bus.cli.tables import Table

DEFAULT_URL: Final = "http://127.0.0.1:8700"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SERVER_HELP: Final = f"Address of the bus.  [default: of the context, else {DEFAULT_URL}]"
ServerUrl = Annotated[
    str, typer.Option("--server", "--url", "--bus-url", metavar="URL", envvar="BUS_URL", help=SERVER_HELP)
]
ApiKey = Annotated[str, typer.Option("--api-key", metavar="KEY", envvar="BUS_API_KEY", help="API key for the bus.")]
ContextName = Annotated[
    str, typer.Option("--context", metavar="NAME", envvar="BUS_CONTEXT", help="Bus to use, see bus context.")
]
_SECONDS: Final = 30.0
_AGO: Final = re.compile(r"\d+(\.\d+)?(ms|s|m|h|d)")


@dataclass(frozen=True)
class Server:
    """The bus that a command calls, and the key for it, as options and variables have them: empty if none does.

    What is empty comes from the context; with a damaged file of contexts, the properties and ``api`` raise
    ``ConfigurationError``.
    """

    address: ServerUrl = ""
    api_key: ApiKey = ""
    context: ContextName = ""

    @property
    def is_chosen(self) -> bool:
        """Whether an option, a variable or a context names the bus."""
        return bool(self.address) or self._context is not None

    @property
    def options(self) -> list[str]:
        """The options that a command needs to call the same bus; without the key, and what variables have."""
        if self.address:
            return ["--server", self.address] if self.address != os.environ.get("BUS_URL") else []
        return ["--context", self.context] if self.context != os.environ.get("BUS_CONTEXT", "") else []

    @property
    def url(self) -> str:
        """The address to call."""
        return self.address or (self._context.server if self._context is not None else DEFAULT_URL)

    @property
    def key(self) -> str:
        """The key to send, empty for none; the key of a context is sent to the server of this context only."""
        if self.api_key or self._context is None or self._context.server != self.url.rstrip("/"):
            return self.api_key
        return self._context.api_key

    @cached_property
    def _context(self) -> Context | None:
        from bus.cli.contexts import chosen_context  # noqa: PLC0415 - not for commands that call no bus

        return chosen_context(self.context)

    def api(self, *, timeout: float = _SECONDS) -> Api:
        """Return a connection; ``timeout`` is in seconds.

        Raises
        ------
        ConfigurationError
            The address is not an http or https URL, or the context does not exist.
        """
        from bus.cli.api import Api  # noqa: PLC0415 - not for commands that call no bus

        return Api(self.url, self.key, timeout=timeout, options=self.options)


@dataclass(frozen=True)
class Output:
    """How a command prints its tables."""

    as_json: AsJson = False
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns, even if lines are longer than the terminal.")
    ] = False
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Show only these columns, in this order.", show_default=False)
    ] = None

    def table(self, *columns: str) -> Table:
        """Return the table of a command; raises a usage error if --columns names an unknown column."""
        return self.tables(columns)[0]

    def tables(self, *each: Sequence[str]) -> list[Table]:
        """Return the tables of a command, each with those of its columns that --columns names.

        A command calls this first, so that nothing is done if it raises a usage error.
        """
        from bus.cli.tables import Table  # noqa: PLC0415 - not for commands without tables

        if self.columns is None:
            return [Table(names, is_fitted=not self.wide, is_wrapped=not self.wide) for names in each]
        asked = _names(self.columns, list(dict.fromkeys(chain(*each))))
        return [
            Table([name for name in asked if name in names], is_fitted=False, is_wrapped=not self.wide)
            for names in each
        ]


def _names(text: str, known: Sequence[str]) -> list[str]:
    """Return the names in a text such as ``a,b``; raises a usage error for an unknown name."""
    asked = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in asked:
        if name not in known:
            from bus.suggestions import did_you_mean  # noqa: PLC0415 - only where something is wrong

            meant = did_you_mean(name, known)
            reason = f"there is no column {name!r};{' ' * bool(meant)}{meant}"
            raise typer.BadParameter(f"{reason} columns: {', '.join(known)}", param_hint="--columns")
    return asked


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
            f"{text!r} is not a time such as 2026-01-31T12:00:00Z, or a duration before now such as 15m",
            param_hint=option,
        ) from error


def read_pairs(pairs: Sequence[str] | None, option: str) -> dict[str, str] | None:
    """Return NAME=VALUE texts as a dictionary, None for none; raises a usage error if ``=`` is missing."""
    if not pairs:
        return None
    split = [pair.partition("=") for pair in pairs]
    if not all(separator for _, separator, _ in split):
        raise typer.BadParameter("expected NAME=VALUE", param_hint=option)
    return {name.strip(): value for name, _, value in split}
