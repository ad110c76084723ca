"""The operator's page as text: its parts by name, the whole of it, and what who is not logged in sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from router.overview.notices import LEVELS, Notice, headline, notices, roughly
from spark_analytics.report.page.markup import Markup, join, tag
from spark_analytics.report.page.verdict import mark
from spark_analytics.report.page.wording import clock, moment, prose

from .logins import Login
from .view import View, groups, neighbours, queues, refusals, services, traffic

FINDINGS_MAX = 12
"""Findings that are listed below the first one."""


def parts(view: View) -> Mapping[str, Markup]:
    """Return the parts of the page that change, by the ids of their places."""
    return {name: part(view) for name, part in _PARTS.items()}


def page(found: Mapping[str, Markup], title: str, login: Login) -> Markup:
    """Return the whole page. `title`: the node's name; `login`: whose page it is."""
    return document(
        title,
        tag("a", "To what is wrong, or that nothing is", href="#verdict", class_="skip"),
        tag("header", tag("div", found["state"], id="state"), tag("span", id="live", role="status"), _AGAIN),
        tag("main", *(tag("div", inside, id=name) for name, inside in found.items() if name != "state"), ASK),
        tag(
            "footer",
            tag(
                "p",
                f"Times are UTC, and nothing here changes the node. This login lasts until "
                f"{moment(login.until_s // 60)}, or until you say ",
                tag("code", f"router web logins --end {login.id}", class_="command"),
                ".",
            ),
        ),
        is_live=True,
    )


def document(title: str, *inside: object, is_live: bool = False, more: Markup | None = None) -> Markup:
    """Return a page of this door. `is_live`: it has the script that keeps it up to date."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        more,
        tag("title", title),
        Markup('<link rel="stylesheet" href="page.css"><link rel="icon" href="icon.svg" type="image/svg+xml">'),
        tag("script", src="page.js", type="module") if is_live else None,
    )
    return join(Markup("<!DOCTYPE html>\n"), tag("html", head, tag("body", *inside), lang="en"), Markup("\n"))


def entered(login: Login) -> Markup:
    """Return the page of a link that has just been used: a browser goes on from here by itself, since it sends a cookie
    of its own site only from a page of that site."""
    return document(
        "Logged in",
        tag("main", _verdict_of(Notice("good", "You are logged in."), "Logged in", tag("a", "To the page", href="./"))),
        more=tag("meta", http_equiv="refresh", content="0; url=./"),
    )


def shut(text: str) -> Markup:
    """Return what is shown to who is not logged in: why, and what to do."""
    others = join(
        "Without a login there are ",
        tag("a", "health/live", href="health/live"),
        ", ",
        tag("a", "health/ready", href="health/ready"),
        " and ",
        tag("a", "metrics", href="metrics"),
        ".",
    )
    said, _, remedy = text.partition("; ")
    return document(
        "Log in",
        tag(
            "main",
            _verdict_of(Notice("info", f"{said[:1].upper()}{said[1:]}.", f"{remedy}."), "Not logged in", others),
        ),
    )


# -- parts -------------------------------------------------------------------------------------------------------------


def _state(view: View) -> Markup:
    status, at = view.facts.status, int(view.wall_s)
    return join(
        tag("span", status.title, class_="name"),
        tag("span", status.role),
        tag("span", f"up {roughly(status.uptime_s)}") if status.uptime_s else None,
        tag("span", f"as of {clock(at // 60)}:{at % 60:02}"),
    )


def _verdict(view: View) -> Markup:
    found = notices(view.seen)
    first, others = headline(view.seen, found), found[1 : FINDINGS_MAX + 1]
    items = (
        tag(
            "li",
            mark(one.level),
            tag("div", tag("p", prose(one.text)), tag("p", prose(one.remedy), class_="remedy") if one.remedy else None),
            class_=one.level,
        )
        for one in others
    )
    left = len(found) - 1 - len(others)
    return _verdict_of(
        first,
        LEVELS[first.level],
        tag("ul", *items, class_="findings") if others else None,
        tag("p", f"and {left} more", class_="nothing") if left > 0 else None,
    )


def _verdict_of(first: Notice, level: str, *more: object) -> Markup:
    return tag(
        "div",
        tag("p", mark(first.level), tag("span", level), class_=f"level {first.level}", role="status"),
        tag("h1", prose(first.text)),
        tag("p", prose(first.remedy), class_="lead") if first.remedy else None,
        *more,
        class_="verdict",
    )


_PARTS: Mapping[str, Callable[[View], Markup]] = {
    "state": _state,
    "verdict": _verdict,
    "traffic": traffic,
    "queues": queues,
    "neighbours": neighbours,
    "groups": groups,
    "refusals": refusals,
    "services": services,
}

_AGAIN = tag("noscript", tag("a", "Look again", href="./"))
"""What a page without scripts has in place of the events."""

ASK = tag(
    "section",
    tag("h2", "What became of a message?", id="why-title"),
    tag(
        "form",
        tag("label", "Its id, or the first digits of it", for_="id"),
        tag(
            "input",
            id="id",
            name="id",
            autocomplete="off",
            spellcheck="false",
            required=True,
            minlength=4,
            maxlength=80,
        ),
        tag("button", "Ask why", type="submit"),
        method="get",
        action="why",
        class_="ask",
    ),
    aria_labelledby="why-title",
)
