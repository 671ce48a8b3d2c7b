# ruff: noqa: INP001 - a program of the image, and no module
"""Exits with 0 when the bus in this container answers ``/healthz``, and with 1 otherwise."""

import os
import sys
import urllib.error
import urllib.request

_URL = f"http://127.0.0.1:{os.environ.get('BUS_PORT', '8700')}/healthz"


def main() -> int:
    """Ask once."""
    try:
        with urllib.request.urlopen(_URL, timeout=4) as answer:
            return 0 if answer.status == 200 else 1  # noqa: PLR2004
    except (urllib.error.URLError, OSError):
        return 1


if __name__ == "__main__":
    sys.exit(main())
