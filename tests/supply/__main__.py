"""``python -m tests.supply lock|relock|licences|audit|sbom [FILE]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.harness.process import ROOT
from tests.supply import lock
from tests.supply.audit import audit
from tests.supply.bill import bill
from tests.supply.installed import product
from tests.supply.licences import complaints

SBOM: Final = ROOT / "build" / "sbom.json"
ANSWERS: Final = ROOT / ".cache" / "audit"


def main(what: str, *arguments: str) -> int:
    """Do what is asked for, and return the exit code."""
    match what:
        case "lock":
            return _told(list(lock.complaints()), "lock: it holds for every Python that is allowed")
        case "relock":
            lock.write()
            return _told((), str(lock.LOCK))
        case "licences":
            return _told(complaints(product()), "licences: all are allowed")
        case "audit":
            found = audit(ANSWERS)
            done = "nothing that is installed is known to be faulty"
            away = f"NOT DONE, the service of advisories is not reached: {found.away}"
            return _told(found.findings, f"audit: {away if found.away else done}")
        case "sbom":
            file = Path(arguments[0]) if arguments else SBOM
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(bill(product()), "utf-8")
            return _told((), str(file))
    return _told([f"{what}: lock, relock, licences, audit or sbom"], "")


def _told(findings: Sequence[str], well: str) -> int:
    sys.stderr.writelines(f"error: {finding}\n" for finding in findings)
    if findings:
        return 1
    sys.stdout.write(f"{well}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [""])))
