"""Jobs of the pipeline as processes, and what they need to judge a bus."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable

from tests.harness.admin import Admin
from tests.harness.process import ROOT

WITHIN = 600


def pipeline(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, as people do who have no ``bus`` on their path."""
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )


def minute_is_over(ids: Iterable[str]) -> bool:
    """Whether all minutes in which these ids were made have passed, so that their buckets can be judged."""
    last = max(int(each[:8] + each[9:13], 16) for each in ids)
    return time.time() * 1000 > (last // 60_000 + 1) * 60_000 + 1_000


def states(admin: Admin, ids: Iterable[str]) -> Counter[tuple[str, str]]:
    """Count deliveries by subscription and status; a message that is not stored yet has none."""
    answers = [admin.call("GET", f"/api/v1/messages/{each}") for each in ids]
    found = [delivery for answer in answers if answer.is_success for delivery in answer.json()["deliveries"]]
    return Counter((each["subscription"], each["status"]) for each in found)
