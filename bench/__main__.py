"""``python -m bench [--quick | --full] [SECTION]...``: what the bus reaches beside its references.

Figures also go to ``--json FILE`` and ``--markdown FILE``, curves to ``--pictures DIRECTORY``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import (
    agent,
    counts,
    deliveries,
    freshness,
    hung,
    ingest,
    kill,
    latency,
    lookup,
    loss,
    memory,
    nsq_client,
    ordered,
    parts,
    pipeline,
    proofs,
    rest,
    search,
    sharing,
    strangers,
    telling,
    transports,
    viewers,
)
from bench.curves import backlog, load, processes, subscribers
from bench.machine import Machine
from bench.report import Report, Row
from bench.run import FULL, NORMAL, QUICK, Run
from tests.servers import KNOWN, InstallFailed

WIDTH = 165
SECTIONS: dict[str, Callable[[Run], list[Row]]] = {
    "parts": parts.measure,
    "counts": counts.measure,
    "ingest": ingest.measure,
    "agent": agent.measure,
    "deliveries": deliveries.measure,
    "transports": transports.measure,
    "latency": latency.measure,
    "rest": rest.measure,
    "viewers": viewers.measure,
    "isolation": hung.measure,
    "strangers": strangers.measure,
    "order": ordered.measure,
    "sharing": sharing.measure,
    "loss": loss.measure,
    "lookup": lookup.measure,
    "nsq-client": nsq_client.measure,
    "memory": memory.measure,
    "search": search.measure,
    "kill": kill.measure,
    "pipeline": pipeline.measure,
    "proofs": proofs.measure,
    "freshness": freshness.measure,
    "events": telling.measure,
    "subscribers": subscribers.measure,
    "backlog": backlog.measure,
    "processes": processes.measure,
    "load": load.measure,
}
GROUPS: dict[str, Sequence[str]] = {"curves": ("subscribers", "backlog", "processes", "load")}
KNOWN_NAMES = [*SECTIONS, *GROUPS]
PICTURES = Path("build/performance")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Every figure is a ratio within this run.")
    parser.add_argument("section", nargs="*", help=f"some of: {', '.join(KNOWN_NAMES)} (default: all)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const=QUICK, default=NORMAL, help="small and short")
    size.add_argument("--full", dest="size", action="store_const", const=FULL, help="a backlog of 1,000,000 messages")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often each pair is measured (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there as Markdown")
    parser.add_argument("--pictures", type=Path, default=PICTURES, metavar="DIRECTORY", help="where curves are drawn")
    parser.add_argument("--directory", type=Path, help="where data goes while it runs (default: the system's)")
    given = parser.parse_args()
    unknown = set(given.section) - set(KNOWN_NAMES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(KNOWN_NAMES)}")
    return given


def main() -> int:
    given = parse()
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    try:
        nsq = KNOWN["nsq"].install()
    except InstallFailed as error:
        console.print(f"nsq could not be installed: {error}", markup=False)
        return 1
    report = Report(Machine.here())
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
        tempfile.TemporaryDirectory(prefix="bus-bench-", dir=given.directory) as folder,
    ):
        names = [name for asked in given.section for name in GROUPS.get(asked, [asked])] or list(SECTIONS)
        task = progress.add_task("starting", total=len(names))
        size = replace(given.size, rounds=given.rounds) if given.rounds else given.size
        run = Run(Path(folder), size, nsq, lambda text: progress.update(task, description=text), given.pictures)
        for name in names:
            _measure(report, name, run)
            progress.advance(task)
    report.show(console)
    if given.json:
        report.save(given.json)
    if given.markdown:
        report.save_markdown(given.markdown)
    return int(bool(report.failures))


def _measure(report: Report, name: str, run: Run) -> None:
    """Measure one section; one that fails is reported and does not end the others."""
    try:
        report.rows += SECTIONS[name](run)
    except Exception as error:  # noqa: BLE001
        report.failures[name] = f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
