"""A running node's answers to its operator's commands, such as status, peers, queues and groups, and the orders it
takes."""

from __future__ import annotations

import base64
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from router.core.log.events import Counts
from router.core.log.line import Line, encode_line, gap, rows
from router.core.neighbours.directory import PUBSUB, UNKNOWN, Neighbour, Standing
from router.core.router import Router
from router.core.wire.admin import HELD, REPORT, WHENCE, Inquiry
from router.core.wire.codec import Malformed
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import SECOND_NS, apart_words
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.node.link_events import Measured
from router.node.open_links import OpenLinks
from router.node.orders import ClearQueue, ClockConfirmed
from router.node.wall_clock import State, WallClock
from router.why.questions import Records as AskedRecords

log = logging.getLogger(__name__)

ANSWER_BYTES_MAX = 900_000
ROWS_MAX = 4_000
LOG_BYTES_MAX = 700_000
LOG_VALUES = 64
PAGE_MAX = 4_096
"""Messages in a page of held ones, before the last parcel: some 25 ms of the loop, and one turn of it for each page."""
CONFIRM = "confirm"


class Held(Struct, forbid_unknown_fields=True):
    """A question for messages of a group: those after arrival number `after` that arrived at `since_s` or later."""

    group: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    after: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    since_s: Annotated[int, Meta(ge=0, le=1 << 40)] = 0


class AskedStore(Protocol):
    """The part of a store that is needed for answers (`router.disk.store.store.Store`)."""

    @property
    def next_seq(self) -> int: ...
    @property
    def records(self) -> AskedRecords: ...
    def oldest_s(self, recipient: bytes, wall_s: int) -> int: ...
    def log_values(self, after_seq: int, most: int, *, within: bool = False) -> list[tuple[int, bytes]]: ...


class Asked(Protocol):
    """The part of the message router's cycle that is needed for answers."""

    router: Router

    @property
    def store(self) -> AskedStore: ...

    counts: Counts
    commits: int
    open_links: OpenLinks
    wall: WallClock

    def now(self) -> Now: ...
    def hear(self, heard: ClearQueue | ClockConfirmed) -> object: ...


class Inquiries:
    """Answers inquiries. `facts` returns the node's own part of the status; `reload` reads the neighbours again."""

    def __init__(
        self,
        facts: Callable[[], dict[str, Any]],
        reload: Callable[[], str],
        problems: Callable[[], dict[bytes, str]],
        sealed_seq: Callable[[], int],
    ) -> None:
        self._facts = facts
        self._sealed_seq = sealed_seq
        self._reload = reload
        self._problems = problems
        self.residents: Callable[[frozenset[bytes]], list[dict[str, Any]]] = lambda connected: []
        """Returns one row for each of this node's services; `connected`: the keys of all open links."""
        self.invited: Callable[[Router], list[dict[str, Any]]] = lambda router: []
        """Returns one row for each invitation that this node was given."""
        self.hurry: Callable[[Iterable[bytes]], None] = lambda keys: None
        """Has these neighbours dialled soon, because a command waits for their answer."""
        self.on_report: Callable[[str, str, str], bool] = lambda name, kind, text: False
        """Handles the report of a service in a process of its own; returns whether it knows that service."""

    def answer(self, asked: Asked, inquiry: Inquiry) -> bytes:
        """Return the answer as JSON; `{"error": sentence}` to an unknown inquiry or one that fails."""
        words: dict[str, Callable[[Asked, str], Any]] = {
            "status": self._status,
            "peers": self._peers,
            "queue": self._queue,
            "groups": self._groups,
            "drop": self._drop,
            "reload": self._reloaded,
            "log": self._log,
            "clock": self._clock,
            "invited": self._invited,
            REPORT: self._report,
            WHENCE: self._whence,
            HELD: self._held,
        }
        act = words.get(inquiry.ask)
        if act is None:
            answer: Any = {"error": f"this node does not know the inquiry {inquiry.ask!r}"}
        else:
            answer = act(asked, inquiry.argument)
        text = json.dumps(answer).encode()
        if len(text) > ANSWER_BYTES_MAX:
            text = json.dumps({"error": f"the answer has {len(text)} bytes, more than fits a message"}).encode()
        return text

    def _invited(self, asked: Asked, _: str) -> list[dict[str, Any]]:
        """Return the invitations. A command that waits for an answer repeats this question, so the inviters are dialled
        soon."""
        rows = self.invited(asked.router)
        self.hurry(bytes.fromhex(one["inviter"]) for one in rows if one["outcome"] == "waiting")
        return rows

    def _report(self, asked: Asked, argument: str) -> dict[str, Any]:
        name, kind, text = (*argument.split(" ", 2), "", "")[:3]
        return {"reported": self.on_report(name, kind, text)}

    def _status(self, asked: Asked, _: str) -> dict[str, Any]:
        node, counted = asked.router.queues.node, asked.counts.plus(asked.router.door.waiting(asked.now()))
        counts = counted.events()
        names = ("accepted", "delivered", "acked", "refused", "dropped", "expired", "duplicate", "forwarded")
        return {
            **self._facts(),
            "services": self.residents(frozenset(link.key for link in asked.router.links)),
            "invited": self.invited(asked.router),
            "peers": len(asked.open_links.writers),
            "queue": {"messages": node.messages, "bytes": node.bytes},
            "groups": len({one.group for one in asked.router.groups}),
            "counters": {name: counts.get(name, 0) for name in names} | {"commits": asked.commits},
            "reasons": dict(Counter(counted.reasons()) + asked.router.guests.turned_away),
            "log_seq": asked.store.next_seq - 1,
            "guests": asked.router.guests.facts(),
            "clock": self._clock(asked, ""),
        }

    def _clock(self, asked: Asked, argument: str) -> dict[str, Any]:
        """Return the judgement of this machine's clock; with `confirm`, record the operator's word that it is right."""
        if argument not in ("", CONFIRM):
            return {"error": f"the clock takes no request but {CONFIRM!r}, not {argument[:40]!r}"}
        if argument == CONFIRM:
            asked.hear(ClockConfirmed())
        now, state = asked.now(), State.CONFIRMED if argument else asked.wall.state
        return {
            "state": state.value,
            "shown_ns": now.shown_ns,
            "ahead_s": 0.0 if argument else now.ahead_ns / SECOND_NS,
            "problem": "" if argument else asked.wall.problem(now),
        }

    def _peers(self, asked: Asked, _: str) -> list[dict[str, Any]]:
        directory, found = asked.router.directory, {}
        invited = {one["inviter"]: one["problem"] for one in self.invited(asked.router) if one["problem"]}
        for number, link_writer in list(asked.open_links.writers.items())[:ROWS_MAX]:
            link = asked.router.links.get(number)
            if link is None:
                continue
            measured, formerly = asked.open_links.measured.get(number), ("", "")
            if link.standing in UNKNOWN:
                formerly = asked.router.guests.formerly(link.key)
            found[link.key] = {
                "address": link.key.hex(),
                "name": directory.name_of(link.key) or formerly[0],
                "state": "connected",
                "standing": link.standing.value,
                "where": link_writer.where,
                "in_flight": link.outgoing.in_flight,
                "rtt_ms": measured and measured.rtt_ns / 1e6,
                "offset_ms": measured and measured.offset_ns / 1e6,
                "uplink": link.uplink,
                "grants": sorted(directory.grants(link.key)),
                **_entry(directory.neighbours.get(link.key)),
                "last_contact_s": 0.0,
                "shared": self._shared(asked, link.key, link.uplink),
                "problem": (
                    formerly[1]
                    or invited.get(link.key.hex())
                    or link_writer.problem
                    or self._unjoined(asked, link.key, link.uplink)
                    or self._apart(asked, measured)
                ),
            }
        problems = self._problems()
        for key, known in directory.neighbours.items():
            if key not in found:
                found[key] = {
                    "address": key.hex(),
                    "name": known.name,
                    "state": "blocked" if known.blocked else "away",
                    "standing": (directory.standing(key, False) or Standing.PEER).value,
                    "where": ", ".join(known.urls),
                    "in_flight": 0,
                    "rtt_ms": None,
                    "offset_ms": None,
                    "uplink": known.uplink,
                    "grants": sorted(known.grants),
                    **_entry(known),
                    "last_contact_s": asked.open_links.away_s(key, asked.now()),
                    "shared": self._shared(asked, key, known.uplink),
                    "problem": "; ".join(
                        filter(
                            None,
                            (
                                self._not_kept(asked, key),
                                invited.get(key.hex()) or problems.get(key),
                            ),
                        )
                    )
                    or None,
                }
        return list(found.values())

    def _shared(self, asked: Asked, key: bytes, is_uplink: bool) -> int:
        """Return how many groups a neighbour has in common with this node: those joined here or there, or agreed on."""
        router = asked.router
        here = router.groups.joined_by(key) | router.directory.agreements.shared(key).groups
        return max(len(here), router.joined_at(key)[0] if is_uplink else 0)

    def _unjoined(self, asked: Asked, key: bytes, is_uplink: bool) -> str | None:
        """Describe the groups that this uplink has not let us join; None if there are none."""
        joined, wanted = asked.router.joined_at(key) if is_uplink else (0, 0)
        if joined == wanted:
            return None
        return f"it has let us join {joined} of {wanted} groups; its operator grants `join`"

    def _not_kept(self, asked: Asked, key: bytes) -> str:
        """Return a sentence if nothing is kept for a subscriber while it is away, "" otherwise."""
        router = asked.router
        directory, joined = router.directory, router.groups.joined_by(key)
        if directory.is_blocked(key) or directory.may_store(key) or joined <= directory.lan_groups(key):
            return ""
        count = router.missed_by(key, Reason.NOT_KEPT)
        return f"nothing is kept for it while it is away ({count} missed): it has no right `store`"

    def _apart(self, asked: Asked, measured: Measured | None) -> str | None:
        """Describe the difference between a neighbour's clock and ours; None if it is small or not measured."""
        if measured is None or abs(measured.offset_ns) <= asked.wall.near_ns:
            return None
        return f"its clock is {apart_words(measured.offset_ns)} ours"

    def _whence(self, asked: Asked, router: str) -> dict[str, Any]:
        """Return the IP address of the other end of a router's open link; "" if there is none."""
        link = asked.router.links.to(bytes.fromhex(router)) if len(router) == 64 else None
        writer = None if link is None or link.app else asked.open_links.writers.get(link.id)
        return {"ip": writer.ip if writer is not None else ""}

    def _held(self, asked: Asked, argument: str) -> dict[str, Any]:
        """Return a page of the messages of a group that the store holds; see `Held`. `goes_on`: history is kept now."""
        try:
            said = msgspec.json.decode(argument, type=Held)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            return {"error": f"{HELD}: {str(error)[:200]}"}
        page = asked.store.records.held(bytes.fromhex(said.group), said.after, PAGE_MAX, said.since_s)
        return {
            "keys": base64.b64encode(page.keys).decode(),
            "upto": page.upto,
            "more": page.more,
            "gone": page.gone,
            "times": page.times,
            "goes_on": asked.router.directory.service_called(PUBSUB) is not None,
        }

    def _queue(self, asked: Asked, _: str) -> list[dict[str, Any]]:
        now_s = asked.now().wall_s
        waiting = [one for one in asked.router.queues.by_recipient.values() if one.total.messages]
        waiting.sort(key=lambda one: -one.total.messages)
        return [
            {
                "recipient": one.recipient.hex(),
                "name": asked.router.directory.name_of(one.recipient),
                "messages": one.total.messages,
                "bytes": one.total.bytes,
                "oldest_s": asked.store.oldest_s(one.recipient, now_s),
                "limit_messages": one.total.messages_max,
                "limit_bytes": one.total.bytes_max,
            }
            for one in waiting[:ROWS_MAX]
        ]

    def _log(self, asked: Asked, after: str) -> dict[str, Any]:
        """Return a part of the events that no segment holds yet, as lines, after the sequence number `after`.

        `next_seq`: the number after the last returned line; `sealed_seq`: the last number that segments hold. Events
        sealed between two questions are in a segment by then, and are not returned here. An unreadable value is a gap,
        as it will be in the segment.
        """
        if not after.isdecimal():
            return {"error": f"{after!r} is not a sequence number"}
        sealed = self._sealed_seq()
        me = bytes(asked.router.directory.me)
        at = done = max(int(after), sealed)
        size, told = 0, list[str]()
        while values := asked.store.log_values(at, LOG_VALUES, within=True):
            began = at
            for row in _following(done, (value for _, value in values), me):
                line = encode_line(row).decode()
                size += len(json.dumps(line))
                if size > LOG_BYTES_MAX and told:
                    return {"lines": told, "next_seq": done + 1, "sealed_seq": sealed, "more": True}
                told.append(line)
                done = row.seq + row.n - 1
            at = max(done, values[-1][0])
            if at == began:
                break
        return {"lines": told, "next_seq": done + 1, "sealed_seq": sealed, "more": False}

    def _groups(self, asked: Asked, _: str) -> list[dict[str, Any]]:
        rows = [(one.group.hex(), one.subscriber.hex(), one.local) for one in asked.router.groups]
        return [{"group": group, "subscriber": key, "local": local} for group, key, local in rows[:ROWS_MAX]]

    def _drop(self, asked: Asked, recipient: str) -> dict[str, Any]:
        try:
            key = PublicKey(bytes.fromhex(recipient))
        except ValueError as error:
            return {"error": f"{recipient!r} is not a key in hex: {error}"}
        queue = asked.router.queues.by_recipient.get(bytes(key))
        messages = queue.total.messages if queue else 0
        asked.hear(ClearQueue(bytes(key)))
        return {"dropped": messages}

    def _reloaded(self, _asked: Asked, _: str) -> dict[str, Any]:
        problem = self._reload()
        return {"error": problem} if problem else {"reloaded": True}


def _following(seq: int, values: Iterable[bytes], router: bytes) -> Iterator[Line]:
    """Yield all lines after that sequence number, with a gap for values that cannot be decoded."""
    for value in values:
        try:
            found = rows(value, router)
        except Malformed:  # The logbook has logged it.
            continue
        for row in found:
            end = row.seq + row.n - 1
            if end > seq:
                if row.seq > seq + 1:
                    yield gap(seq + 1, row)
                yield row
                seq = end


def _entry(known: Neighbour | None) -> dict[str, Any]:
    """Return the origin of a neighbour, the Unix second until which it is one (0: without an end), and its URLs."""
    if known is None:
        return {"learned": None, "until_s": 0, "urls": []}
    return {"learned": known.learned, "until_s": known.until_s, "urls": list(known.urls)}
