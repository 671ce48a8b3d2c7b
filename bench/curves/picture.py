"""Draws a curve: a line through the medians, the range of the rounds around it, each line named at its end."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from PIL import Image

from bench.curves.curve import Curve, Line

INCHES, DOTS_PER_INCH = (12.0, 7.0), 100
OURS, THEIRS, GRID, INK = "#0b63ce", "#b4530a", "#e3e6ea", "#24292f"
COLOURS = 64
MARKERS = "os^D"
LETTER = 0.0072
"""What a letter of a line's name takes of the width."""
APART = 26
"""Pixels between the names of two lines, so that neither covers the other."""


def draw(curve: Curve, path: Path) -> None:
    """Write the picture as PNG of 1200 by 700 pixels."""
    figure = Figure(INCHES, dpi=DOTS_PER_INCH, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    longest = max(len(line.label) for line in curve.lines)
    figure.subplots_adjust(left=0.08, right=0.97 - longest * LETTER, top=0.9, bottom=0.11)
    _dress(axes, curve)
    markers = dict(zip((line.label for line in curve.lines), MARKERS * len(curve.lines), strict=False))
    for line in curve.lines:
        _line(axes, line, markers[line.label])
    if not curve.is_log:
        axes.set_ylim(bottom=0)
    canvas.draw()  # until then the axes may still move
    _name(axes, curve)
    canvas.draw()
    path.parent.mkdir(parents=True, exist_ok=True)
    # A few colours make a file of a quarter of the size.
    Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(COLOURS).save(path, optimize=True)


def short(value: float) -> str:
    """Return a number as axes have it: 500, 1k, 2.5k, 1M."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:.10g}{name}"
    return f"{value:.10g}"


def spread(wanted: Iterable[float], apart: float) -> list[float]:
    """Return ascending places moved up as far as needed to be ``apart`` from each other."""
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + apart) if places else place)
    return places


def _dress(axes: Axes, curve: Curve) -> None:
    points = sorted({point for line in curve.lines for point in line.points})
    axes.set_title(curve.title, loc="left", fontsize=17, color=INK, pad=14)
    axes.set_xlabel(curve.x, fontsize=13, color=INK)
    axes.set_ylabel(curve.y, fontsize=13, color=INK)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(points))
    axes.xaxis.set_minor_locator(NullLocator())
    if curve.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.tick_params(labelsize=12, colors=INK)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Axes, line: Line, marker: str) -> None:
    points = sorted(line.points)
    colour = THEIRS if line.is_reference else OURS
    low, high = ([end(line.points[point]) for point in points] for end in (min, max))
    axes.fill_between(points, low, high, color=colour, alpha=0.12, linewidth=0)
    medians = [statistics.median(line.points[point]) for point in points]
    style = "--" if line.is_reference else "-"
    axes.plot(points, medians, color=colour, linestyle=style, marker=marker, linewidth=2.5, markersize=7)


def _name(axes: Axes, curve: Curve) -> None:
    """Write each line's name beside its last point."""
    ends = []
    for line in curve.lines:
        last = max(line.points)
        x, y = axes.transData.transform((last, statistics.median(line.points[last])))
        ends.append((y, x, line))
    ends.sort(key=lambda end: end[:2])
    for height, (_, x, line) in zip(spread((end[0] for end in ends), APART), ends, strict=True):
        axes.annotate(
            line.label,
            (x + 14, height),
            xycoords="figure pixels",
            verticalalignment="center",
            fontsize=13,
            color=THEIRS if line.is_reference else OURS,
            annotation_clip=False,
        )
