"""``bus agent``: accepts messages on a host for programs in any language."""

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
from bus.gc_tuning import lasting

if TYPE_CHECKING:
    from bus.agent.service import Announcement


@grouped
def agent(
    spool: Annotated[Path, typer.Option(help="Directory for messages that are not sent yet.")] = Path("spool"),
    host: Annotated[
        str, typer.Option(help="Address to serve on; beyond loopback, clients need the key of --api-key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to serve on; 0 for any free port.")] = 8710,
    socket: Annotated[
        Path | None,
        typer.Option(help="Unix socket to serve on as well, for this user and group.", show_default=False),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Producer name of messages that have none.  [default: agent-HOSTNAME]", show_default=False),
    ] = None,
    max_bytes: Annotated[int, typer.Option(help="Maximum size of a message in bytes.")] = DEFAULT_MAX_BYTES,
    as_json: AsJson = False,
    *,
    server: Server,
) -> int:
    """Accept messages on this host and forward them to the bus.

    A message is on the disk of this host when the agent responds, and is then sent in batches. The agent has the API of
    a receiver (POST /v1/messages/DESTINATION, POST /v1/messages), and accepts messages while the bus is unreachable.
    Ctrl-C or SIGTERM sends what the bus accepts at once and exits 0; the rest stays on disk for the next agent.
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
