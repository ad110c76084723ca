"""The pool's answer to each request, and the deeds that go with it: messages, queries, standing queries, rescinding."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import compress
from typing import Any, TypeVar

from msgspec.structs import replace

from router.core.wire.codec import Malformed
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons

from . import messages as m
from . import notes
from .columns import Row
from .holdings import Holdings
from .limits import Standing
from .lookups import Lookups
from .message import CapdMessage, read_with_id
from .nexa.limits import UNIT_BYTES
from .notes import note_id
from .pool import Known, Rejected, Taken
from .priority import aged
from .searches import Searches
from .turned_away import TurnedAway
from .view import number
from .watches import WATCHES_OF_ONE_MAX, StandingQuery

T = TypeVar("T")
_Deciding = Generator[c.Deed, None, T]  # yields the deeds that come before an answer, and returns the answer
ANSWER_TTL_S = 60
"""Lifetime of an answer that waits for its asker."""
WAITING = "waiting"
"""The state, for an operator, of a message that is to be passed on and that nobody outside is known to have."""
READ_IDS_MAX, READ_BYTES = 1_000, 36 << 10
"""Most ids, and bytes of messages, on a page that `read` returns: as base64 it fits a service's answer."""


class PoolAnswers:
    """Answers the requests to a pool."""

    def __init__(self, holdings: Holdings, turned_away: TurnedAway) -> None:
        self._holdings = holdings
        self.lookups = Lookups(holdings.watches)
        self._turned_away = turned_away
        self._searches = Searches()
        self._accepted: dict[str, list[Row]] = {}

    def answer(self, request: m.Request, asker: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        """Yield the deeds of a request: changes to keep, log events, and the answer to send."""
        now_s, pool = int(now.wall_s), self._holdings.pool
        if isinstance(request, m.Query):
            if not self._searches.may(asker, request, len(pool), now.mono_s):
                yield c.Refuse(reasons.TOO_FAST)
                return
            content = self.lookups.look(request.pattern, now.mono_s) if self._holdings.has_room else None
            if content is None:
                self._searches.put(asker, request)
                yield from self._searched(now_s)
            else:
                self._searches.hold(asker, request, content)
            return
        if isinstance(request, m.PostMany):
            yield from self._post_many(request, asker, now)
            return
        answer: m.Answer
        match request:
            case m.Post(n, wire):
                [one] = yield from self._post((wire,), asker, now)
                answer = m.PostAnswer(n, one.result, one.id, one.text, one.held)
            case m.Get(n, own_id):
                row = pool.get(own_id)
                answer = m.Found(n, 0 if row is None else 1, () if row is None else (self._shown(row, now_s),))
            case m.Watch(n, pattern, life):
                answer = yield from self._watch(n, StandingQuery(asker, pattern), now_s + life)
            case m.Unwatch(n, pattern):
                ended = self._holdings.unwatch(StandingQuery(asker, pattern))
                yield from ended
                answer = m.Done(n, 0 if ended else int(reasons.NO_SUCH_QUERY))
            case m.Rescind() if not self._holdings.has_room:
                yield c.Refuse(Reason.DISK_FULL)
                return
            case m.Rescind(n, secret):
                answer = yield from self._rescind(n, secret, asker)
            case m.Info(n):
                lines = pool.lines(now_s)
                answer = m.PoolInfo(n, pool.bytes, len(pool), lines.relay, lines.local, lines.highest)
        yield c.Send(asker, m.encode_message(answer), ANSWER_TTL_S)

    def accepted(self, now: c.Now) -> Iterator[c.Deed]:
        """Log which messages were posted, those that came together in one event: before their ends, and in the
        transaction that keeps them."""
        posted, self._accepted = self._accepted, {}
        for by, rows in posted.items():
            yield from notes.accepted(rows, by, int(now.wall_s))

    @property
    def is_held_up(self) -> bool:
        """Whether searches wait only because the units of this turn are used up."""
        return self._searches.is_held_up

    def take_turn(self, now: c.Now) -> Iterator[c.Deed]:
        """Start the next turn, and answer the waiting searches that its units allow; first those for which neighbours
        have answered."""
        self._searches.release(self.lookups.is_open)
        self._searches.begin_turn()
        yield from self._searched(int(now.wall_s))

    def _searched(self, now_s: int) -> Iterator[c.Send]:
        for asker, query in self._searches.now(len(self._holdings.pool)):
            yield c.Send(asker, m.encode_message(self._query(query, now_s)), ANSWER_TTL_S)

    def how_it_stands(self, shown: str, now_s: int) -> dict[str, Any]:
        """Return a message's state, priority and end of relaying for an operator, or an error. `shown`: the id as
        people see it."""
        try:
            row = self._holdings.pool.get(bytes.fromhex(shown)[::-1])
        except ValueError:
            return {"error": f"{shown[:80]!r} is no id: give 64 hexadecimal digits"}
        if row is None:
            return {"error": m.NOT_HELD}
        until_s = self._holdings.pool.relay_until(row, now_s)
        standing, reach = self._holdings.pool.standing(row, now_s), self._holdings.outside.of(row.id)
        waits = standing is Standing.RELAYED and self._holdings.is_waiting(row)
        return {
            "state": WAITING if waits else standing.value,
            "priority": number(round(aged(row.initial, row.create_time, now_s), 4)),
            "relay_until": until_s if until_s >= row.create_time else None,
            "announced_to": None if reach is None else len(reach.announced_to),
            "taken_by": None if reach is None else len(reach.taken_by),
        }

    # -- messages ------------------------------------------------------------------------------------------

    def _post_many(self, request: m.PostMany, asker: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        """Judge messages that came together, and answer for each; those that are taken cost nothing, since their own
        work has paid for them."""
        units = [1 + len(wire) // UNIT_BYTES for wire in request.messages]
        if not self._searches.take(asker, sum(units), now.mono_s):
            yield c.Refuse(reasons.TOO_FAST)
            return
        outcomes = yield from self._post(request.messages, asker, now)
        paid = [one.result == 0 and one.held is None for one in outcomes]
        self._searches.refund(asker, sum(compress(units, paid)), now.mono_s)
        yield c.Send(asker, m.encode_message(m.PostManyAnswer(request.n, outcomes)), ANSWER_TTL_S)

    def _post(self, wires: Sequence[bytes], asker: PublicKey, now: c.Now) -> _Deciding[tuple[m.PostOutcome, ...]]:
        """Judge messages one by one, and take those that are not rejected, in one transaction; return an outcome for
        each."""
        outcomes, taken = list[m.PostOutcome](), list[tuple[Taken, CapdMessage]]()
        for wire in wires:
            outcomes.append((yield from self._judged(wire, asker, taken, now)))
        yield from self._taken(taken, asker.hex(), now)
        return tuple(outcomes)

    def _judged(
        self, wire: bytes, asker: PublicKey, taken: list[tuple[Taken, CapdMessage]], now: c.Now
    ) -> _Deciding[m.PostOutcome]:
        """Judge one message; add it to `taken` unless it is rejected or known."""
        try:
            message, own_id = read_with_id(wire)
        except Malformed as error:
            rejected = Rejected(reasons.MALFORMED, str(error))
            yield from self._turned_away.rejected(asker.hex(), b"", rejected, now)
            return m.PostOutcome(int(rejected.reason), b"", rejected.sentence)
        verdict, deeds = self._holdings.add(message, own_id, int(now.wall_s))
        yield from deeds
        match verdict:
            case Rejected(reason):
                yield from self._turned_away.rejected(asker.hex(), own_id, verdict, now)
                return m.PostOutcome(int(reason), own_id, verdict.sentence)
            case Taken():
                taken.append((verdict, message))
            case Known(row):
                return m.PostOutcome(0, own_id, held=self._holdings.pool.standing(row, int(now.wall_s)))
        return m.PostOutcome(0, own_id)

    def _taken(self, taken: Sequence[tuple[Taken, CapdMessage]], by: str, now: c.Now) -> Iterator[c.Deed]:
        for one, _ in taken:
            self._holdings.outside.posted(one.row.id)
            self._accepted.setdefault(by, []).append(one.row)
        if any(one.lost for one, _ in taken):
            yield from self.accepted(now)
            yield from notes.evicted([one for one, _ in taken])
        for one, message in taken:
            yield from self.tell(one.row, message, int(now.wall_s))

    def tell(self, row: Row, message: CapdMessage, now_s: int) -> Iterator[c.Deed]:
        """Send a message to each asker whose standing query it matches, once, even if the message comes again."""
        standing = self._holdings.pool.standing(row, now_s)
        if not standing.is_served or self._holdings.was_told(row.id):
            return
        ends_at = min(message.fades_at, row.expires_at)
        askers = list(self._holdings.watches.askers(message.data))
        if not askers:
            return
        body = m.encode_message(m.Match(standing, message.encoded()))
        for asker in askers:
            yield c.Send(asker, body, max(1, ends_at - now_s))
            yield c.LogEvent("capd_told", note_id(row.id), None, {"to": asker.hex()})
        yield from self._holdings.told(row)

    def _rescind(self, n: int, secret: bytes, asker: PublicKey) -> _Deciding[m.Rescinded | m.Done]:
        if not self._holdings.has_secret(secret):
            return m.Done(n, int(reasons.NO_SUCH_SECRET))
        ended, deeds = self._holdings.rescind(secret)
        yield from deeds
        yield from notes.rescinded(ended, asker.hex(), reasons.RESCINDED)
        return m.Rescinded(n, tuple(row.id for row in ended[: m.PAGE_IDS_MAX]))

    # -- queries -------------------------------------------------------------------------------------------

    def _query(self, query: m.Query, now_s: int, page_bytes: int = m.PAGE_BYTES) -> m.Found | m.FoundIds:
        """Return a page of matches; it is empty if `start` is beyond the last match."""
        most = min(query.limit, m.PAGE_IDS_MAX if query.ids else m.PAGE_MESSAGES_MAX)
        count, chosen = self._holdings.pool.find(query.pattern, now_s, query.start, most)
        if query.ids:
            return m.FoundIds(query.n, count, tuple(row.id for row in chosen))
        shown: list[tuple[Standing, bytes]] = []
        size = 0
        for row in chosen:
            size += row.counted_bytes
            if shown and size > page_bytes:
                break
            shown.append(self._shown(row, now_s))
        return m.Found(query.n, count, tuple(shown))

    def _shown(self, row: Row, now_s: int) -> tuple[Standing, bytes]:
        return self._holdings.pool.standing(row, now_s), self._holdings.message(row).encoded()

    def read(self, request: m.Query | m.Get | m.Info, asker: PublicKey, now: c.Now) -> m.Answer | None:
        """Return the answer to a request that needs no disk, for a command of this node that cannot send the pool a
        message; a page has at most `READ_IDS_MAX` ids or about `READ_BYTES`. Return None if the asker has searched too
        much."""
        if isinstance(request, m.Query):
            if not self._searches.may(asker, request, len(self._holdings.pool), now.mono_s):
                return None
            few = min(request.limit, READ_IDS_MAX) if request.ids else request.limit
            return self._query(replace(request, limit=few), int(now.wall_s), READ_BYTES)
        [sent] = [one for one in self.answer(request, asker, now) if isinstance(one, c.Send)]
        found = m.decode_message(sent.body)
        assert isinstance(found, m.Answer)
        return found

    def _watch(self, n: int, watch: StandingQuery, until_s: int) -> _Deciding[m.Done]:
        if not self._holdings.has_room:
            return m.Done(n, int(Reason.DISK_FULL), Reason.DISK_FULL.sentence)
        if not self._holdings.watches.has_room(watch):
            said = f"at most {WATCHES_OF_ONE_MAX} of one address are kept"
            return m.Done(n, int(reasons.TOO_MANY_QUERIES), said)
        yield from self._holdings.watch(watch, until_s)
        return m.Done(n)
