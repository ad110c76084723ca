"""What became of a message, as a page: a sentence, and each recipient with what comes next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from router.overview.facts import NodeFacts, short_key
from router.overview.notices import sentence
from spark_analytics.report.page.figure import folded, table
from spark_analytics.report.page.markup import Markup, tag
from spark_analytics.report.page.wording import counted, prose
from spark_analytics.report.reasons import SENTENCES

from .page import ASK, document

RECIPIENTS_MAX = 60
"""Recipients that are shown; `router why` shows more."""
REACHED = ("delivered", "acked", "unconfirmed", "settled")
OPEN = ("queued", "in-flight", "pending", "unknown")


class Hop(Struct, frozen=True):
    event: str = ""
    time: str | None = None
    reason: str | None = None
    count: int = 1


class Recipient(Struct, frozen=True):
    recipient: str = ""
    state: str = ""
    reason: str | None = None
    attempts: int = 0
    next: str = ""
    hops: tuple[Hop, ...] = ()


class Turned(Struct, frozen=True):
    time: str = ""
    reason: str | None = None


class Fate(Struct, frozen=True):
    """The router's answer to `why`, as far as the page shows it."""

    message: str = ""
    text: str = ""
    group: str | None = None
    destination: str | None = None
    source: str | None = None
    brought_by: str | None = None
    accepted_at: str | None = None
    expires_at: str | None = None
    states: Mapping[str, int] = {}
    copies: Mapping[str, int] = {}
    carried: int = 0
    recipients: tuple[Recipient, ...] = ()
    recipients_omitted: int = 0
    turned_away: tuple[Turned, ...] = ()
    turned_away_times: int = 0
    incomplete: str | None = None
    names: Mapping[str, str] = {}


Who = Callable[[str], str]
"""Returns the name of a key, or its beginning if it has none."""


def why_page(fate: Fate, facts: NodeFacts) -> Markup:
    """Return the page about one message. `facts`: the names of groups and neighbours."""

    def who(key: str) -> str:
        return fate.names.get(key) or facts.name_of(key) or short_key(key)

    rows = [
        ("message", tag("code", fate.text or fate.message, class_="id")),
        ("", tag("code", fate.message, class_="id")),
        ("group", fate.group and (facts.group_name(fate.group) or tag("code", fate.group, class_="id"))),
        ("to", fate.destination and who(fate.destination)),
        ("accepted", fate.accepted_at),
        ("brought by", fate.brought_by and who(fate.brought_by)),
        ("kept until", fate.expires_at if any(one.state in OPEN for one in fate.recipients) else None),
        ("incomplete", fate.incomplete),
    ]
    terms = [
        (tag("dt", name or tag("span", "in hexadecimal", class_="unseen")), tag("dd", said))
        for name, said in rows
        if said
    ]
    return _document(
        _headline(fate),
        tag("p", prose(_turned(fate)), class_="lead") if fate.turned_away else None,
        tag("dl", *(one for pair in terms for one in pair), class_="facts"),
        _recipients(fate, who),
    )


def not_told(text: str) -> Markup:
    """Return the page of a question that has no answer, and why."""
    return _document(sentence(text))


def _document(headline: str, *inside: object) -> Markup:
    return document(
        "What became of a message",
        tag("header", tag("a", "Back to the node", href="./")),
        tag("main", tag("div", tag("h1", prose(headline)), *inside, class_="verdict"), ASK),
    )


def _headline(fate: Fate) -> str:
    """Return how far the message has come, as a sentence."""
    total = sum(fate.states.values()) - fate.carried
    reached = sum(n for state, n in fate.states.items() if state in REACHED) - fate.carried
    waiting = sum(n for state, n in fate.states.items() if state in OPEN)
    if not fate.accepted_at:
        return "It was not accepted here."
    if not total and fate.carried:
        taken = fate.copies.get("acked", 0)
        return f"It was sent on to {counted(taken, 'node')}." if taken else "Nobody has read it yet."
    if not total:
        return "It was owed to nobody."
    if reached == total:
        return f"It has reached {'its recipient' if total == 1 else f'all {total:,} recipients'}."
    other = total - reached - waiting
    said = f"It has reached {reached:,} of {counted(total, 'recipient')}"
    said += f"; {waiting:,} {'waits' if waiting == 1 else 'wait'}" if waiting else ""
    return f"{said}; for {other:,} it ended otherwise." if other else f"{said}."


def _turned(fate: Fate) -> str:
    last = fate.turned_away[-1]
    times = "once" if fate.turned_away_times == 1 else f"{fate.turned_away_times:,} times"
    return f"It was turned away {times}, last at {last.time}: {SENTENCES.get(last.reason or '', last.reason or '')}"


def _recipients(fate: Fate, who: Who) -> Markup | None:
    if not fate.recipients:
        return None
    left = len(fate.recipients) - RECIPIENTS_MAX + fate.recipients_omitted
    return tag(
        "ul",
        *(_recipient(one, who) for one in fate.recipients[:RECIPIENTS_MAX]),
        tag("li", f"and {counted(left, 'recipient')} more; router why {fate.message[:16]} tells") if left > 0 else None,
        class_="fates",
    )


def _recipient(one: Recipient, who: Who) -> Markup:
    why = f": {SENTENCES.get(one.reason, one.reason)}" if one.reason else ""
    return tag(
        "li",
        tag("p", tag("b", who(one.recipient)), " ", tag("span", f"{one.state}{why}", class_="much")),
        tag("p", prose(sentence(one.next)), class_="because") if one.next else None,
        folded(counted(one.attempts, "attempt"), _hops(who(one.recipient), one.hops)) if one.hops else None,
    )


def _hops(name: str, hops: Sequence[Hop]) -> Markup:
    rows = [(hop.time or "now", hop.event, hop.reason or "–", hop.count) for hop in hops]
    columns = (("time", ""), ("event", ""), ("reason", ""), ("recipients", "n"))
    return table(f"What happened for {name}", columns, rows, whole="router why --json")


def fate_of(answer: Any) -> Fate:
    """Return the router's answer as a value. Raises `msgspec.ValidationError`."""
    return msgspec.convert(answer, Fate, strict=False)
