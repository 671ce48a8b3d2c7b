"""``python -m bus.cli``."""

from __future__ import annotations

from bus.cli import main

if __name__ == "__main__":
    main()
