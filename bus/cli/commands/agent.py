"""``bus agent``: a node's door for programs in any language."""

from __future__ import annotations

import socket as sockets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bus.cli.commands.serving import server_extra
from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Server
from bus.cli.output import print_json_line
from bus.domain.message import DEFAULT_MAX_BYTES
from bus.garbage import lasting

if TYPE_CHECKING:
    from bus.agent.service import Announcement


@grouped
def agent(
    spool: Annotated[Path, typer.Option(help="Directory in which messages wait until the bus has them.")] = Path(
        "spool"
    ),
    host: Annotated[
        str, typer.Option(help="Address to serve on; beyond loopback callers show --api-key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 for any that is free.")] = 8710,
    socket: Annotated[
        Path | None,
        typer.Option(help="A Unix socket to serve on besides, for this user and group.", show_default=False),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Source of messages that name none.  [default: agent-HOSTNAME]", show_default=False),
    ] = None,
    max_bytes: Annotated[int, typer.Option(help="The largest message.")] = DEFAULT_MAX_BYTES,
    as_json: AsJson = False,
    *,
    server: Server,
) -> int:
    """Take messages for the bus on this node: durable on its disk when they are answered, then sent in batches.

    It answers as a receiver does (POST /v1/messages/DESTINATION, POST /v1/messages), also while the bus is away.
    Ctrl-C or SIGTERM sends what the bus takes at once and exits 0; the rest waits on disk for the next agent.
    """
    with server_extra(), lasting():
        from bus.agent.options import AgentOptions  # noqa: PLC0415
        from bus.agent.service import serve  # noqa: PLC0415

    def announce(found: Announcement) -> None:
        if as_json:
            print_json_line(found._asdict())
        else:
            typer.echo("\n".join(found.lines))

    options = AgentOptions(
        url=server.url,
        api_key=server.key or None,
        spool=spool,
        source=source or f"agent-{sockets.gethostname()}",
        host=host,
        port=port,
        socket=socket,
        max_bytes=max_bytes,
    )
    return serve(options, announce)
