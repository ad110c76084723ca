"""What a running node answers to its operator's commands: status, peers, queues, groups; and what it does for them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from router.core.log.events import Counts
from router.core.log.line import Line, encode_line, gap, rows
from router.core.routing.directory import OF_CLIENTS
from router.core.routing.effects import Now
from router.core.routing.router import Router
from router.core.wire.admin import Inquiry
from router.core.wire.codec import Malformed
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import SECOND_NS, apart_words
from router.core.wire.reasons import Reason
from router.disk.store.store import Store
from router.node.connection import LinkWriter, Measured
from router.node.wall_clock import State, WallClock

log = logging.getLogger(__name__)

ANSWER_BYTES_MAX = 900_000
ROWS_MAX = 4_000
LOG_BYTES_MAX = 700_000
LOG_VALUES = 64
CONFIRM = "confirm"


class Asked(Protocol):
    """What the message router shows of itself while it answers."""

    router: Router
    store: Store
    counts: Counts
    commits: int
    link_writers: dict[int, LinkWriter]
    measured: dict[int, Measured]
    wall: WallClock

    def confirm_clock(self) -> None: ...
    def now(self) -> Now: ...
    def clear(self, recipient: bytes) -> None: ...


class Inquiries:
    """`facts` are those that do not change while the node runs; `reload` reads the neighbours again."""

    def __init__(
        self, facts: Callable[[], dict[str, Any]], reload: Callable[[], str], problems: Callable[[], dict[bytes, str]],
        sealed_seq: Callable[[], int],
    ) -> None:  # fmt: skip
        self._facts = facts
        self._sealed_seq = sealed_seq
        self._reload = reload
        self._problems = problems
        self._asked: Asked | None = None

    def attach(self, actor: Asked) -> None:
        self._asked = actor

    def answer(self, inquiry: Inquiry) -> bytes:
        """JSON; `{"error": sentence}` for what the node does not know or cannot do."""
        words: dict[str, Callable[[str], Any]] = {
            "status": self._status, "peers": self._peers, "queue": self._queue, "groups": self._groups,
            "drop": self._drop, "reload": self._reloaded, "log": self._log, "clock": self._clock,
        }  # fmt: skip
        act = words.get(inquiry.ask)
        if act is None:
            answer: Any = {"error": f"this node does not know the inquiry {inquiry.ask!r}"}
        else:
            answer = act(inquiry.argument)
        text = json.dumps(answer).encode()
        if len(text) > ANSWER_BYTES_MAX:
            text = json.dumps({"error": f"the answer has {len(text)} bytes, more than fits a message"}).encode()
        return text

    @property
    def _actor(self) -> Asked:
        assert self._asked is not None
        return self._asked

    def _status(self, _: str) -> dict[str, Any]:
        actor = self._actor
        node, counted = actor.router.queues.node, actor.counts.plus(actor.router.door.waiting(actor.now()))
        counts = counted.events()
        names = ("accepted", "delivered", "acked", "refused", "dropped", "expired", "duplicate", "forwarded")
        return {
            **self._facts(),
            "peers": len(actor.link_writers),
            "queue": {"messages": node.messages, "bytes": node.bytes},
            "groups": len({one.group for one in actor.router.groups}),
            "counters": {name: counts.get(name, 0) for name in names} | {"commits": actor.commits},
            "reasons": counted.reasons(),
            "log_seq": actor.store.next_seq - 1,
            "clock": self._clock(""),
        }

    def _clock(self, argument: str) -> dict[str, Any]:
        """What is thought of this machine's clock; with `confirm`, that the operator has looked and it is right."""
        actor = self._actor
        if argument not in ("", CONFIRM):
            return {"error": f"of the clock nothing but {CONFIRM!r} can be said, not {argument[:40]!r}"}
        if argument == CONFIRM:
            actor.confirm_clock()
        now, state = actor.now(), State.CONFIRMED if argument else actor.wall.state
        return {
            "state": state.value, "shown_ns": now.shown_ns, "ahead_s": 0.0 if argument else now.ahead_ns / SECOND_NS,
            "problem": "" if argument else actor.wall.problem(now),
        }  # fmt: skip

    def _peers(self, _: str) -> list[dict[str, Any]]:
        actor, directory = self._actor, self._actor.router.directory
        found = {}
        for number, link_writer in list(actor.link_writers.items())[:ROWS_MAX]:
            link = actor.router.links.get(number)
            if link is None:
                continue
            measured = actor.measured.get(number)
            found[link.key] = {
                "address": link.key.hex(), "name": directory.name_of(link.key), "state": "connected",
                "standing": link.standing.value, "where": link_writer.where, "in_flight": link.outgoing.in_flight,
                "rtt_ms": measured and measured.rtt_ns / 1e6, "offset_ms": measured and measured.offset_ns / 1e6,
                "uplink": link.uplink, "grants": sorted(directory.grants(link.key)),
                "problem": link_writer.problem or self._unjoined(link.key, link.uplink) or self._apart(measured),
            }  # fmt: skip
        problems = self._problems()
        for key, known in directory.neighbours.items():
            if key not in found:
                found[key] = {
                    "address": key.hex(), "name": known.name, "state": "blocked" if known.blocked else "away",
                    "standing": "client" if known.grants & OF_CLIENTS else "peer",
                    "where": ", ".join(known.urls), "in_flight": 0,
                    "rtt_ms": None, "offset_ms": None, "uplink": known.uplink, "grants": sorted(known.grants),
                    "problem": "; ".join(filter(None, (self._not_kept(key), problems.get(key)))) or None,
                }  # fmt: skip
        return list(found.values())

    def _unjoined(self, key: bytes, is_uplink: bool) -> str | None:
        """That an uplink has not let us join what we want to be in."""
        joined, wanted = self._actor.router.joined_at(key) if is_uplink else (0, 0)
        if joined == wanted:
            return None
        return f"it has let us join {joined} of {wanted} groups; its operator grants `join`"

    def _not_kept(self, key: bytes) -> str:
        """Say that nothing is kept for a subscriber while it is away; "" if something is."""
        router = self._actor.router
        if router.directory.is_blocked(key) or router.directory.may_store(key) or not router.groups.joined_by(key):
            return ""
        count = router.missed_by(key, Reason.NOT_KEPT)
        return f"nothing is kept for it while it is away ({count} missed): it has no right `store`"

    def _apart(self, measured: Measured | None) -> str | None:
        """That a neighbour's clock is not ours."""
        if measured is None or abs(measured.offset_ns) <= self._actor.wall.near_ns:
            return None
        return f"its clock is {apart_words(measured.offset_ns)} ours"

    def _queue(self, _: str) -> list[dict[str, Any]]:
        actor = self._actor
        now_s = actor.now().wall_s
        waiting = [one for one in actor.router.queues.by_recipient.values() if one.total.messages]
        waiting.sort(key=lambda one: -one.total.messages)
        return [
            {
                "recipient": one.recipient.hex(), "name": actor.router.directory.name_of(one.recipient),
                "messages": one.total.messages, "bytes": one.total.bytes,
                "oldest_s": actor.store.oldest_s(one.recipient, now_s),
                "limit_messages": one.total.messages_max, "limit_bytes": one.total.bytes_max,
            }
            for one in waiting[:ROWS_MAX]
        ]  # fmt: skip

    def _log(self, after: str) -> dict[str, Any]:
        """The events that no segment holds yet, as lines, from behind the sequence number `after` on; a part of them.

        `next_seq`: the one behind the last line told; `sealed_seq`: up to there segments hold the log. What is sealed
        between two questions is in a segment by then, and is not told here. What cannot be read is a gap, as it will be
        in the segment.
        """
        if not after.isdecimal():
            return {"error": f"{after!r} is not a sequence number"}
        actor, sealed = self._actor, self._sealed_seq()
        me = bytes(actor.router.directory.me)
        at = done = max(int(after), sealed)
        size, told = 0, list[str]()
        while values := actor.store.log_values(at, LOG_VALUES, within=True):
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

    def _groups(self, _: str) -> list[dict[str, Any]]:
        rows = [(one.group.hex(), one.subscriber.hex(), one.local) for one in self._actor.router.groups]
        return [{"group": group, "subscriber": key, "local": local} for group, key, local in rows[:ROWS_MAX]]

    def _drop(self, recipient: str) -> dict[str, Any]:
        try:
            key = PublicKey(bytes.fromhex(recipient))
        except ValueError as error:
            return {"error": f"{recipient!r} is not a key in hex: {error}"}
        queue = self._actor.router.queues.by_recipient.get(bytes(key))
        messages = queue.total.messages if queue else 0
        self._actor.clear(bytes(key))
        return {"dropped": messages}

    def _reloaded(self, _: str) -> dict[str, Any]:
        problem = self._reload()
        return {"error": problem} if problem else {"reloaded": True}


def _following(seq: int, values: Iterable[bytes], router: bytes) -> Iterator[Line]:
    """The lines behind that sequence number, without one left out: of values that are none of the log's a gap."""
    for value in values:
        try:
            found = rows(value, router)
        except Malformed:  # The logbook has said so.
            continue
        for row in found:
            end = row.seq + row.n - 1
            if end > seq:
                if row.seq > seq + 1:
                    yield gap(seq + 1, row)
                yield row
                seq = end
