"""The spans of one trace as a picture (SVG): one below the other, each as long as it took. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from millrace_service.spans import Span

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#72b7b2")
LEFT, WIDTH, RIGHT = 250, 760, 90
"""Of the names, of the bars, and of the figures, in pixels."""
TOP, LINE = 56, 24
TICKS = 10
"""The most parts that the axis has."""


def depths(spans: Sequence[Span]) -> dict[str, int]:
    """Below how many others each span lies, as far as these are there."""
    parent = {one.span: one.parent for one in spans}

    def depth(span: str) -> int:
        above = parent[span]
        return depth(above) + 1 if above in parent else 0

    return {span: depth(span) for span in parent}


def step_of(ms: float) -> float:
    """The distance of two ticks: 1, 2 or 5 times a power of ten."""
    least = max(ms, 1e-3) / TICKS
    power = 1e-6
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least * (1 - 1e-9):
                return factor * power
        power *= 10


def waterfall(spans: Sequence[Span], title: str) -> str:
    """The picture of the spans (at least one), in this order."""
    first, last = min(one.begin for one in spans), max(one.end for one in spans)
    total = max((last - first) / 1e6, 1e-3)
    depth = depths(spans)
    services = list(dict.fromkeys(one.service for one in spans))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(services)}
    height = TOP + LINE * len(spans) + 30
    bottom = TOP + LINE * len(spans)

    def x(ms: float) -> str:
        return f"{LEFT + WIDTH * ms / total:.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="18" font-size="14">{escape(title)}</text>',
    ]
    for place, name in enumerate(services):
        lines.append(f'<rect x="{8 + 130 * place}" y="28" width="12" height="12" fill="{colours[name]}"/>')
        lines.append(f'<text x="{24 + 130 * place}" y="38">{escape(name)}</text>')
    step = step_of(total)
    for number in range(int(total / step + 1e-9) + 1):
        at = x(number * step)
        lines.append(f'<line x1="{at}" y1="{TOP}" x2="{at}" y2="{bottom}" stroke="#ddd"/>')
        lines.append(f'<text x="{at}" y="{bottom + 16}" text-anchor="middle">{number * step:g} ms</text>')
    for place, one in enumerate(spans):
        y = TOP + LINE * place
        begin, long = (one.begin - first) / 1e6, max(WIDTH * one.ms / total, 1)
        lines.append(f'<text x="{8 + 14 * depth[one.span]}" y="{y + 16}">{escape(one.name)}</text>')
        lines.append(
            f'<rect x="{x(begin)}" y="{y + 5}" width="{long:.1f}" height="{LINE - 10}" '
            f'fill="{colours[one.service]}"/>'
        )
        lines.append(f'<text x="{float(x(begin)) + long + 4:.1f}" y="{y + 16}">{one.ms:.2f}</text>')
    return "\n".join([*lines, "</svg>", ""])
