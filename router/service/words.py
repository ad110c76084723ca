"""The words of the contract between a service and its router, as values.

request_of(deed)    the word and argument of a deed that is a request to the router
heard(inquiry)      the event for a word of the router
held_ids            the event for an answer
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from router.core.wire import admin
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.verbs.pull_from import MINUTES_MAX


def request_of(deed: c.Deed) -> tuple[str, dict[str, Any]] | None:
    """Return the word and argument of the request to the router for this deed; None for deeds that are no request."""
    match deed:
        case c.Answer(number, value):
            return "answer", {"number": number, "value": value}
        case c.Learn(key, urls, until_s, name, how):
            return "learn", {"key": key.hex(), "urls": urls, "until_s": until_s, "name": name, "how": how}
        case c.Grant(key, rights, until_s, uses):
            return "grant", {"key": key.hex(), "rights": rights, "until_s": until_s, "uses": uses}
        case c.Agree(key, groups, until_s, lan):
            shared = [one.hex() for one in groups]
            return "agree", {"key": key.hex(), "groups": shared, "until_s": until_s, "lan": lan}
        case c.Listen(url):
            return "listen", {"url": url}
        case c.Dial(key):
            return "dial", {"key": key.hex()}
        case c.CaughtUp(group, at_s, missing, of, heard):
            said = {"group": group.hex(), "at_s": at_s, "missing": missing, "of": of}
            return admin.CAUGHT_UP, {**said, "heard": [one.hex() for one in heard]}
        case c.IdsOnly(group, on):
            return admin.IDS_ONLY, {"group": group.hex(), "on": on}
        case c.ListHeld(group, after):
            return admin.HELD, {"group": group.hex(), "after": after}
        case _:
            return None


def pull_of(run: Sequence[c.PullFrom]) -> tuple[str, dict[str, Any]]:
    """Return the word and argument of the request for these messages of one group from one router."""
    known = [one.minutes <= MINUTES_MAX for one in run]
    return "pull", {
        "router": run[0].router.hex(),
        "group": run[0].group.hex(),
        "ids": [one.id.hex() for one in run],
        "expiries": [one.expiry_min * is_known for one, is_known in zip(run, known, strict=True)],
        "minutes": [min(one.minutes, MINUTES_MAX) for one in run],
        "history": [one.is_history for one in run],
    }


def heard(inquiry: admin.Inquiry) -> c.Heard | None:
    """Return the event for a word of the router, None if it is no word for rules."""
    match inquiry.ask:
        case admin.LISTENING:
            return c.Listening(**json.loads(inquiry.argument))
        case admin.LINKED:
            found = json.loads(inquiry.argument)
            return c.Linked(_key(found["router"]), _key(found["service"]) if found["service"] else None)
        case admin.DROPPED:
            found = json.loads(inquiry.argument)
            return c.Dropped(_key(found["router"]), _key(found["group"]), found["count"])
        case admin.SAID_CAUGHT_UP:
            found = json.loads(inquiry.argument)
            return c.SaidCaughtUp(_key(found["group"]), found["at_s"], _key(found["app"]))
        case admin.PUBLISHED:
            found = json.loads(inquiry.argument)
            runs = tuple([(minute, count) for minute, count in found["expiries"]])
            return c.Published(_key(found["group"]), base64.b64decode(found["ids"]), runs, found["left_out"])
        case admin.UNREACHED:
            found = json.loads(inquiry.argument)
            return c.Unreached(_key(found["key"]), found["text"], found["let_in"])
        case admin.ASKED:
            number, _, rest = inquiry.argument.partition(" ")
            word, _, argument = rest.partition(" ")
            return c.Asked(int(number), word, argument) if number.isdecimal() else None
    return None


def held_ids(asked: c.ListHeld, answer: Mapping[str, Any]) -> c.HeldIds:
    """Return the event for an answer to `ListHeld`."""
    if "error" in answer:
        return c.HeldIds(asked.group, error=str(answer["error"]), after=asked.after)
    keys, times = base64.b64decode(answer["keys"]), tuple([(at_s, count) for at_s, count in answer["times"]])
    return c.HeldIds(asked.group, keys, answer["upto"], answer["more"], answer["gone"], times, after=asked.after)


class LinkedRouters:
    """The routers that the rules know to be connected, as long as their own router is."""

    def __init__(self) -> None:
        self._routers: dict[PublicKey, None] = {}

    def __repr__(self) -> str:
        return f"<{len(self._routers)} routers are connected>"

    def note(self, heard: c.Linked) -> None:
        self._routers.pop(heard.router, None)
        if heard.service is not None:
            self._routers[heard.router] = None

    def lost(self) -> list[c.Linked]:
        """Return the events when the own router is gone: no router is connected any more.

        When it is back it names the connected ones, but not the earlier ones, since it may have started again."""
        gone, self._routers = self._routers, {}
        return [c.Linked(one) for one in gone]


def _key(text: str) -> PublicKey:
    return PublicKey(bytes.fromhex(text))
