"""Curves drawn as SVG: a plot with axes, a grid and a legend, for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from services.pubsub.simulation.figures import Axes, Curve

PLOT_WIDTH, HEIGHT = 600, 480
LEFT, TOP, BOTTOM = 76, 46, 56
LEGEND_GAP, KEY_WIDTH, LETTER_WIDTH, LEGEND_MIN = 20, 34, 6.6, 120
COLOURS = {
    "#0067a5": "#58a6ff", "#b84a00": "#ff9a57", "#00764d": "#3fc98f", "#8f3f97": "#d9a1e3", "#7a5c00": "#e0b93c",
    "#4d5761": "#b1bac4", "#a8123e": "#ff7b96", "#006d77": "#4ecdd6",
}  # fmt: skip
"""The colours of curves on a light page, and those on a dark one: each with a contrast of at least 4.5 : 1 to the
background."""
DASHES = ("", "7 4", "2 3", "9 3 2 3")
POINTS_MAX = 400
"""Most points of a curve that are drawn; further ones would lie between them."""
DECADES_MAX = 4
"""Most powers of ten along a logarithmic axis; smaller values are drawn at its beginning."""
_ROUND = (1, 2, 5)


def draw(title: str, axes: Axes, curves: Sequence[tuple[str, Curve]]) -> str:
    """Return a drawing of named curves, given as points in order of x, each with a dot at its end.

    Curves whose names begin alike up to a comma have one colour, those that end alike one kind of line."""
    shown = [(name, _thinned(curve)) for name, curve in curves if curve]
    plot = _Plot(axes, [point for _, curve in shown for point in curve] or [(0.0, 0.0)])
    letters = max((len(name) for name, _ in shown), default=0)
    right = LEFT + PLOT_WIDTH + LEGEND_GAP
    width = round(right + max(LEGEND_MIN, KEY_WIDTH + LETTER_WIDTH * letters) + 10)
    middle_y = (TOP + HEIGHT - BOTTOM) / 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif"'
            ' role="img">',
            f"<title>{escape(title)}</title>",
            _style(),
            f'<rect width="{width}" height="{HEIGHT}" class="ground"/>',
            _text(LEFT, 24, title, "start", 15),
            *plot.grid(),
            _text(LEFT + PLOT_WIDTH / 2, HEIGHT - 14, axes.along, "middle"),
            f'<g transform="translate(18 {middle_y:.1f}) rotate(-90)">{_text(0, 0, axes.up, "middle")}</g>',
            *_curves(plot, right, shown),
            "</svg>",
            "",
        ]
    )


class _Plot:
    """The plot's area: horizontally from 0, or in powers of ten, and vertically from 0, each up to a round number."""

    def __init__(self, axes: Axes, points: Sequence[tuple[float, float]]) -> None:
        self.axes = axes
        most_x, most_y = max(x for x, _ in points), max(y for _, y in points)
        least_x = min((x for x, _ in points if x > 0), default=1.0)
        self._xs = _powers(least_x, most_x) if axes.is_log else _round_numbers(most_x)
        self._ys = _round_numbers(most_y)

    def x(self, value: float) -> float:
        least, most = self._xs[0], self._xs[-1]
        if not self.axes.is_log:
            return LEFT + PLOT_WIDTH * value / most
        return LEFT + PLOT_WIDTH * log10(max(value, least) / least) / log10(most / least)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self._ys[-1]

    def path(self, curve: Curve) -> str:
        """Return the line through a curve's points, or the steps between them."""
        dots = [(f"{self.x(x):.1f}", f"{self.y(y):.1f}") for x, y in curve]
        if self.axes.is_stepped:
            return f"M{dots[0][0]} {dots[0][1]}" + "".join(f"H{x}V{y}" for x, y in dots[1:])
        return "M" + "L".join(f"{x} {y}" for x, y in dots)

    def grid(self) -> Iterator[str]:
        """Yield the lines of the grid with their numbers."""
        for value in self._xs:
            yield f'<path d="M{self.x(value):.1f} {TOP}V{HEIGHT - BOTTOM}" class="grid"/>'
            yield _text(self.x(value), HEIGHT - BOTTOM + 18, f"{value:,.6g}", "middle")
        for value in self._ys:
            number = f"{100 * value:,.6g} %" if self.axes.is_share else f"{value:,.6g}"
            yield f'<path d="M{LEFT} {self.y(value):.1f}h{PLOT_WIDTH}" class="grid"/>'
            yield _text(LEFT - 8, self.y(value) + 4, number, "end")


def _round_numbers(most: float) -> list[float]:
    """Return round numbers at equal distances from 0 to the first that is at least `most`: 0 and 1 if that is 0."""
    if most <= 0:
        return [0.0, 1.0]
    unit = float(10 ** floor(log10(most)))
    step = next(unit * part for part in (0.2, 0.25, 0.5, 1.0) if most / (unit * part) <= 8 or part == 1.0)
    return [step * number for number in range(max(1, ceil(most / step - 1e-9)) + 1)]


def _powers(least: float, most: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, from the last that is at most `least` to the first that is at least
    `most`."""
    most = max(most, 10 * least)
    least = max(least, most / 10**DECADES_MAX)
    found = [part * 10.0**power for power in range(floor(log10(least)), ceil(log10(most)) + 1) for part in _ROUND]
    first = max(at for at, value in enumerate(found) if value <= least * (1 + 1e-9))
    last = min(at for at, value in enumerate(found) if value >= most * (1 - 1e-9))
    return found[first : last + 1]


def _thinned(curve: Curve) -> Curve:
    every = ceil(len(curve) / POINTS_MAX)
    return [*curve[:-1][::every], curve[-1]]


def _curves(plot: _Plot, right: float, shown: Sequence[tuple[str, Curve]]) -> Iterator[str]:
    parts = [name.partition(", ") for name, _ in shown]
    families, kinds = (list(dict.fromkeys(part[at] for part in parts)) for at in (0, 2))
    for at, (name, curve) in enumerate(shown):
        family, kind = families.index(parts[at][0]) % len(COLOURS), kinds.index(parts[at][2]) % len(DASHES)
        key_y = TOP + 10 + 20 * at
        yield f'<path d="{plot.path(curve)}" class="line c{family}" stroke-dasharray="{DASHES[kind]}"/>'
        yield f'<circle cx="{plot.x(curve[-1][0]):.1f}" cy="{plot.y(curve[-1][1]):.1f}" r="3" class="dot c{family}"/>'
        yield f'<path d="M{right} {key_y}h26" class="line c{family}" stroke-dasharray="{DASHES[kind]}"/>'
        yield _text(right + KEY_WIDTH, key_y + 4, name, "start")


def _style() -> str:
    def rules(ground: str, text: str, grid: str, colours: Sequence[str]) -> str:
        of_curves = "".join(f".c{at}{{color:{colour}}}" for at, colour in enumerate(colours))
        return f".ground{{fill:{ground}}}text{{fill:{text}}}.grid{{stroke:{grid}}}{of_curves}"

    light = rules("#ffffff", "#1f2328", "#d8dee4", list(COLOURS))
    dark = rules("#0d1117", "#e6edf3", "#30363d", list(COLOURS.values()))
    common = ".line{fill:none;stroke:currentColor;stroke-width:2}.dot{fill:currentColor}"
    return f"<style>{common}{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
