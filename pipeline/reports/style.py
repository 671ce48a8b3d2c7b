"""The style of the report of norms, in light and in dark."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b2230; --quiet: #5d6879; --paper: #fff; --line: #dde2ea; --band: #cfe0fb;
  --norm: #7f9fd8; --value: #1d4fa8; --bad: #c2261c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --quiet: #98a2b3; --paper: #14181f; --line: #2c3440;
  --band: #24395c; --norm: #5f83c4; --value: #9cc0ff; --bad: #ff7b70; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1040px; margin: 0 auto; padding: 24px 20px 60px }
h1 { font-size: 24px; margin: 0 0 8px } h2 { font-size: 18px; margin: 36px 0 8px }
p { color: var(--quiet); margin: 0 0 12px; max-width: 75ch }
.facts { list-style: none; display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0; padding: 0; color: var(--quiet) }
.facts b { color: var(--ink); font-size: 20px; margin-right: 4px }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: 6px 16px 6px 0; border-bottom: 1px solid var(--line) }
th { color: var(--quiet); font-weight: 500 } td { font-variant-numeric: tabular-nums }
figure { margin: 0 } figcaption { font-size: 13px; color: var(--quiet); overflow-wrap: anywhere }
figcaption b { color: var(--ink) } figcaption .bad, .bad { color: var(--bad) }
.wide { display: grid; gap: 20px }
.small { display: grid; gap: 18px 20px; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)) }
svg { width: 100%; height: auto; display: block } svg text { font-size: 12px; fill: var(--quiet) }
svg .tick { text-anchor: end }
.band { fill: var(--band) } .norm { fill: none; stroke: var(--norm); stroke-width: 1; stroke-dasharray: 3 2 }
.value { fill: none; stroke: var(--value); stroke-width: 1.4; stroke-linejoin: round }
.out { fill: var(--bad) } .day, .grid { stroke: var(--line); stroke-width: 1 }
"""
