"""Options of several commands, and values as people write them on the command line."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from bus.domain.durations import parse_duration
from bus.domain.times import format_time, parse_time

if TYPE_CHECKING:
    from bus.cli.api import Api
    from bus.cli.contexts import Context
    from bus.cli.tables import Table
    from bus.settings import Settings

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

    The option --context wins over variables, an address over a context that a variable names or that is in use. With a
    damaged file of contexts, the properties and ``api`` raise ``ConfigurationError``.

    Raises
    ------
    typer.BadParameter
        Options name both an address and a context.
    """

    command: typer.Context
    address: ServerUrl = ""
    api_key: ApiKey = ""
    context: ContextName = ""

    def __post_init__(self) -> None:
        if self._is_option("address") and self._is_option("context"):
            raise typer.BadParameter("give --server or --context, not both", param_hint="--context")

    @property
    def is_from_context(self) -> bool:
        """Whether the address is that of a context."""
        return self._is_option("context") or (not self.address and self._context is not None)

    @property
    def options(self) -> list[str]:
        """The options that a command needs to call the same bus; without the key, and what variables have."""
        if self._is_option("context"):
            return ["--context", self.context]
        return ["--server", self.address] if self.address and self.address != os.environ.get("BUS_URL") else []

    @property
    def url(self) -> str:
        """The address to call."""
        if self.is_from_context and self._context is not None:
            return self._context.server
        return self.address or DEFAULT_URL

    @property
    def key(self) -> str:
        """The key to send, empty for none; the key of a context is sent to the server of this context only."""
        from bus.cli.contexts import key_for  # noqa: PLC0415 - not for commands that call no bus

        given = self.api_key if not self._is_option("context") or self._is_option("api_key") else ""
        return given or key_for(self.url, self.context)

    def local(self, settings: Settings) -> Server:
        """Return the bus with these settings on this host, unless an option or a variable names a bus."""
        return self if self.address or self.context else replace(self, address=own_url(settings))

    def _is_option(self, name: str) -> bool:
        source = self.command.get_parameter_source(name)
        return bool(getattr(self, name)) and source is not None and source.name == "COMMANDLINE"

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

        self.command.obj.append(self.url)
        return Api(self.url, self.key, timeout=timeout, options=self.options)


def own_url(settings: Settings) -> str:
    """Return the address of a bus with these settings, as this host reaches it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    port = settings.port or urlsplit(DEFAULT_URL).port
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
