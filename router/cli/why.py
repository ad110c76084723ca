"""`router why`: what became of a message, for each recipient and at each router, and what happens next."""

from __future__ import annotations

from typing import Any

import click

from router.cli.ask import ask
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import address_text, facts, group_text, note, say, say_json
from router.cli.stopped import why as why_stopped
from router.client.errors import NodeUnavailable
from router.core.id_prefix import parse_prefix
from router.core.text import clean
from router.settings.home import Home
from router.settings.names import Names

TIMEOUT_S = 30.0
RECIPIENTS_SHOWN = 50


@click.command(cls=Command)
@click.argument("message", metavar="MESSAGE-ID")
@click.option("--follow", is_flag=True, help="Ask the routers that took custody, where they grant us `why`.")
@json_option
def why(message: str, follow: bool, as_json: bool) -> None:
    """What became of a message, per recipient: where it is, each attempt, why it ended, and what happens next.

    MESSAGE-ID is hex or msg1… text; its beginning will do, from 4 digits on. The node need not run.
    """
    home = invocation().home
    prefix = parse_prefix(message)
    answer = _answer(home, str(prefix) if prefix.bits % 4 == 0 else message.strip(), follow)
    if "error" in answer:
        raise Failure(Exit.FAILED, str(answer["error"]))
    if as_json:
        say_json(answer)
    else:
        _tell(answer, Names.of(home))


def _answer(home: Home, text: str, follow: bool) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = ask(home, "why", f"{text} follow" if follow else text, timeout_s=TIMEOUT_S)
    except NodeUnavailable:
        if follow:
            note("the node does not run, so nobody else is asked")
        return why_stopped(home, parse_prefix(text))
    return answer


# -- for people ---------------------------------------------------------------------------------------------------


def _tell(answer: dict[str, Any], names: Names) -> None:
    rows: list[tuple[str, object]] = [("message", answer["text"]), ("", answer["message"])]
    if answer["accepted_at"]:
        rows += _accepted(answer, names)
    if answer["turned_away_times"]:
        rows += _turned(answer, names)
    if not answer["complete"]:
        rows.append(("incomplete", "not all of the log was read; ask again"))
    facts(rows)
    for one in answer["recipients"][:RECIPIENTS_SHOWN]:
        say()
        _tell_recipient(one, names)
    left = len(answer["recipients"][RECIPIENTS_SHOWN:]) + answer["recipients_omitted"]
    if left:
        said = ", ".join(f"{count} {state}" for state, count in answer["states"].items())
        say(f"\nand {left} recipients more; in all {said}")


def _accepted(answer: dict[str, Any], names: Names) -> list[tuple[str, object]]:
    group = answer.get("group")
    to = (
        ("group", _named(names.of_group(group), group_text(group)))
        if group
        else ("to", _who(answer["destination"], names))
    )
    rows: list[tuple[str, object]] = [to]
    if not group:
        rows.append(("source", _who(answer["source"], names)))
    rows.append(("accepted", f"{answer['accepted_at']}, brought by {_who(answer['brought_by'], names)}"))
    if answer["accepted_times"] > 1:
        rows.append(("", f"for the {answer['accepted_times']}. time: an id may come again after its expiry"))
    rows.append(("kept until", answer["expires_at"]))
    if not answer["recipients"]:
        rows.append(("owed to", "nobody"))
    return rows


def _turned(answer: dict[str, Any], names: Names) -> list[tuple[str, object]]:
    last = answer["turned_away"][-1]
    times = "once" if answer["turned_away_times"] == 1 else f"{answer['turned_away_times']} times"
    said = f"{times}, last {last['time']}: {last['reason']}, from {_who(last['from'], names)}"
    return [("turned away", said)]


def _tell_recipient(one: dict[str, Any], names: Names) -> None:
    reason = f" ({one['reason']})" if one["reason"] else ""
    attempts = f", {one['attempts']} attempts" if one["attempts"] != 1 else ", 1 attempt"
    say(click.style(f"{_who(one['recipient'], names)}", bold=True))
    say(f"  {one['state']}{reason}{attempts}")
    for hop in one["hops"]:
        say(f"  {_hop(hop, one['recipient'], names)}")
    say(f"  next: {clean(one['next'], 1000)}")


def _hop(hop: dict[str, Any], recipient: str, names: Names) -> str:
    count = f" x {hop['count']}" if hop.get("count", 1) != 1 else ""
    reason = f" ({hop['reason']})" if hop.get("reason") else ""
    where = ""
    if hop["router"] == recipient:
        where = f"  at {_who(recipient, names)}"
    elif hop["router"] is None:
        where = "  further on"
    return clean(f"{hop['time'] or 'now':<27}  {hop['event']}{count}{reason}{where}", 400)


def _who(key: str | None, names: Names) -> str:
    return "an unknown neighbour" if key is None else _named(names.of_address(key), address_text(key))


def _named(name: str, text: str) -> str:
    return f"{name} ({text[:16]}…)" if name else text
