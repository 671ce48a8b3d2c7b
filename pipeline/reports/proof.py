"""The report of ``reconcile``: one HTML file with its charts in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any, Final

from pipeline.reports.summary import HOPS, STATES, VERDICTS, Bar, Findings, Summary, sentence_of

_WIDTH: Final = 960
_HEIGHT: Final = 180
_LEFT: Final = 48
_BOTTOM: Final = 26
_TICKS: Final = 6
_MOST_LISTED: Final = 5_000
_COUNTS: Final = {
    "under_way": "on their way",
    "held": "held",
    "dead": "dead",
    "parked": "parked",
    "canceled": "canceled",
    "skipped": "skipped",
    "event_lost": "event lost",
    "store_behind": "store behind",
    "unannounced": "not announced",
    "duplicates": "duplicates",
    "resent": "resent",
}
_STYLE: Final = """
:root { --ink: #1c2430; --soft: #5d6b7c; --line: #dfe4ea; --paper: #fff; --open: #b9c4d0; --provisional: #e0a83e;
  --final: #2f9e6e; --amended: #4c7fd0; --missing: #cf3f3f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf1; --soft: #97a4b3; --line: #303a46; --paper: #161b21;
  --open: #56636f; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1060px; padding: 32px 24px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 22px; margin: 0 0 4px } h2 { font-size: 16px; margin: 36px 0 8px }
p { margin: 4px 0 } .soft { color: var(--soft) }
.verdict { margin: 18px 0; padding: 14px 18px; border-radius: 8px; border-left: 6px solid var(--final);
  background: color-mix(in srgb, var(--final) 10%, transparent); font-size: 17px }
.verdict.missing, .verdict.contradicted { border-color: var(--missing);
  background: color-mix(in srgb, var(--missing) 10%, transparent) }
.verdict.unsettled { border-color: var(--provisional);
  background: color-mix(in srgb, var(--provisional) 12%, transparent) }
.verdict.unheard { border-color: var(--open); background: color-mix(in srgb, var(--open) 16%, transparent) }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-size: 13px }
th { text-align: left; color: var(--soft); font-weight: 600; white-space: nowrap }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top }
.number { text-align: right; font-variant-numeric: tabular-nums } code { font-size: 12px; white-space: nowrap }
svg { width: 100%; height: auto; display: block } svg text { fill: var(--soft); font: 11px system-ui, sans-serif }
.key { display: flex; flex-wrap: wrap; gap: 16px; font-size: 13px; color: var(--soft) }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px }
"""


def render(summary: Summary) -> str:
    """Return the whole page."""
    parts = [_head(summary), _chart_section(summary.bars), _hops(summary)]
    parts.append(_listed("Missing deliveries and messages", summary.missing))
    parts.append(_listed("Ends that the store contradicts", summary.contradicted))
    body = "\n".join([*parts, _gaps(summary), _meanings()])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>Reconcile {escape(summary.checked)}</title><style>{_STYLE}</style></head>'
        f"<body>\n{body}\n</body></html>\n"
    )


def _head(summary: Summary) -> str:
    witnesses = "events, ledger and store" if summary.with_store else "events and ledger"
    heard = f"emitters ({summary.emitters}) were heard up to {summary.watermark}"
    return (
        f'<h1>Was anything lost?</h1><p class="soft">Checked {escape(summary.checked)} from {witnesses}; '
        f"{escape(heard) if summary.watermark else 'no emitter was heard'}.</p>"
        f'<div class="verdict {summary.verdict}">{escape(_capital(sentence_of(summary)))}.</div>'
    )


def _chart_section(bars: Sequence[Bar]) -> str:
    if not bars:
        return "<h2>Buckets over time</h2><p>There are none.</p>"
    names = [*STATES, "missing"]
    key = "".join(f'<span><i style="background:var(--{name})"></i>{name}</span>' for name in names)
    return f'<h2>Buckets over time, by state</h2><div class="key">{key}</div>{_chart(bars)}'


def _chart(bars: Sequence[Bar]) -> str:
    """Return stacked columns, and a mark above each where something is missing."""
    most = max(sum(bar.states.values()) for bar in bars)
    step = (_WIDTH - _LEFT) / len(bars)
    drawn = [_column(bar, _LEFT + place * step, min(step, 60.0), most) for place, bar in enumerate(bars)]
    every = max(1, -(-len(bars) // _TICKS))
    ticks = [
        f'<text x="{_LEFT + place * step:.1f}" y="{_HEIGHT + 18}">{escape(bars[place].start[:16].replace("T", " "))}'
        "</text>"
        for place in range(0, len(bars), every)
    ]
    lines = [_rule(value, most) for value in sorted({0, most // 2, most})]
    return (
        f'<svg viewBox="0 -18 {_WIDTH} {_HEIGHT + _BOTTOM + 18}" role="img" '
        f'aria-label="Buckets by state over time">{"".join([*lines, *drawn, *ticks])}</svg>'
    )


def _column(bar: Bar, left: float, step: float, most: int) -> str:
    drawn, top = [], float(_HEIGHT)
    for name in STATES:
        height = bar.states[name] / most * _HEIGHT
        top -= height
        if height:
            drawn.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(step - 1, 1):.1f}" height="{height:.1f}" '
                f'fill="var(--{name})"><title>{escape(bar.start)}: {bar.states[name]} {name}</title></rect>'
            )
    if bar.missing:
        drawn.append(
            f'<circle cx="{left + step / 2:.1f}" cy="{top - 7:.1f}" r="4" fill="var(--missing)">'
            f"<title>{escape(bar.start)}: {bar.missing} missing</title></circle>"
        )
    return "".join(drawn)


def _rule(value: int, most: int) -> str:
    height = _HEIGHT - value / most * _HEIGHT
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{height:.1f}" y2="{height:.1f}" stroke="var(--line)"/>'
        f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{value}</text>'
    )


def _hops(summary: Summary) -> str:
    columns = ("hop", "buckets", "expected", *VERDICTS, *STATES)
    rows = [_hop(title, summary.hops[hop]) for hop, title in HOPS.items() if summary.hops[hop].get("buckets")]
    deliver = summary.hops["deliver"]
    rest = [f"{deliver[name]} {title}" for name, title in _COUNTS.items() if deliver.get(name)]
    more = f'<p class="soft">Of the deliveries: {escape(", ".join(rest))}.</p>' if rest else ""
    return f"<h2>Hops</h2>{_table(columns, rows, numbers=1)}{more}"


def _hop(title: str, hop: dict[str, Any]) -> list[object]:
    verdicts = [hop["verdicts"].get(name, 0) for name in VERDICTS]
    return [title, hop["buckets"], hop["expected"], *verdicts, *[hop["states"].get(name, 0) for name in STATES]]


def _listed(title: str, found: Findings) -> str:
    if not len(found):
        return f"<h2>{title}</h2><p>None.</p>"
    columns = ("message", "destination", "subscription", "state", "last event", "store")
    rows = [
        [
            f"<code>{escape(each.id)}</code>",
            *map(escape, (each.destination, each.subscription or "–", each.state, each.last_word, each.stored)),
        ]
        for each in islice(found, _MOST_LISTED)
    ]
    left = len(found) - len(rows)
    more = f'<p class="soft">{left} more are in the lake\'s table findings.</p>' if left > 0 else ""
    return f"<h2>{title}: {len(found)}</h2>{_table(columns, rows, raw=True)}{more}"


def _gaps(summary: Summary) -> str:
    if not summary.gaps:
        nothing = "Nothing: no block is missing, no event was dropped, and each that is gone ended in order."
        return f"<h2>What emitters lost</h2><p>{nothing}</p>"
    columns = ("emitter", "node", "after", "until", "blocks", "events")
    rows = [
        [gap.emitter, gap.node, gap.after or "its start", gap.until or "did not end in order", gap.blocks, gap.lost]
        for gap in summary.gaps
    ]
    return (
        f"<h2>What emitters lost</h2><p>{summary.lost_blocks} blocks and {summary.lost_events} events; of each emitter "
        f"the first 100 gaps are listed.</p>{_table(columns, rows[:_MOST_LISTED])}"
    )


def _meanings() -> str:
    return (
        '<h2>Words</h2><p class="soft">A bucket is a hop, a destination, a subscription and a minute. It is '
        "<b>proven</b> when count, XOR and sum of the ids on both sides of the hop are equal, or differ by deliveries "
        "that are dead or parked, which is seen; <b>explained</b> when they differ and every delivery is accounted for "
        "all the same; <b>contradicted</b> when events tell of an end that the store does not have; <b>unsettled</b> "
        "while something is on its way. It is <b>open</b> while it is too young to be "
        "judged, then <b>provisional</b>, <b>final</b> once retries are over, and <b>amended</b> when something final "
        "changed after all.</p>"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: int = 99, raw: bool = False) -> str:
    """Return a table; columns from ``numbers`` on are right-aligned, ``raw`` cells are HTML already."""
    kinds = [' class="number"' if place >= numbers else "" for place in range(len(columns))]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(columns, kinds, strict=True))
    lines = [
        "".join(f"<td{kind}>{cell if raw else escape(str(cell))}</td>" for cell, kind in zip(row, kinds, strict=True))
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
