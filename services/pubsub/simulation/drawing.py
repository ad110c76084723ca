"""Curves drawn as SVG: a plot with axes, a grid and a legend, in text that any browser shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from services.pubsub.simulation.figures import Curve

WIDTH, HEIGHT = 900, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 290, 46, 56
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#b8860b", "#2a9d8f", "#d1495b", "#5c5c5c")
DASHES = ("", "7 4", "2 3")
POINTS_MAX = 400
"""The most points of a curve that are drawn: the rest would lie between them."""


def draw(title: str, axes: tuple[str, str], curves: Sequence[tuple[str, Curve]]) -> str:
    """Return a drawing of named curves, of points in order of x. `axes`: what is shown along and up."""
    shown = [(name, _thinned(curve)) for name, curve in curves if curve]
    points = [point for _, curve in shown for point in curve] or [(0.0, 0.0)]
    plot = _Plot(max(x for x, _ in points), max(y for _, y in points))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, title, "start", 15),
        *plot.grid(),
        _text(plot.x(plot.most_x / 2), HEIGHT - 14, axes[0], "middle"),
        f'<g transform="translate(18 {plot.y(plot.most_y / 2):.1f}) rotate(-90)">{_text(0, 0, axes[1], "middle")}</g>',
        *(line for at, (name, curve) in enumerate(shown) for line in _curve(plot, at, name, curve)),
        "</svg>",
        "",
    ])  # fmt: skip


class _Plot:
    """The plot's area: from 0 to round numbers at both axes."""

    def __init__(self, most_x: float, most_y: float) -> None:
        self.step_x, self.step_y = _step(most_x), _step(most_y)
        self.most_x = self.step_x * max(1, ceil(most_x / self.step_x - 1e-9))
        self.most_y = self.step_y * max(1, ceil(most_y / self.step_y - 1e-9))

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.most_x

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.most_y

    def grid(self) -> Iterator[str]:
        """Yield the lines of the grid and the numbers at their ends."""
        for number in range(round(self.most_x / self.step_x) + 1):
            x = self.x(number * self.step_x)
            yield f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>'
            yield _text(x, HEIGHT - BOTTOM + 18, f"{number * self.step_x:,.6g}", "middle")
        for number in range(round(self.most_y / self.step_y) + 1):
            y = self.y(number * self.step_y)
            yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            yield _text(LEFT - 8, y + 4, f"{number * self.step_y:,.6g}", "end")


def _step(most: float) -> float:
    """Return a round distance, of which four to ten fit."""
    if most <= 0:
        return 1.0
    unit = float(10 ** floor(log10(most)))
    return next(unit * part for part in (0.2, 0.25, 0.5, 1.0) if most / (unit * part) <= 8 or part == 1.0)


def _thinned(curve: Curve) -> Curve:
    every = ceil(len(curve) / POINTS_MAX)
    return [*curve[:-1][::every], curve[-1]]


def _curve(plot: _Plot, at: int, name: str, curve: Curve) -> Iterator[str]:
    colour, dash = COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)]
    style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
    path = "L".join(f"{plot.x(x):.1f} {plot.y(y):.1f}" for x, y in curve)
    key_y = TOP + 10 + 20 * at
    yield f'<path d="M{path}" {style}/>'
    yield f'<path d="M{WIDTH - RIGHT + 16} {key_y}h26" {style}/>'
    yield _text(WIDTH - RIGHT + 50, key_y + 4, name, "start")


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
