"""The form of everything on the page: a figure with its title, meaning and remedy, and the same data as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .markup import Markup, join, tag, text
from .wording import number

ROWS_MAX = 60


def table(
    caption: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[object]],
    most: int = ROWS_MAX,
    whole: str = "router audit --json",
) -> Markup:
    """Return at most `most` rows, and how many more there are; `whole` is the command that prints all of them. A wide
    table scrolls by itself, never the page."""
    found = list(rows)
    head = tag("tr", *(tag("th", title, scope="col", class_=kind or None) for title, kind in columns))
    body = [
        tag("tr", *(_cell(each, kind) for each, (_, kind) in zip(row, columns, strict=True))) for row in found[:most]
    ]
    if len(found) > most:
        rest = f"and {number(len(found) - most)} more; {whole} has them all"
        body.append(tag("tr", tag("td", rest, colspan=len(columns), class_="rest")))
    return tag(
        "div",
        tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body)),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def _cell(value: object, kind: str) -> Markup:
    shown = number(value) if isinstance(value, int | float) or value is None else text(value)
    return tag("td", shown, class_=kind or None)


def folded(title: str, *inside: object) -> Markup:
    return tag("details", tag("summary", title), *inside, class_="alt")


def figure(
    name: str, title: str, *, see: object, do: object, chart: object, same: object = None, level: str = ""
) -> Markup:
    """Return a picture (or table) with its words. `same`: its data as a table; `level`: good, attention, bad."""
    return tag(
        "figure",
        tag(
            "div",
            tag("h3", title, id=name),
            _words("What you see", see, "see"),
            tag("div", chart, class_="chart"),
            class_="picture",
        ),
        _words("What to do", do, "do"),
        folded("The same as a table", same) if same is not None else None,
        class_=f"figure {level}".strip(),
        aria_labelledby=name,
    )


def _words(head: str, words: object, class_: str) -> Markup:
    return tag("p", tag("b", head, class_="run-in"), " ", words, class_=class_)


class Nothing(Markup):
    """A sentence in place of a figure without data."""

    __slots__ = ("words",)
    words: str


def empty(name: str, title: str, words: str) -> Nothing:
    """Return a sentence to show instead of an empty frame."""
    found = Nothing(tag("p", tag("strong", title, id=name), ": ", words, class_="figure none-here nothing"))
    found.words = words
    return found


def section(name: str, title: str, lead: object, *inside: object) -> Markup:
    """Return a section, or one line if none of its figures has anything to show."""
    figures = [one for one in inside if one is not None]
    if figures and all(isinstance(one, Nothing) for one in figures):
        words = " ".join(one.words for one in figures if isinstance(one, Nothing))
        line = tag("p", tag("strong", title, id=f"{name}-title"), ": ", words, class_="nothing")
        return tag("section", line, id=name, aria_labelledby=f"{name}-title")
    return tag(
        "section",
        tag("h2", title, id=f"{name}-title"),
        tag("p", lead, class_="lead"),
        *inside,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def code(command: object) -> Markup:
    """Return a command to copy."""
    return tag("code", command, class_="command")


def sentences(*each: object) -> Markup:
    """Join the sentences with spaces; None is left out."""
    return join(*(part for one in each if one is not None and one != "" for part in (one, " ")))
