"""The page's colours are legible and distinct for all eyes, on light and dark backgrounds; its style fits every
width."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from spark_analytics.judgement.schema import STATES as SCHEMA_STATES
from spark_analytics.report.page.states import STATES
from spark_analytics.report.page.style import DARK, LIGHT, sheet

THEMES = {
    "light": (LIGHT, {state.name: state.light for state in STATES}),
    "dark": (DARK, {state.name: state.dark for state in STATES}),
}
SEEN_BY = {  # Machado, Oliveira and Fernandes (2009), severity 1, on linear light
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopes": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopes": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopes": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
Colour = tuple[float, ...]


def linear(colour: str) -> Colour:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.2."""
    bright = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear(one), linear(other)))
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def distance(one: str, other: str, eyes: str) -> float:
    """Return the distance of two colours in OKLab, as an eye with that deficiency sees them."""

    def lab(colour: str) -> Colour:
        light = linear(colour)
        r, g, b = (min(1, max(0, sum(m * x for m, x in zip(row, light, strict=True)))) for row in SEEN_BY[eyes])
        long, middle, brief = (
            each ** (1 / 3)
            for each in (
                0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
                0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
                0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
            )
        )
        return (
            0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * brief,
            1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * brief,
            0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * brief,
        )

    return float(sum((x - y) ** 2 for x, y in zip(lab(one), lab(other), strict=True)) ** 0.5)


@pytest.mark.parametrize("theme", THEMES)
def test_texts_have_the_contrast_of_wcag_aa(theme: str) -> None:
    colours, _ = THEMES[theme]
    for ground in ("paper", "raised"):
        for ink in ("ink", "soft", "bad", "good", "attention", "p50", "p95", "p99", "max"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for ink in ("ink", "bad"):
        assert contrast(colours[ink], colours["bad-paper"]) >= 4.5, ink
    for level in ("good", "attention", "bad"):
        assert contrast(colours["sign"], colours[level]) >= 4.5, level


@pytest.mark.parametrize("theme", THEMES)
def test_every_state_stands_out_from_the_paper(theme: str) -> None:
    colours, states = THEMES[theme]
    for name, colour in {**states, "change": colours["change"], "abuse": colours["abuse"]}.items():
        assert contrast(colour, colours["paper"]) >= 3, name


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("theme", THEMES)
def test_all_eyes_tell_a_loss_from_everything_and_neighbours_from_one_another(theme: str, eyes: str) -> None:
    _, states = THEMES[theme]
    for one, other in combinations(states, 2):
        least = 0.11 if "unaccounted" in (one, other) else 0.03
        assert distance(states[one], states[other], eyes) >= least, (one, other)
    for one, other in pairwise(states):
        assert distance(states[one], states[other], eyes) >= 0.07, (one, other)


def test_the_page_knows_the_states_of_the_audit_and_a_colour_for_each() -> None:
    assert sorted(state.name for state in STATES) == sorted(SCHEMA_STATES)
    css = sheet()
    for state in STATES:
        assert css.count(f"--s-{state.name}:{state.light};") == 3, "light, chosen light, paper"
        assert css.count(f"--s-{state.name}:{state.dark};") == 2, "dark, chosen dark"
        assert f".s-{state.name}{{fill:" in css


def test_the_style_fits_phones_paper_and_both_lights() -> None:
    css = sheet()
    for rule in (
        "prefers-color-scheme:dark",
        "[data-theme=light]",
        "[data-theme=dark]",
        "@media print",
        "max-width:40rem",
    ):
        assert rule in css
    assert "tabular-nums" in css
    assert css.count("{") == css.count("}")
