"""Answers the requests of neighbours in order, as fast as they read; until there is room, requests wait."""

from __future__ import annotations

from collections.abc import Iterator

from router.core.link.allowance import Allowance
from router.service import contract as c
from services.capd import reasons
from services.capd.core import notes
from services.capd.core.columns import Row
from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile
from services.capd.core.message import CapdMessage
from services.capd.core.pattern import Pattern

from .commands import (
    CONTENT_LENGTHS,
    IDS,
    MESSAGES,
    MESSAGES_MAX,
    REPLY_IDS_MAX,
    REPLY_MESSAGES_MAX,
    SUBSCRIBE,
    BadLengthReply,
    GetMsg,
    IdsReply,
    MessagesReply,
    Msg,
    PrefixQuery,
)
from .envelope import last_of
from .limits import QUERY_UNITS, UNIT_MATCHES, UNIT_ROWS, NexaLimits, answer_units
from .neighbour import Neighbour
from .own_commands import HELD_IDS_MAX, GetHeld, HeldIds, MaskedQuery
from .passing_on import PassingOn
from .session import Heard
from .subscriptions import Subscription, Subscriptions

PAGE_BYTES = 1 << 18
"""Bytes of messages in one packet; a longer message goes alone."""
_HIGH = 0xFFFF_0000
NOTES_PER_S, NOTES_BURST = 20.0, 100.0


class Serving:
    """Answers the queries of neighbours, and their requests for messages."""

    def __init__(self, holdings: Holdings, passing_on: PassingOn, profile: Profile, limits: NexaLimits) -> None:
        self._holdings = holdings
        self._passing_on = passing_on
        self._is_compat = profile is Profile.COMPAT
        self._limits = limits
        self._notes = Allowance(NOTES_PER_S, NOTES_BURST)
        self.subscriptions = Subscriptions(limits)

    def __repr__(self) -> str:
        return f"<Serving: {self.subscriptions!r}>"

    def asked(self, neighbour: Neighbour, heard: Heard) -> None:
        """Queue a request; close the connection if too many wait."""
        ids = len(heard.message.ids) if isinstance(heard.message, GetMsg) else 0
        limits = self._limits
        if len(neighbour.requests) >= limits.waiting_requests or neighbour.waiting_ids + ids > limits.waiting_ids:
            said = f"more than {limits.waiting_requests} requests, or {limits.waiting_ids} ids, wait for it to read"
            neighbour.stop(reasons.ASKS_TOO_MUCH, said)
            return
        neighbour.waiting_ids += ids
        neighbour.requests.append(heard)

    def serve(self, neighbour: Neighbour, now: c.Now) -> Iterator[c.Deed]:
        """Answer waiting requests while there is room and units of the turn are left; the others wait for the next turn
        (`is_held_up`)."""
        while neighbour.requests and neighbour.has_room and neighbour.turn_left > 0:
            heard = neighbour.requests.popleft()
            match heard.message:
                case GetMsg():
                    yield from self._send(neighbour, heard.message, heard.cookie, now)
                case PrefixQuery():
                    self._query(neighbour, heard.message, heard.cookie, now)
                case MaskedQuery(_, _, _, _, pattern):
                    neighbour.turn_left -= len(self._holdings.pool) // UNIT_ROWS
                    self._find(neighbour, heard.message, pattern, pattern, heard.cookie, now)
                case GetHeld(after, quantity):
                    neighbour.turn_left -= QUERY_UNITS + len(self._holdings.pool) // UNIT_ROWS
                    self._held(neighbour, after, quantity, heard.cookie, int(now.wall_s))

    @staticmethod
    def is_held_up(neighbour: Neighbour) -> bool:
        """Whether a neighbour's requests wait only because the units of its turn are used up."""
        return bool(neighbour.requests) and neighbour.has_room

    # -- messages by id ------------------------------------------------------------------------------------

    def _send(self, neighbour: Neighbour, asked: GetMsg, cookie: int, now: c.Now) -> Iterator[c.Deed]:
        """Send the messages that are held, may be passed on, and fit one packet; the rest of the request waits."""
        chosen: list[tuple[Row, CapdMessage]] = []
        size = done = 0
        for own_id in asked.ids:
            done += 1
            row = self._holdings.pool.get(own_id)
            if row is not None and self._passing_on.may_go(row, asked.least, int(now.wall_s)):
                chosen.append((row, self._holdings.message(row)))
                size += row.counted_bytes
                if size >= PAGE_BYTES or len(chosen) >= MESSAGES_MAX:
                    break
        neighbour.waiting_ids -= done
        neighbour.turn_left -= answer_units(done, are_ids=True) + answer_units(len(chosen), are_ids=False)
        if done < len(asked.ids):
            neighbour.requests.appendleft(Heard(GetMsg(asked.least, asked.ids[done:]), cookie))
        if not chosen:
            return
        if not cookie & _HIGH:
            neighbour.say(Msg(tuple(message for _, message in chosen)))
        else:
            if self._is_compat:
                neighbour.say(Msg(()))
            for _, message in chosen:
                neighbour.say(Msg((message,)), last_of(cookie))
        neighbour.counts["sent"] += len(chosen)
        self._holdings.has_outside([row.id for row, _ in chosen], neighbour.name)
        if self._notes.take(1, now.mono_s):
            yield from notes.sent([row for row, _ in chosen], neighbour.name)

    def _held(self, neighbour: Neighbour, after: int, quantity: int, cookie: int, now_s: int) -> None:
        found = self._holdings.pool.after(after, min(quantity, HELD_IDS_MAX))
        ids = tuple(row.id for row in found if self._passing_on.may_go(row, neighbour.line, now_s))
        more = found[-1].number if found and self._holdings.pool.after(found[-1].number, 1) else 0
        neighbour.say(HeldIds(more, ids), last_of(cookie))

    # -- queries -------------------------------------------------------------------------------------------

    def _query(self, neighbour: Neighbour, query: PrefixQuery, cookie: int, now: c.Now) -> None:
        if len(query.content) not in CONTENT_LENGTHS:
            neighbour.say(BadLengthReply(query.cookie, len(query.content) & 0xFF), last_of(cookie))
        else:
            self._find(neighbour, query, query.content, Pattern.prefix(query.content), cookie, now)

    def _find(
        self,
        neighbour: Neighbour,
        query: PrefixQuery | MaskedQuery,
        what: bytes | Pattern,
        pattern: Pattern,
        cookie: int,
        now: c.Now,
    ) -> None:
        """Answer a query, and with `SUBSCRIBE` add it to the standing ones. A query of an unknown type gets no answer,
        as from the reference."""
        kind = query.type & ~SUBSCRIBE
        if kind not in (MESSAGES, IDS):
            return
        if query.type & SUBSCRIBE and not self._subscribe(neighbour, what, Subscription(query.cookie, kind == IDS)):
            return
        most = min(query.quantity, REPLY_IDS_MAX if kind == IDS else REPLY_MESSAGES_MAX)
        total, found = self._holdings.pool.find(pattern, int(now.wall_s), query.start, most)
        units = total // UNIT_MATCHES + answer_units(len(found), are_ids=kind == IDS)
        neighbour.turn_left -= QUERY_UNITS + units
        if not neighbour.pay(units, now.mono_s):
            return
        if kind == IDS:
            neighbour.say(IdsReply(query.cookie, total, tuple(row.id for row in found)), last_of(cookie))
        else:
            messages = self._page(found)
            found = found[: len(messages)]
            neighbour.say(MessagesReply(query.cookie, total, tuple(messages)), last_of(cookie))
        neighbour.counts["queries"] += 1
        if query.type & SUBSCRIBE:
            for row in found:
                self._remember(neighbour, query.cookie, row.id)

    def _page(self, found: list[Row]) -> list[CapdMessage]:
        messages: list[CapdMessage] = []
        size = 0
        for row in found:
            size += row.counted_bytes
            if messages and size > PAGE_BYTES:
                break
            messages.append(self._holdings.message(row))
        return messages

    def _subscribe(self, neighbour: Neighbour, what: bytes | Pattern, subscription: Subscription) -> bool:
        if not self.subscriptions.has(neighbour, what):
            cause = self.subscriptions.refusal(neighbour, what)
            if not cause and not neighbour.may_subscribe(1):
                cause = f"more than {self._limits.subscriptions_of_address} standing queries of its address"
            if cause:
                neighbour.stop(reasons.ASKS_TOO_MUCH, cause)
                return False
        self.subscriptions.put(neighbour, what, subscription)
        return True

    def unsubscribe(self, neighbour: Neighbour, cookie: int | None = None) -> None:
        """End a neighbour's standing queries with this cookie; all of them if it is None."""
        neighbour.may_subscribe(-self.subscriptions.remove(neighbour, cookie))

    def tell(self, row: Row, *, again: bool = False) -> None:
        """Send a message that was taken to the neighbours whose standing queries it matches, once for each cookie; with
        `again`, also to those that were sent it before. What a neighbour that does not read was not sent is counted."""
        if not len(self.subscriptions):
            return
        message = self._holdings.message(row)
        for neighbour, one in self.subscriptions.matching(message.data):
            if not neighbour.has_room:
                neighbour.counts["untold"] += 1
                continue
            if not (self._remember(neighbour, one.cookie, row.id) or again):
                continue
            if one.ids:
                neighbour.say(IdsReply(one.cookie, 1, (row.id,)))
            else:
                neighbour.say(MessagesReply(one.cookie, 1, (message,)))
            neighbour.counts["told"] += 1

    def _remember(self, neighbour: Neighbour, cookie: int, own_id: bytes) -> bool:
        """Record that a match was sent to a neighbour; return whether it is new."""
        if (cookie, own_id) in neighbour.told:
            return False
        neighbour.told[cookie, own_id] = None
        if len(neighbour.told) > self._limits.told_max:
            del neighbour.told[next(iter(neighbour.told))]
        return True
