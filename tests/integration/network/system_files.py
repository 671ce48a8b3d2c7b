"""Looks names up where two files of a folder are /etc/hosts and /etc/resolv.conf, and prints what was found as JSON.

Run in namespaces of its own: ``unshare --net --mount python -m tests.integration.network.system_files FOLDER``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from bus.network.names import DnsLookup
from tests.integration.network.name_server import NameServer


def lay(hosts: Path, conf: Path) -> None:
    hosts.write_text("192.0.2.7 hosted.example\n2001:db8::7 hosted.example\n")
    conf.write_text("search svc.example\noptions ndots:2\nnameserver 127.0.0.1\n")
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["mount", "--bind", str(hosts), "/etc/hosts"],
        ["mount", "--bind", str(conf), "/etc/resolv.conf"],
    ):
        subprocess.run(command, check=True)


async def main(hosts: Path, conf: Path) -> None:
    loop = asyncio.get_running_loop()
    names = NameServer({"shop.svc.example": ["192.0.2.1"]}), NameServer({"shop.other.example": ["192.0.2.2"]})
    await loop.create_datagram_endpoint(lambda: names[0], local_addr=("127.0.0.1", 53))
    await loop.create_datagram_endpoint(lambda: names[1], local_addr=("127.0.0.2", 53))
    lookup = DnsLookup()
    found = {"hosts": sorted(await lookup("hosted.example", 80)), "search": await lookup("shop", 80)}
    hosts.write_text("192.0.2.8 hosted.example\n")  # noqa: ASYNC240 - a program of one test
    found["changed hosts"] = await lookup("hosted.example", 80)
    conf.write_text("search other.example\noptions ndots:2\nnameserver 127.0.0.2\n")  # noqa: ASYNC240 - as above
    found["changed resolv.conf"] = await lookup("shop", 80)
    lookup.close()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    files = [Path(sys.argv[1], name) for name in ("hosts", "resolv.conf")]
    lay(*files)
    asyncio.run(main(*files))
