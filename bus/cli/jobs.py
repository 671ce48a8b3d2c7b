"""Jobs over many deliveries: the result of a dry run, progress and outcome."""

from __future__ import annotations

import time
from typing import Any, Final, Literal

import typer

from bus.cli.api import Api
from bus.cli.outcomes import POLL_SECONDS, conclude
from bus.cli.output import counted, print_json, progress
from bus.cli.tables import Table

SAMPLE: Final = ("id", "destination", "status", "biz_id", "received_at")
_ENDED: Final = ("done", "canceled")
# The title of the progress bar, and the outcome that only the other kind of job has.
_KINDS: Final = {"resend": ("resending", "discarded"), "discard": ("discarding", "failed")}


def show_preview(found: dict[str, Any], table: Table | None, verb: str) -> int:
    """Print the result of a dry run, as JSON if no table is given; ``verb`` is a participle such as resent."""
    if table is None:
        print_json(found)
    else:
        table.show(found["sample"])
        typer.echo(f"{counted(found['count'], 'delivery', 'deliveries')} would be {verb}")
        if not found.get("complete", True):
            typer.echo(f"messages before {found['counted_since']} are not counted", err=True)
    return 0


def follow_job(api: Api, job_id: str, wait: float, kind: Literal["resend", "discard"], *, as_json: bool) -> int:
    """Show the progress of a job until it ends, for ``wait`` seconds at most, and return the exit code.

    The job continues afterwards.
    """
    end = time.monotonic() + wait
    doing, foreign = _KINDS[kind]
    with progress() as bar:
        task = bar.add_task(doing, total=None)
        while True:
            job = api.call("GET", f"/api/v1/resends/{job_id}")
            counts = job["counts"]
            bar.update(task, total=counts["selected"], completed=counts["selected"] - counts["waiting"])
            if job["state"] in _ENDED or time.monotonic() >= end:
                break
            time.sleep(POLL_SECONDS)
    if as_json:
        print_json({"id": job_id, "state": job["state"], "counts": counts})
    own = {name: count for name, count in counts.items() if name != foreign}
    return conclude(own, wait, quiet=as_json)
