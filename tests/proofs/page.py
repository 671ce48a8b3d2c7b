"""The history of proofs as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

import msgspec

from pipeline.reports.style import STYLE
from tests.proofs.figures import Figures
from tests.proofs.history import Row, Run
from tests.proofs.parts import PARTS

_WIDTH, _HEIGHT, _GAP = 960, 90, 6
_BAD: Final = ("lost", "unexpected", "false_traces")
_BADLY: Final = ' class="bad"'
_MORE: Final = """
.ok { color: var(--value) } td.n, th.n { text-align: right } details { margin: 2px 0 }
summary { cursor: pointer; white-space: nowrap } rect { fill: var(--band) } rect.bad { fill: var(--bad) }
"""
_HEADS: Final = ("run", "commit", "machine", "outcome", *Figures.__struct_fields__, "seconds")


def page_of(history: Mapping[str, Sequence[Run]]) -> str:
    """Return the page, from the runs of each part, oldest first."""
    parts = [_part(part, history.get(part, ())) for part in PARTS]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Proofs</title><style>{STYLE}{_MORE}</style></head><body><main><h1>Proofs</h1>"
        "<p>Each part harms the bus in its own way and judges every message: what was acknowledged and never delivered"
        " is lost, what was delivered and never sent is unexpected. Both must be 0. Duplicates are allowed with faults,"
        f" within the bound of the guarantees.</p>{''.join(parts)}</main></body></html>"
    )


def _part(part: str, runs: Sequence[Run]) -> str:
    if not runs:
        return f"<h2>{part}</h2><p>No run is kept yet: make proof-{part}</p>"
    rows = "".join(map(_run, reversed(runs)))
    heads = "".join(
        f'<th class="n">{head.replace("_", " ")}</th>' if head in _HEADS[4:] else f"<th>{head}</th>" for head in _HEADS
    )
    return (
        f"<h2>{part}</h2>{_facts(runs)}{_bars(runs)}"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _facts(runs: Sequence[Run]) -> str:
    totals = sum((run.totals for run in runs), Figures())
    facts = {
        "run" if len(runs) == 1 else "runs": len(runs),
        "messages": totals.messages,
        "faults": totals.faults,
        "lost": totals.lost,
        "unexpected": totals.unexpected,
    }
    items = (f"<li><b{_bad(name, count)}>{count:,}</b>{name}</li>" for name, count in facts.items())
    return f'<ul class="facts">{"".join(items)}</ul>'


def _bars(runs: Sequence[Run]) -> str:
    """Return a bar for the seconds of each of the last runs."""
    shown = runs[-60:]
    most, step = max(run.seconds for run in shown) or 1, _WIDTH / max(len(shown), 20)
    bars = []
    for place, run in enumerate(shown):
        height = max(2.0, run.seconds / most * (_HEIGHT - 20))
        kind = "" if run.outcome == "passed" else ' class="bad"'
        bars.append(
            f'<rect{kind} x="{place * step:.1f}" y="{_HEIGHT - height:.1f}" width="{step - _GAP:.1f}"'
            f' height="{height:.1f}"><title>{escape(run.at)}: {run.seconds:.0f} s, {run.outcome}</title></rect>'
        )
    label = f'<text x="0" y="12">seconds of each run, {most:.0f} at most</text>'
    return f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{label}{"".join(bars)}</svg></figure>'


def _run(run: Run) -> str:
    machine = run.machine
    place = f"{machine.cores} cores, {machine.memory_gib} GiB, {machine.system}, Python {machine.python}"
    counts = msgspec.structs.asdict(run.totals).items()
    cells = [
        f"<td>{_rows(run)}</td>",
        f"<td>{escape(run.commit)}{' with changes' if run.dirty else ''}</td>",
        f"<td>{escape(place)}</td>",
        f'<td class="{"ok" if run.outcome == "passed" else "bad"}">{run.outcome}</td>',
        *(f'<td class="n"><span{_bad(name, count)}>{_count(run, count)}</span></td>' for name, count in counts),
        f'<td class="n">{run.seconds:,.0f}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _rows(run: Run) -> str:
    lines = "".join(
        f"<li{'' if row.outcome == 'passed' else _BADLY}>{escape(_named(row))}: {row.outcome}, {row.seconds:.0f} s</li>"
        for row in run.rows
    )
    return f"<details><summary>{escape(run.at)}</summary><ul>{lines}</ul></details>"


def _named(row: Row) -> str:
    return f"{row.name} ({row.cases} cases)" if row.cases > 1 else row.name


def _count(run: Run, count: int) -> str:
    """Return a figure of a run; one that counted nothing has none, which is no zero."""
    return f"{count:,}" if run.totals != Figures() else "–"


def _bad(name: str, count: int) -> str:
    return _BADLY if name in _BAD and count else ""
