"""``python -m tests.servers install [NAME]...`` and ``python -m tests.servers ls``."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.servers import KNOWN, InstallFailed
from tests.servers.cache import say

AT_A_TIME = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers")
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="install what is missing")
    install.add_argument("name", nargs="*", help=f"some of: {', '.join(KNOWN)} (default: all)")
    commands.add_parser("ls", help="say what is installed")
    arguments = parser.parse_args()
    if arguments.command == "ls":
        return _list()
    unknown = set(arguments.name) - set(KNOWN)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(KNOWN)}")
    return _install(arguments.name or list(KNOWN))


def _install(names: list[str]) -> int:
    """Install several at a time: while one waits for the network another builds."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return int(not all(list(pool.map(_install_one, names))))


def _install_one(name: str) -> bool:
    try:
        KNOWN[name].install()
    except InstallFailed as error:
        say(f"{name} could not be installed: {error}")
        return False
    return True


def _list() -> int:
    for name, known in KNOWN.items():
        found = known.find()
        print(f"{name:16} {'installed' if found else 'missing':10} {known.about}  {found or ''}".rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
