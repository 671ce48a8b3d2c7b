"""For ``spark-submit pipeline/__main__.py NAME ...`` and ``python -m pipeline NAME ...``."""

from __future__ import annotations

import sys

from bus.cli import main

main(["pipeline", *sys.argv[1:]])
