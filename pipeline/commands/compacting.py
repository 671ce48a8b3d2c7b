"""``bus pipeline compact``."""

from __future__ import annotations

import sys
from typing import Any

from bus.cli.output import print_json, progress
from bus.clock import SystemClock
from pipeline.commands.looking import lake_with
from pipeline.jobs.compact import HOUR_MS, Joined, due, join, vacuum
from pipeline.schemas import EVENTS


def run(root: str, *, older_than: float, grace: float | None, as_json: bool) -> None:
    """Put together what is old enough, and remove what was replaced long ago; both in hours."""
    lake, clock = lake_with(root, EVENTS), SystemClock()
    groups = due(lake, clock.now() - round(older_than * HOUR_MS))
    done = []
    with progress() as shown:
        bar = shown.add_task("hours", total=len(groups))
        for group in groups:
            done.append(join(lake, group))
            shown.advance(bar)
        freed = vacuum(lake, clock.now() - round(grace * HOUR_MS)) if grace is not None else None
    told = _told(done) | {"removed": freed._asdict() if freed is not None else None}
    if as_json:
        print_json(told)
    else:
        sys.stdout.write(_line(told))


def _told(done: list[Joined]) -> dict[str, Any]:
    sums = {name: sum(getattr(each, name) for each in done) for name in Joined._fields[2:]}
    return {"commits": len(done), "batches": sum(each.last - each.first + 1 for each in done), **sums}


def _line(told: dict[str, Any]) -> str:
    line = f"{told['batches']} batches put together to {told['commits']} commits: "
    line += f"{told['files_before']} files ({told['bytes_before']} bytes) to {told['files']} ({told['bytes']} bytes)\n"
    if told["removed"] is not None:
        line += "{commits} commits that were replaced are removed: {files} files, {bytes} bytes\n".format(
            **told["removed"]
        )
    return line
