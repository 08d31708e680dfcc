"""Small line charts as inline SVG, and their legends. Colours are CSS classes: light and dark come from the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from .scales import Frame, Point, limits, log_ticks, nice_ticks


@dataclass
class Series:
    """Named points. `colour`: a class c0..c7; `mark`: dot, small, ring, diamond, cross or none."""

    name: str
    points: Sequence[Point]
    colour: str = "c0"
    line: bool = True
    mark: str = ""
    dashed: bool = False
    opacity: float = 1.0
    group: str = ""  # what the legend calls it; several series of a group are named once


@dataclass
class Chart:
    """Axes and series. A limit that is None follows the data."""

    title: str
    x_label: str
    y_label: str
    series: list[Series] = field(default_factory=list)
    x_limits: tuple[float | None, float | None] = (None, None)
    y_limits: tuple[float | None, float | None] = (None, None)
    log_y: bool = False
    whole_x: bool = False
    y_format: Callable[[float], str] = "{:g}".format
    width: int = 520
    height: int = 280
    x_line: float | None = None  # a vertical rule, e.g. where stage 2 begins


def make_frame(chart: Chart) -> Frame:
    """The plot area and its scales."""
    low, high = chart.x_limits
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    points = [p for s in chart.series for p in s.points if math.isfinite(p[0] + p[1])]
    ys = [y for x, y in points if low <= x <= high]
    wanted = chart.y_limits
    if chart.log_y:
        ys = [math.log10(y) for y in ys if y > 0]
        least, most = (None if v is None else math.log10(v) for v in wanted)
        wanted = (least, most)
    return Frame(
        x=limits([x for x, _ in points], chart.x_limits, 0.02),
        y=limits(ys, wanted, 0.08),
        left=54,
        right=chart.width - 14,
        top=34,
        bottom=chart.height - 42,
        log_y=chart.log_y,
    )


def text(style: str, x: float, y: float, content: str, anchor: str) -> str:
    """A <text> element; `anchor` is start, middle or end."""
    place = f'class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(content)}</text>"


def segment(style: str, start: Point, end: Point) -> str:
    """A straight line."""
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def draw_axes(chart: Chart, frame: Frame) -> list[str]:
    """Title, grid lines, tick labels and axis labels."""
    f = frame
    y_span = (10 ** f.y[0], 10 ** f.y[1]) if f.log_y else f.y
    y_ticks = log_ticks(*y_span) if f.log_y else nice_ticks(*f.y, count=5)
    x_count = min(8, int((f.right - f.left) / 60))
    middle = (f.left + f.right) / 2
    parts = [
        text("title", f.left - 40, 16, chart.title, "start"),
        text("label", f.right, 16, chart.y_label, "end"),
        text("label", middle, chart.height - 6, chart.x_label, "middle"),
        segment("axis", (f.left, f.bottom), (f.right, f.bottom)),
    ]
    for tick in y_ticks:
        y = f.py(tick)
        parts.append(segment("grid", (f.left, y), (f.right, y)))
        parts.append(text("tick", f.left - 8, y + 4, chart.y_format(tick), "end"))
    for tick in nice_ticks(*f.x, count=x_count, whole=chart.whole_x):
        x = f.px(tick)
        parts.append(segment("axis", (x, f.bottom), (x, f.bottom + 4)))
        parts.append(text("tick", x, f.bottom + 18, f"{tick:g}", "middle"))
    if chart.x_line is not None and f.x[0] < chart.x_line < f.x[1]:
        x = f.px(chart.x_line)
        parts.append(segment("rule", (x, f.top), (x, f.bottom)))
    return parts


def draw_mark(mark: str, x: float, y: float, tip: str, colour: str) -> str:
    """One point with its values as the tooltip."""
    title = f"<title>{escape(tip)}</title>"
    if mark == "dot":
        return f'<circle class="{colour} fill" cx="{x:.1f}" cy="{y:.1f}" r="2.6">{title}</circle>'
    if mark == "small":
        return f'<circle class="{colour} fill" cx="{x:.1f}" cy="{y:.1f}" r="1.7">{title}</circle>'
    if mark == "ring":
        return f'<circle class="{colour} ring" cx="{x:.1f}" cy="{y:.1f}" r="5">{title}</circle>'
    if mark == "diamond":
        d = f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"
        return f'<path class="{colour} ring" d="{d}">{title}</path>'
    d = f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"
    return f'<path class="{colour} ring" d="{d}">{title}</path>'


def draw_series(series: Series, chart: Chart, frame: Frame) -> list[str]:
    """The line and the marks of one series; values that are not finite leave a gap."""
    usable = [(x, y) for x, y in series.points if math.isfinite(y) and (y > 0 or not frame.log_y) and math.isfinite(x)]
    pixels = [(frame.px(x), frame.py(y)) for x, y in usable]
    parts = [f'<g opacity="{series.opacity:g}">']
    if series.line and len(pixels) > 1:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in pixels)
        dash = " dashed" if series.dashed else ""
        parts.append(f'<path class="{series.colour} line{dash}" d="{path}"/>')
    if series.mark:
        for (x, y), (px, py) in zip(usable, pixels, strict=True):
            tip = f"{series.name}: {chart.x_label} {x:g}, {chart.y_format(y)}"
            parts.append(draw_mark(series.mark, px, py, tip, series.colour))
    return [*parts, "</g>"]


def render(chart: Chart) -> str:
    """The chart as an <svg> element; what lies outside the limits is clipped."""
    frame = make_frame(chart)
    clip = "clip-" + "".join(c if c.isalnum() else "-" for c in chart.title.lower())
    pad = 7
    parts = [
        f'<svg viewBox="0 0 {chart.width} {chart.height}" role="img"'
        f' aria-label="{escape(chart.title)}"><clipPath id="{clip}"><rect x="{frame.left - pad}"'
        f' y="{frame.top - pad}" width="{frame.right - frame.left + 2 * pad}"'
        f' height="{frame.bottom - frame.top + pad}"/></clipPath>'
    ]
    parts += draw_axes(chart, frame)
    parts.append(f'<g clip-path="url(#{clip})">')
    for series in chart.series:
        parts += draw_series(series, chart, frame)
    return "\n".join([*parts, "</g></svg>"])


def legend(series: Sequence[Series]) -> str:
    """Coloured names, one for each line or group of lines; nothing for a single one."""
    named = {s.group or s.name: s for s in series if s.line and s.points}
    items = [
        f'<span><i class="key {s.colour}{" dashed" if s.dashed else ""}"></i>{escape(name)}</span>'
        for name, s in named.items()
    ]
    if len(items) < 2:
        return ""
    return f'<div class="legend">{"".join(items)}</div>'


def figures(drawn: Sequence[Chart], with_legend: bool = True) -> str:
    """Charts in a grid of one or two columns."""
    named = legend if with_legend else lambda _: ""
    cells = [f"<div>{render(chart)}{named(chart.series)}</div>" for chart in drawn]
    return f'<div class="grid2">{"".join(cells)}</div>'
