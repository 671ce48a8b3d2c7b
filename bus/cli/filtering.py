"""The filter of ``bus resend`` and ``bus discard``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from bus.cli.options import read_time


@dataclass(frozen=True)
class Filter:
    """Selects deliveries of a destination or a subscription; all given options must match."""

    status: Annotated[str | None, typer.Option(help="Only deliveries with this status, such as dead.")] = None
    since: Annotated[
        str | None, typer.Option("--from", help="Start: RFC 3339, or a duration before now such as 2h.")
    ] = None
    before: Annotated[str | None, typer.Option("--to", help="End: RFC 3339, or a duration before now.")] = None
    biz_id: Annotated[str | None, typer.Option(help="Only messages with this biz id.")] = None
    source: Annotated[str | None, typer.Option(help="Only messages from this source.")] = None
    signature: Annotated[
        str | None, typer.Option(help="Only deliveries with this failure signature, see bus failures.")
    ] = None

    def given(self, **whose: str | None) -> dict[str, str]:
        """Return the given options under the names of the API, with destination and subscription."""
        times = {"from": read_time(self.since, "--from"), "to": read_time(self.before, "--to")}
        rest = {name: value for name, value in asdict(self).items() if name not in ("since", "before")}
        return {name: value for name, value in (whose | rest | times).items() if value is not None}
