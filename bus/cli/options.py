"""Options that every command takes."""

from __future__ import annotations

from typing import Annotated, Final

import typer

DEFAULT_URL: Final = "http://127.0.0.1:8700"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BusUrl = Annotated[str, typer.Option("--url", "--bus-url", envvar="BUS_URL", help="Where the bus is.")]
ApiKey = Annotated[str, typer.Option("--api-key", envvar="BUS_API_KEY", help="Key of the bus.", show_default=False)]
