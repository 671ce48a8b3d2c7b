"""Fuzzes one target in this process: ``python -m tests.fuzz TARGET [libFuzzer's arguments]``."""

from __future__ import annotations

import logging
import sys

import atheris

from tests.fuzz.targets import target

# Where strangers' input is read: what is instrumented is slower.
_READERS = (
    "admin.access",
    "bus.domain",
    "bus.http",
    "bus.posters",
    "bus.security",
    "bus.transports.nsq.protocol",
    "lookup",
    "receiver",
)


def main() -> None:
    name, *arguments = sys.argv[1:]
    logging.disable()
    with atheris.instrument_imports(include=list(_READERS)):
        check = target(name).check
    atheris.Setup([name, *arguments], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
