"""``bus pipeline compact``."""

from __future__ import annotations

import sys
from typing import Any, Final

from bus.cli.output import print_json, progress
from bus.clock import SystemClock
from bus.domain.times import format_time
from pipeline.commands.looking import lake_with
from pipeline.errors import JobFailed
from pipeline.jobs.compact import HOUR_MS, JoinedBatches, SkippedBatches, due, join_all, sweep, vacuum
from pipeline.lake.lake import Lake
from pipeline.schemas import EVENTS

_FREED: Final = {"removed": "were replaced", "unpublished": "were never published"}


def run(root: str, *, older_than: float, grace: float | None, as_json: bool) -> None:
    """Put together what is old enough, and remove what was replaced long ago; both in hours.

    Raises
    ------
    JobFailed
        Some hours were left, once all else was done and reported.
    """
    lake, clock = lake_with(root, EVENTS), SystemClock()
    groups = due(lake, clock.now() - round(older_than * HOUR_MS))
    with progress() as shown:
        bar = shown.add_task("hours", total=len(groups))
        done, left = join_all(lake, groups, lambda: shown.advance(bar))
        freed = freed_of(lake, clock.now(), round(grace * HOUR_MS)) if grace is not None else dict.fromkeys(_FREED)
    told = told_of(done) | freed | {"left": _left(left)}
    if as_json:
        print_json(told)
    else:
        sys.stdout.write(_line(told))
    if left:
        raise failure_of(left)


def freed_of(lake: Lake, now: int, grace: int) -> dict[str, Any]:
    """Remove what was replaced, or left unpublished, before the ``grace`` (ms) until now; return how much that was."""
    found = vacuum(lake, now - grace), sweep(lake, now, grace)
    return {name: freed._asdict() for name, freed in zip(_FREED, found, strict=True)}


def _left(left: list[SkippedBatches]) -> list[dict[str, Any]]:
    return [each._asdict() | {"hour": format_time(each.hour)} for each in left]


def failure_of(found: list[SkippedBatches]) -> JobFailed:
    """Return the error that lists the hours that were left as they are, and why."""
    left = _left(found)
    what = f"{len(left)} hours were left as they are" if len(left) > 1 else "1 hour was left as it is"
    lines = [f"{each['hour']}, batches {each['first']} to {each['last']}: {each['why']}" for each in left]
    return JobFailed(
        "\n  ".join([f"{what}; readers find every row as before, and the rest was done:", *lines]),
        hint="put a damaged file back from a copy, or free some disk, and run it again",
    )


def told_of(done: list[JoinedBatches]) -> dict[str, Any]:
    """Return the sums of what was put together."""
    sums = {name: sum(getattr(each, name) for each in done) for name in JoinedBatches._fields[2:]}
    return {"commits": len(done), "batches": sum(each.last - each.first + 1 for each in done), **sums}


def _line(told: dict[str, Any]) -> str:
    line = f"{told['batches']} batches put together to {told['commits']} commits: "
    line += f"{told['files_before']} files ({told['bytes_before']} bytes) to {told['files']} ({told['bytes']} bytes)\n"
    for name, what in _FREED.items():
        if told[name] is not None:
            line += f"{{commits}} commits that {what} are removed: {{files}} files, {{bytes}} bytes\n".format(
                **told[name]
            )
    return line
