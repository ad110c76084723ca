"""Our own pools at other nodes: each announces what it has taken to the others, and asks them for what it lacks.

They communicate by unicasts (see between_pools.py), so a message to a pool that is away waits at the router for a
while. Once a minute, each pool asks each other one for what it has taken since; after a start, or after the other one
was away, for all that it holds. A message that does not come in time is looked for again, wherever it is held. Messages
are judged like those of any neighbour before anything is kept; since a pool recognises the ids that it holds, no
message circulates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from math import inf
from typing import Any

from router.core.wire.codec import Malformed
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text
from router.service import contract as c
from services.capd import reasons

from . import between_pools as b
from . import notes
from .answers import PoolAnswers
from .columns import Row
from .holdings import Holdings
from .message import CapdMessage, read_message
from .messages import MESSAGE_BYTES_MAX
from .nexa.limits import QUERY_UNITS, SECRET_UNITS, UNIT_BYTES, UNIT_IDS
from .nexa.passing_on import PassingOn
from .peer import CATCH_UP_S, TAG, Peer
from .pool import Known, Rejected, Taken
from .priority import RELAY_PRIORITY, aged
from .turned_away import TurnedAway

WANT_S = 60.0
"""Seconds that a peer has to bring what it was asked for."""
WANTS_MAX = 16
DECLINED_S, DECLINED_MAX = 60.0, 20_000
SECRETS_FIRST, SECRETS_PER_S = 256, 25
"""Secrets that are sent to a peer that catches up: `SECRETS_FIRST` at once, the latest, then `SECRETS_PER_S` until it
has all. At a peer that knows none of their messages they cost us 10,240 units at once, and then half of what it allows
us."""
SECRETS_AGAIN_S = 30.0
"""Seconds for which a peer that catches up again is not sent all secrets anew."""


class Pools:
    """The peers that the settings name."""

    def __init__(
        self,
        peers: Sequence[PublicKey],
        holdings: Holdings,
        answers: PoolAnswers,
        turned_away: TurnedAway,
    ) -> None:
        self._peers = {key: Peer(key) for key in peers}
        self._holdings = holdings
        self._changes = holdings.follow()
        self._answers = answers
        self._turned_away = turned_away
        self._passing_on = PassingOn(holdings.pool)
        self._declined: dict[bytes, float] = {}
        self._brought: dict[bytes, PublicKey] = {}
        self._number = 0

    def __repr__(self) -> str:
        return f"<Pools: {len(self._peers)} peers>"

    # -- messages from peers -------------------------------------------------------------------------------

    def hear(self, said: b.BetweenPools, source: PublicKey, now: c.Now) -> Iterator[c.Deed]:
        """Handle a message from another pool; refuse it if that pool is no peer, or exceeds its allowance."""
        peer = self._peers.get(source)
        if peer is None:
            yield c.Refuse(reasons.NOT_A_PEER)
            return
        if not peer.allowance.take(self._units(said), now.mono_s):
            peer.counts["too_fast"] += 1
            yield c.Refuse(reasons.TOO_FAST)
            return
        was_present, peer.heard_s, peer.problem = peer.is_present(now.mono_s), now.mono_s, ""
        if not was_present:
            peer.cursor, peer.ask_at_s = 0, now.mono_s
            yield from self._catch_up(peer, now)
        match said:
            case b.CatchUp(after):
                yield from self._held(peer, after, int(now.wall_s))
                if not after or not was_present:
                    yield from self._tell_secrets(peer, now)
            case b.Held():
                yield from self._want(peer, said, now)
            case b.Want(n, ids):
                yield from self._bring(peer, n, ids, int(now.wall_s))
            case b.Bring():
                yield from self._take(peer, said, now)
            case b.Secrets(secrets):
                yield from self._rescind(peer, secrets, now)

    def _tell_secrets(self, peer: Peer, now: c.Now) -> Iterator[c.Deed]:
        """Start to send all secrets to a peer that catches up, unless that began a moment ago; if it is under way,
        repeat it afterwards."""
        if peer.secrets:
            peer.asks_secrets_again = True
        elif now.mono_s - peer.secrets_since_s >= SECRETS_AGAIN_S:
            peer.secrets_since_s, peer.asks_secrets_again = now.mono_s, False
            peer.secrets = deque(reversed(self._holdings.recent_secrets()))
            yield from peer.tell_more(SECRETS_FIRST)

    def came_through(self, passed: c.Sent | c.HopOutcome, now: c.Now) -> None:
        """Record the outcome of a question or of secrets that were sent to a peer."""
        key = passed.tag.removeprefix(TAG).partition(" ")[0]
        if (peer := self._peers.get(PublicKey(bytes.fromhex(key)))) is not None:
            peer.came_through(passed, now.mono_s)

    def _units(self, said: b.BetweenPools) -> int:
        """Return the units that it costs to handle a message; the CAPD messages in it are counted before they are
        judged."""
        match said:
            case b.CatchUp():
                return QUERY_UNITS
            case b.Held(ids) | b.Want(_, ids):
                return 1 + len(ids) // UNIT_IDS
            case b.Bring(_, _, messages):
                return sum(_message_units(len(one)) for one in messages)
            case b.Secrets(secrets):
                return sum(1 if self._holdings.knows_secret(one) else SECRET_UNITS for one in secrets)

    def _held(self, peer: Peer, after: int, now_s: int) -> Iterator[c.Deed]:
        """List the ids that are held above the relay line, with numbers above `after`; all of them if `after` was never
        given."""
        pool = self._holdings.pool
        after = after if after <= pool.last else 0
        rows = pool.after(after, b.HELD_IDS_MAX)
        more = len(rows) == b.HELD_IDS_MAX
        ids = tuple(row.id for row in rows if self._passing_on.is_announced(row, now_s))
        yield peer.say(b.Held(ids, rows[-1].number if more else pool.last, more))
        self._holdings.outside.announced(ids, peer.key.hex())

    def _want(self, peer: Peer, held: b.Held, now: c.Now) -> Iterator[c.Deed]:
        """Ask the peer for the listed messages that we lack, except those already asked for or turned away a moment
        ago."""
        self._holdings.has_outside(held.ids, peer.key.hex())
        if len(peer.wants) >= WANTS_MAX:
            return  # a later catch-up lists these again
        asked = {own_id for one in self._peers.values() for ids, _ in one.wants.values() for own_id in ids}
        lacking = tuple(own_id for own_id in dict.fromkeys(held.ids) if self._lacks(own_id, asked, now.mono_s))
        if held.upto is not None:
            peer.cursor, peer.has_more = held.upto, held.more
        if lacking:
            yield self._ask(peer, lacking, now)
        elif held.more:
            yield from self._catch_up(peer, now)

    def _lacks(self, own_id: bytes, asked: set[bytes], now_s: float) -> bool:
        if self._holdings.pool.get(own_id) is not None or own_id in asked:
            return False
        return now_s >= self._declined.get(own_id, -inf)

    def _ask(self, peer: Peer, ids: tuple[bytes, ...], now: c.Now) -> c.Send:
        self._number = (self._number + 1) % (1 << 32)
        peer.wants[self._number] = ids, now.mono_s + WANT_S
        return peer.say(b.Want(self._number, ids))

    def _bring(self, peer: Peer, n: int, ids: Sequence[bytes], now_s: int) -> Iterator[c.Deed]:
        """Send the messages that are held and may be passed on, as many as fit one BRING."""
        chosen: list[tuple[Row, bytes]] = []
        size = done = 0
        for own_id in ids:
            row = self._holdings.pool.get(own_id)
            if row is not None and self._passing_on.may_go(row, RELAY_PRIORITY, now_s):
                wire = self._holdings.message(row).encoded()
                if chosen and (size + len(wire) > b.BRING_BYTES or len(chosen) == b.BRING_MESSAGES_MAX):
                    break
                if len(wire) <= MESSAGE_BYTES_MAX:
                    chosen.append((row, wire))
                    size += len(wire)
            done += 1
        yield peer.say(b.Bring(n, done, tuple(wire for _, wire in chosen)))
        yield from notes.sent([row for row, _ in chosen], peer.key.hex())
        peer.counts["sent"] += len(chosen)
        self._holdings.has_outside([row.id for row, _ in chosen], peer.key.hex())

    # -- CAPD messages that peers bring --------------------------------------------------------------------

    def _take(self, peer: Peer, bring: b.Bring, now: c.Now) -> Iterator[c.Deed]:
        """Judge the messages that a peer has brought, take those that are not rejected, and ask for the rest."""
        taken: list[tuple[Taken, CapdMessage]] = []
        for wire in bring.messages:
            found = yield from self._judged(peer, wire, now)
            if found is not None:
                taken.append(found)
        peer.allowance.charge(-sum(_message_units(len(message.data)) for _, message in taken), now.mono_s)
        peer.counts["taken"] += len(taken)
        yield from notes.evicted([one for one, _ in taken])
        yield from notes.accepted([one.row for one, _ in taken], peer.key.hex(), int(now.wall_s))
        for one, message in taken:
            yield from self._answers.tell(one.row, message, int(now.wall_s))
        ids, _ = peer.wants.pop(bring.n, ((), 0.0))
        if bring.done and (rest := ids[bring.done :]):
            yield self._ask(peer, rest, now)
        elif peer.has_more and not peer.wants:  # else when all has come
            yield from self._catch_up(peer, now)

    def _judged(self, peer: Peer, wire: bytes, now: c.Now) -> Generator[c.Deed, None, tuple[Taken, CapdMessage] | None]:
        """Judge one message of a peer; return the verdict and the message if it was taken, else None."""
        now_s, own_id = int(now.wall_s), b""
        verdict: Taken | Known | Rejected | None
        try:
            message = read_message(wire)
        except Malformed as error:
            verdict = Rejected(reasons.MALFORMED, str(error))
        else:
            own_id = message.own_id()
            verdict = self._below(message, now_s)
            if verdict is None:
                verdict, deeds = self._holdings.add(message, own_id, now_s)
                yield from deeds
        if isinstance(verdict, Rejected):
            peer.counts["turned_away"] += 1
            if own_id and verdict.reason not in (reasons.FUTURE, Reason.DISK_FULL):
                self._decline(own_id, now.mono_s)
            yield from self._turned_away.rejected(peer.key.hex(), own_id, verdict, now)
            return None
        if not isinstance(verdict, Taken):
            return None
        self._brought[own_id] = peer.key
        return verdict, message

    @staticmethod
    def _below(message: CapdMessage, now_s: int) -> Rejected | None:
        """Reject a message below the priority that peers may bring; leave one from the future to the pool."""
        priority = aged(message.initial_priority, message.create_time, now_s)
        if message.create_time > now_s or priority >= RELAY_PRIORITY:
            return None
        return Rejected(reasons.BELOW_LINE, f"{priority:.4g}; peers may bring {RELAY_PRIORITY:g}")

    def _decline(self, own_id: bytes, now_s: float) -> None:
        self._declined.pop(own_id, None)
        self._declined[own_id] = now_s + DECLINED_S
        if len(self._declined) > DECLINED_MAX:
            del self._declined[next(iter(self._declined))]

    def _rescind(self, peer: Peer, secrets: Sequence[bytes], now: c.Now) -> Iterator[c.Deed]:
        for secret in secrets:
            was_known = self._holdings.knows_secret(secret)
            ended, deeds = self._holdings.rescind(secret)
            yield from deeds
            yield from notes.rescinded(ended, peer.key.hex(), reasons.RESCINDED)
            peer.counts["rescinded"] += len(ended)
            if ended and not was_known:
                peer.allowance.charge(1 - SECRET_UNITS, now.mono_s)

    # -- announcements -------------------------------------------------------------------------------------

    def settled(self, now: c.Now) -> Iterator[c.Deed]:
        """Announce what was taken to the peers that are present, except to the one that brought it, and send the
        secrets that have ended messages."""
        taken, secrets = self._changes.take_rows(), self._changes.take_secrets()
        brought, self._brought = self._brought, {}
        now_s, pool = int(now.wall_s), self._holdings.pool
        held = [row for one in taken if (row := pool.get(one.id)) and self._passing_on.is_announced(row, now_s)]
        for peer in self._peers.values() if held or secrets else ():
            if not peer.is_present(now.mono_s):
                continue
            ids = tuple(row.id for row in held if brought.get(row.id) != peer.key)
            for at in range(0, len(ids), b.HELD_IDS_MAX):
                yield peer.say(b.Held(ids[at : at + b.HELD_IDS_MAX]))
            self._holdings.outside.announced(ids, peer.key.hex())
            peer.counts["told"] += len(ids)
            yield from peer.tell(secrets)

    def tick(self, now: c.Now) -> Iterator[c.Deed]:
        """Ask each peer for what it has taken if that is due, and look again for messages that have not come."""
        late = False
        for peer in self._peers.values():
            for n in [n for n, (_, until_s) in peer.wants.items() if until_s <= now.mono_s]:
                del peer.wants[n]
                peer.counts["late"] += 1
                late = True
        for peer in self._peers.values():
            if late:
                peer.cursor = 0
            if now.mono_s >= peer.ask_at_s:
                yield from self._catch_up(peer, now)
            yield from self._tell_untold(peer, now)
            yield from peer.tell_more(SECRETS_PER_S)
            if peer.asks_secrets_again and not peer.secrets:
                yield from self._tell_secrets(peer, now)

    def _tell_untold(self, peer: Peer, now: c.Now) -> Iterator[c.Send]:
        """Send again the secrets that did not reach a peer, except those that are forgotten by now."""
        if peer.untold and now.mono_s >= peer.untold_at_s:
            untold, peer.untold = peer.untold, {}
            yield from peer.tell([one for one in untold if self._holdings.knows_secret(one)])

    def _catch_up(self, peer: Peer, now: c.Now) -> Iterator[c.Deed]:
        peer.ask_at_s = now.mono_s + CATCH_UP_S
        yield peer.say(b.CatchUp(peer.cursor), tag=TAG + peer.key.hex())

    # -- views ---------------------------------------------------------------------------------------------

    def view(self, now: c.Now) -> list[dict[str, Any]]:
        """Return the peers as an operator sees them."""
        return [
            {
                "address": key_text("addr", peer.key),
                "present": peer.is_present(now.mono_s),
                "problem": peer.trouble(now.mono_s),
                "heard": None if peer.heard_s == -inf else round(now.mono_s - peer.heard_s, 1),
                "wanted": sum(len(ids) for ids, _ in peer.wants.values()),
                **peer.counts,
            }
            for peer in self._peers.values()
        ]


def _message_units(size: int) -> int:
    return 1 + size // UNIT_BYTES
