"""`router why`: the fate of a message for each recipient at each router, and what happens next."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

import click

from router.cli.ask import ask
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import address_text, emphasised, facts, group_text, note, say, say_json
from router.cli.publish_report import advice
from router.cli.services import keeps_for_others, know_reasons
from router.client.errors import ClientError, NodeUnavailable
from router.core.why.fate import HOPS_MAX, sentence, short_key
from router.core.why.id_prefix import parse_prefix
from router.core.wire.reasons import Reason
from router.core.wire.text import clean
from router.disk import life_file
from router.settings.home import Home
from router.settings.names import Names
from router.why.offline import why as why_stopped
from router.why.restored import with_restore
from router.why.sealed import OPEN, SEALED

TIMEOUT_S = 30.0
RECIPIENTS_SHOWN = 50
SHORT = 16
INVITE = "invite"
_WHOLE = re.compile("[0-9a-fA-F]{64}")
NOT_KEPT = Reason.NOT_KEPT.word


@click.command(cls=Command)
@click.argument("message", metavar="ID")
@click.option(
    "--follow", is_flag=True, help="Ask the routers that took custody as well, if they grant this node `why`."
)
@json_option
def why(message: str, follow: bool, as_json: bool) -> None:
    """Explain what became of a message, or of an invitation.

    Shows for each recipient where the message is, each attempt, why it ended, and what happens next; of an invitation,
    whom it let in and whom it refused. ID is hex or msg1… text; its first 4 digits or more are enough. A whole id of a
    service's message may be given in either order of its bytes. The node need not run.
    """
    home = invocation().home
    parse_prefix(message)
    restored = life_file.read(home.path)
    try:
        answer = with_restore(_answer(home, message.strip(), follow), restored)
    except Failure as error:  # the running node's
        raise Failure(error.code, str(with_restore({"error": str(error)}, restored)["error"])) from None
    if "error" in answer:
        raise Failure(Exit.FAILED, str(answer["error"]))
    if held := _held_by_services(home, answer):
        answer = {**answer, "services": held}
    if as_json:
        say_json(answer)
    else:
        _tell(_readable(answer, know_reasons(home)), Names.of(home), is_kept_for_others=keeps_for_others(home))


def _answer(home: Home, text: str, follow: bool) -> dict[str, Any]:
    """Return the answer about a message; for a whole id that is not known, ask about its bytes in reverse order."""
    reverse = _reversed(text)
    try:
        answer = _asked(home, text, follow)
        if "error" not in answer or not reverse:
            return answer
    except Failure:
        if not reverse:
            raise
        with suppress(Failure):
            return _asked(home, reverse, follow)
        raise
    other = _asked(home, reverse, follow)
    return answer if "error" in other else other


def _reversed(text: str) -> str:
    return bytes.fromhex(text)[::-1].hex() if _WHOLE.fullmatch(text) else ""


def _held_by_services(home: Home, answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the message's present state at each service of this node that noted something about it and answers."""
    names = dict.fromkeys(one["fields"].get("service") for one in answer.get("noted", ()))
    found: dict[str, dict[str, Any]] = {}
    names.pop("router", None)
    for name in names:
        with suppress(Failure, ClientError):
            found[name] = ask(home, "service", f"{name} why {answer['message']}", timeout_s=TIMEOUT_S)
    return found


def _asked(home: Home, text: str, follow: bool) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = ask(home, "why", f"{text} follow" if follow else text, timeout_s=TIMEOUT_S)
    except NodeUnavailable:
        if follow:
            note("the node does not run, so nobody else is asked")
        know_reasons(home)
        return why_stopped(home, text)
    return answer


# -- for people ---------------------------------------------------------------------------------------------------


def _readable(answer: dict[str, Any], shown: Mapping[str, Mapping[str, Callable[[Any], str]]]) -> dict[str, Any]:
    """Return the answer with the fields of services' events, and of their answers, as people read them, without empty
    ones."""
    noted = [
        {
            **one,
            "fields": {
                name: _shown(value, shown.get(one["fields"].get("service"), {}).get(name))
                for name, value in _of_handover(one["fields"]).items()
                if value != ""
            },
        }
        for one in answer.get("noted", ())
    ]
    services = {
        name: {key: _shown(value, shown.get(name, {}).get(key)) for key, value in held.items() if value is not None}
        for name, held in answer.get("services", {}).items()
    }
    return {**answer, "noted": noted, "services": services}


def _of_handover(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an event; if it says that a message is owed, one field names the recipients, or nobody."""
    if fields.get("handover") != "owed":
        return fields
    rest = {name: value for name, value in fields.items() if name not in ("handover", "recipients")}
    return {**rest, "owed to": str(fields.get("recipients") or "nobody").replace(",", " and ")}


def _shown(value: Any, show: Callable[[Any], str] | None) -> Any:
    try:
        return value if show is None else str(show(value))
    except Exception:  # the function is the service's, and the value may be of an earlier version of it
        return value


def _tell(answer: dict[str, Any], names: Names, *, is_kept_for_others: bool = False) -> None:
    if any(one["event"] == INVITE for one in answer.get("noted", ())):
        _tell_invitation(answer, names)
        return
    rows: list[tuple[str, object]] = [("message", answer["text"]), ("", answer["message"])]
    if answer["accepted_at"]:
        rows += _accepted(answer, names)
    if answer["turned_away_times"]:
        rows += _turned(answer, names, is_kept_for_others)
    rows += [("noted", _noted(one, names)) for one in answer.get("noted", ())]
    for name, held in answer.get("services", {}).items():
        rows.append((f"at {name}", clean(", ".join(f"{key} {value}" for key, value in held.items()), 400)))
    for one in answer.get("not_owed", ())[:RECIPIENTS_SHOWN]:
        rows.append(("not owed to", f"{_who(one['neighbour'], names)}, a LAN neighbour: {one['why']}"))
    if answer.get("store_problem"):
        rows.append(("store", answer["store_problem"]))
    if answer.get("incomplete"):
        rows.append(("incomplete", answer["incomplete"]))
    if answer.get("restored"):
        rows.append(("this node", f"was {answer['restored']}"))
    facts(rows)
    for one in answer["recipients"][:RECIPIENTS_SHOWN]:
        say()
        _tell_recipient(one, answer["router"], names)
    left = len(answer["recipients"][RECIPIENTS_SHOWN:]) + answer["recipients_omitted"]
    if left:
        say(f"\nand {left} recipients more; in all {_by_state(answer['states'])}")


def _tell_invitation(answer: dict[str, Any], names: Names) -> None:
    rows: list[tuple[str, object]] = [("invitation", answer["message"])]
    for one in answer["noted"]:
        fields = dict(one["fields"])
        peer, change = fields.pop("peer", None) or fields.pop("inviter", None), fields.pop("change", "answered")
        fields.pop("invitation", None)
        if until_s := fields.pop("until_s", None):
            fields["until"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until_s))
        if because := fields.pop("because", None):
            fields["because"] = sentence(because)
        said = "; ".join([change, *(f"{name} {value}" for name, value in fields.items())])
        rows.append((one["time"], clean(f"{said}, {_who(peer, names)}" if peer else said, 400)))
    if answer.get("incomplete"):
        rows.append(("incomplete", answer["incomplete"]))
    facts(rows)


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
    if answer.get("sealed") is not None:
        rows.append(("body", SEALED if answer["sealed"] else OPEN))
    at = answer["accepted_at"]
    if answer["acceptance"] == "store":
        at = at.replace(".000 UTC", " UTC (the store knows it to the second)")
    rows.append(("accepted", f"{at}, brought by {_who(answer['brought_by'], names)}"))
    if not names.of_address(answer["brought_by"] or ""):
        rows.append(("", "a key without a name here: commands and apps without --as have one for one run"))
    if answer["accepted_times"] > 1:
        rows.append(("", f"for the {answer['accepted_times']}. time: an id may come again after its expiry"))
    if any("until" in one for one in answer["recipients"]):
        rows.append(("kept until", answer["expires_at"]))
    if not answer["recipients"]:
        rows.append(("owed to", "nobody"))
    if answer.get("copies"):
        rows.append(("sent on", f"copies to other routers: {_by_state(answer['copies'])}"))
    return rows


def _by_state(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _turned(answer: dict[str, Any], names: Names, is_kept_for_others: bool) -> list[tuple[str, object]]:
    last = answer["turned_away"][-1]
    times = "once" if answer["turned_away_times"] == 1 else f"{answer['turned_away_times']} times"
    said = f"{times}, last {last['time']}: {last['reason']}, from {_who(last['from'], names)}"
    rows: list[tuple[str, object]] = [("turned away", said)]
    if not answer["accepted_at"]:
        rows.append(("", f"{sentence(last['reason'])}; it is not kept here, and its sender was told so"))
        if said := advice(last["reason"], is_kept_for_others=is_kept_for_others):
            rows.append(("", said))
    return rows


def _noted(one: dict[str, Any], names: Names) -> str:
    """Return the events that services of this node recorded about the message."""
    reason = f" ({sentence(one['reason'])})" if one["reason"] else ""
    fields = ", ".join(f"{name} {_value(name, value, names)}" for name, value in one["fields"].items())
    return clean(f"{one['time']}: {one['event']}{reason}, by {_who(one['by'], names)}{fields and f'; {fields}'}", 1000)


def _value(name: str, value: object, names: Names) -> object:
    """Return a field's value for people: a router by its name, if it is known here."""
    if name == "router" and isinstance(value, str) and _WHOLE.fullmatch(value):
        return _who(value, names)
    return value


def _tell_recipient(one: dict[str, Any], here: str, names: Names) -> None:
    """Print a recipient's fate; `here`: the answering router. Hops are grouped by router, each with its own clock."""
    reason = f" ({one['reason']})" if one["reason"] else ""
    attempts = f", {_attempts(one['attempts'], one['attempts_complete'])}"
    copy = ", a copy that was sent on" if one.get("copy") else ""
    say(emphasised(_who(one["recipient"], names)) + copy)
    if one["reason"] == NOT_KEPT:
        say(f"  not owed: it was away and has no right `store` here, so nothing is kept for it{_remedy(one, names)}")
        return
    say(f"  {one['state']}{reason}{attempts}")
    if omitted := one.get("hops_omitted"):
        half = HOPS_MAX // 2
        say(f"  of the events here the first {half} and the last {half}; {omitted} between them are left out:")
    blocks = [(router, list(hops)) for router, hops in groupby(one["hops"], key=lambda hop: hop["router"])]
    is_alone = all(router == here for router, _ in blocks)
    for router, hops in blocks:
        if not is_alone:
            say(f"  {_place(router, here, any(hop['time'] for hop in hops), names)}")
        for hop in hops:
            say(f"  {'' if is_alone else '  '}{_hop(hop)}")
    say(f"  next: {_next(one, names)}")


def _remedy(one: dict[str, Any], names: Names) -> str:
    name = names.of_address(one["recipient"]) or address_text(one["recipient"])
    return f"; `router peer add {name} --grant join,store` changes that"


def _attempts(count: int, is_all: bool) -> str:
    if not is_all and not count:
        return "no attempt known"
    return f"{'' if is_all else 'at least '}{count} attempt{'' if count == 1 else 's'}"


def _place(router: str | None, here: str, is_timed: bool, names: Names) -> str:
    if router is None:
        return "at routers behind it, each by its own clock:" if is_timed else "at routers behind it:"
    where = "here" if router == here else f"at {_who(router, names)}"
    clock = "this router's" if router == here else "its own"
    return f"{where}, by {clock} clock:" if is_timed else f"{where}:"


def _hop(hop: dict[str, Any]) -> str:
    """Return a hop as one line; the time is that of the last of several recipients."""
    count = f", {hop['count']} recipients, the last one then" if hop.get("count", 1) != 1 else ""
    if not hop["time"]:
        count = count.removesuffix(", the last one then")
    reason = f" ({hop['reason']})" if hop.get("reason") else ""
    return clean(f"{hop['time'] or 'now':<27}  {hop['event']}{reason}{count}", 400)


def _next(one: dict[str, Any], names: Names) -> str:
    """Return what happens next, with the recipient's name or text in place of the node's short hex key."""
    key = one["recipient"]
    said = names.of_address(key) or f"{address_text(key)[:SHORT]}…"
    return clean(one["next"].replace(short_key(key), said), 1000)


def _who(key: str | None, names: Names) -> str:
    return "an unknown neighbour" if key is None else _named(names.of_address(key), address_text(key))


def _named(name: str, text: str) -> str:
    return f"{name} ({text[:SHORT]}…)" if name else text
