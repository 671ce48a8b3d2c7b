"""By what the deliveries of a job are chosen: of ``bus resend`` and of ``bus discard``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from bus.cli.options import read_time


@dataclass(frozen=True)
class Filter:
    """Which of the deliveries of a destination or a subscription are meant; all that are given must hold."""

    status: Annotated[str | None, typer.Option(help="Only deliveries in this state, such as dead.")] = None
    since: Annotated[str | None, typer.Option("--from", help="RFC 3339, or a duration ago such as 2h.")] = None
    before: Annotated[str | None, typer.Option("--to", help="RFC 3339, or a duration ago.")] = None
    biz_id: Annotated[str | None, typer.Option(help="Only with this biz id.")] = None
    source: Annotated[str | None, typer.Option(help="Only from this source.")] = None
    signature: Annotated[str | None, typer.Option(help="Only what fails like this; bus failures has them.")] = None

    def given(self, **whose: str | None) -> dict[str, str]:
        """Return what was given, as the API names it, with whose deliveries they are."""
        times = {"from": read_time(self.since, "--from"), "to": read_time(self.before, "--to")}
        rest = {name: value for name, value in asdict(self).items() if name not in ("since", "before")}
        return {name: value for name, value in (whose | rest | times).items() if value is not None}
