"""``python -m tests.doubles.youzan``: one cluster, which prints a line of JSON with its addresses when it serves."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path

from tests.doubles.youzan.cluster import Cluster, Delays
from tests.doubles.youzan.control import Control
from tests.doubles.youzan.httpd import HttpServer
from tests.doubles.youzan.identity import Limits
from tests.harness.process import free_port


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.doubles.youzan", description=__doc__)
    parser.add_argument("--nsqds", type=int, default=2, help="how many (default: %(default)s)")
    parser.add_argument("--lookupds", type=int, default=2, help="how many (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder in which messages outlive the process (default: none)")
    parser.add_argument("--msg-timeout", type=float, default=60.0, help="seconds (default: %(default)s)")
    parser.add_argument("--heartbeat", type=float, default=30.0, help="seconds (default: %(default)s)")
    parser.add_argument("--election", type=float, default=0.2, help="seconds without a leader (default: %(default)s)")
    parser.add_argument("--rejoin", type=float, default=0.1, help="seconds until writes return (default: %(default)s)")
    asyncio.run(_serve(parser.parse_args()))


async def _serve(given: argparse.Namespace) -> None:
    limits, delays = Limits(given.msg_timeout, given.heartbeat), Delays(given.election, given.rejoin)
    cluster = Cluster(given.nsqds, given.lookupds, limits=limits, delays=delays, data=given.data)
    control = HttpServer(Control(cluster).answer, free_port())
    await cluster.start()
    await control.start()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    ticking = asyncio.create_task(cluster.run())
    print(json.dumps({"control": control.port, **cluster.addresses}), flush=True)
    await ended.wait()
    ticking.cancel()
    await cluster.stop()
    await control.stop()


if __name__ == "__main__":
    main()
