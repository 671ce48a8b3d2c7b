"""The outcomes of resent deliveries: waited for, counted and printed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import typer

from bus.cli.api import Api, message_path
from bus.cli.output import print_json, progress
from bus.cli.tables import Table

POLL_SECONDS: Final = 0.2
COLUMNS: Final = ("id", "subscription", "outcome", "reason")
_FIRST_FAILED: Final = "retrying"
_OPEN: Final = ("resend", "pending")
_GOOD: Final = frozenset({"delivered", "discarded", "selected", "skipped"})
Item = dict[str, str]


def conclude(counts: Mapping[str, int], wait: float, *, quiet: bool) -> int:
    """Print the counts and return the exit code: 1 when any failed, or is not done though ``wait`` was given."""
    if not quiet:
        typer.echo(", ".join(f"{count} {name}" for name, count in counts.items()))
    good = _GOOD if wait else _GOOD | {"waiting"}
    return 1 if any(count for name, count in counts.items() if name not in good) else 0


def follow(
    api: Api, waiting: Mapping[str, list[str]], items: list[Item], wait: float, table: Table | None, **more: Any
) -> int:
    """Wait for deliveries, show how each ended, and return the exit code.

    Parameters
    ----------
    waiting
        The subscriptions of each message whose deliveries are waited for.
    items
        Outcomes that are known already.
    table
        None for JSON, which also contains ``more``.
    """
    items = [*items, *_ended(api, waiting, wait)]
    counts = Counter(item["outcome"] for item in items)
    if table is None:
        print_json({**more, "items": items, "counts": counts})
    else:
        table.show(items)
    return conclude(counts, wait, quiet=table is None)


def _ended(api: Api, waiting: Mapping[str, list[str]], wait: float) -> list[Item]:
    """Return each delivery once its first new attempt ended, or the time is over."""
    end = time.monotonic() + wait
    open_ = {message_id: list(names) for message_id, names in waiting.items()}
    total = sum(len(names) for names in open_.values())
    items: list[Item] = []
    with progress() as bar:
        task = bar.add_task("resending", total=total)
        while open_:
            is_over = time.monotonic() >= end
            for message_id in list(open_):
                _look(api, message_id, open_, items, is_over=is_over)
            bar.update(task, completed=total - sum(len(names) for names in open_.values()))
            if open_:
                time.sleep(POLL_SECONDS)
    return items


def _look(api: Api, message_id: str, open_: dict[str, list[str]], items: list[Item], *, is_over: bool) -> None:
    """Move completed deliveries from ``open_`` to ``items``; all of them if the time is over."""
    found = {each["subscription"]: each for each in api.call("GET", message_path(message_id))["deliveries"]}
    for name in list(open_[message_id]):
        delivery = found.get(name, {"status": "pending"})
        status = delivery["status"]
        if status in _OPEN and not is_over:
            continue
        outcome = "waiting" if status in _OPEN else "failed" if status == _FIRST_FAILED else status
        items.append(
            {"id": message_id, "subscription": name, "outcome": outcome, "reason": delivery.get("reason") or ""}
        )
        open_[message_id].remove(name)
    if not open_[message_id]:
        del open_[message_id]
