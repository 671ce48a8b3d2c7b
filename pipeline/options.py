"""Options that several commands take; imports no Spark, since ``bus --help`` lists the commands without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True)
class SessionOptions:
    """Options of Spark."""

    master: Annotated[
        str | None, typer.Option(help="Spark's master; left out: every core here, or what spark-submit gave.")
    ] = None
    memory: Annotated[str, typer.Option(help="Of the driver, in local mode.")] = "2g"
    connectors: Annotated[
        Path | None,
        typer.Option(help="Folder that `bus pipeline connectors` filled; for Kafka, MongoDB and object stores."),
    ] = None


@dataclass(frozen=True)
class RangeOptions:
    """The options of a range of times, by the messages' ids."""

    since: Annotated[str | None, typer.Option("--from", help="RFC 3339, or a duration ago such as 24h.")] = None
    before: Annotated[str | None, typer.Option("--to", help="RFC 3339, or a duration ago.")] = None

    def read(self) -> tuple[str | None, str | None]:
        """Return both as RFC 3339; raises ``typer.BadParameter``."""
        from bus.cli.options import read_time  # noqa: PLC0415

        return read_time(self.since, "--from"), read_time(self.before, "--to")
