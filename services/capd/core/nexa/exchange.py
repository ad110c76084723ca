"""Handles each command of a neighbour, and announces to neighbours what the pool has taken.

Work is paid for before it is done (see `limits.py`); the price of a message that is taken is refunded, since its own
work has paid for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons
from services.capd.core import notes
from services.capd.core.answers import PoolAnswers
from services.capd.core.columns import Row
from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile
from services.capd.core.message import CapdMessage
from services.capd.core.pool import Known, Rejected, Taken
from services.capd.core.priority import RELAY_PRIORITY, aged
from services.capd.core.turned_away import TurnedAway

from .addresses import Addresses, network_of
from .announcing import Announcing
from .commands import (
    GET_IDS_MAX,
    INV_IDS_MAX,
    INV_TYPE,
    GetInfo,
    GetMsg,
    IdsReply,
    Inv,
    MessagesReply,
    Msg,
    PoolLines,
    PrefixQuery,
    Remove,
)
from .envelope import last_of
from .fetching import Fetching
from .limits import QUERY_UNITS, SECRET_UNITS, UNIT_BYTES, UNIT_IDS, UNIT_ROWS, UNREADABLE_UNITS, NexaLimits
from .neighbour import Neighbour
from .own_commands import SECRETS_MAX, GetHeld, HeldIds, MaskedQuery, RescindSecrets
from .packets import Ping, Pong, Reject
from .passing_on import PassingOn
from .sent_lines import GRACE_S
from .serving import Serving
from .session import Heard, Unreadable

BELOW_POINTS, TOO_MANY_POINTS = 1, 20
SECRETS_KNOWN_MAX = 10_000
"""Most secrets that have ended messages and are remembered, so that they cost little when they come again."""
SECRETS_TOLD_MAX = 256
"""Secrets that are sent to a new neighbour, the latest; there, each one that ends nothing costs us units."""
PARSING = "error parsing message"
LINES_S = 60.0
"""Seconds between two questions to a neighbour for its lines."""
FELL_S = 10.0
"""Seconds between two reports to a neighbour that our relay line has fallen."""


class Exchange:
    """Handles the commands of neighbours."""

    def __init__(
        self,
        holdings: Holdings,
        answers: PoolAnswers,
        turned_away: TurnedAway,
        addresses: Addresses,
        neighbours: Collection[Neighbour],
        profile: Profile,
        limits: NexaLimits,
    ) -> None:
        self._holdings = holdings
        self._answers = answers
        self._turned_away = turned_away
        self._addresses = addresses
        self._neighbours = neighbours
        self._changes = holdings.follow()
        self._unannounced: list[Row] = []
        self._secrets: dict[bytes, None] = {}
        self._is_strict = profile is Profile.STRICT
        self._limits = limits
        passing_on = PassingOn(holdings.pool)
        self._announcing = Announcing(holdings, passing_on, profile, limits)
        self._fetching = Fetching(holdings, limits)
        self._serving = Serving(holdings, passing_on, profile, limits)

    def __repr__(self) -> str:
        return f"<Exchange: {self._fetching!r}, {self._serving!r}>"

    # -- a connection --------------------------------------------------------------------------------------

    def greeted(self, neighbour: Neighbour) -> None:
        """Ask a new neighbour for its lines and for the ids that it holds; a Nexa node ignores the second request."""
        neighbour.say(GetInfo())
        neighbour.say(GetHeld(0))
        neighbour.coverage.greeted(self._holdings.pool.last)
        neighbour.lacking.is_listing = True

    def closed(self, neighbour: Neighbour) -> None:
        """End the standing queries of a neighbour whose connection has ended."""
        self._serving.unsubscribe(neighbour)

    def due(self, neighbour: Neighbour, now: c.Now) -> Iterator[c.Deed]:
        """Request from a neighbour the messages that are due, announce to it what was not announced before, ask for its
        lines and tell ours, and answer its waiting requests."""
        if neighbour.is_open:
            self._lines_due(neighbour, now)
            self._announcing.due(neighbour, now)
            self._fetching.due(neighbour, self._relay_line(now), now.mono_s)
            yield from self._serving.serve(neighbour, now)

    def _lines_due(self, neighbour: Neighbour, now: c.Now) -> None:
        """Ask for a neighbour's lines from time to time, since nobody reports that they fall; report that ours has
        fallen below what it was told."""
        if now.mono_s - neighbour.lines_asked_s >= LINES_S:
            neighbour.lines_asked_s = now.mono_s
            neighbour.say(GetInfo())
        told_s = neighbour.lines_told_s
        if now.mono_s - told_s >= FELL_S and self._relay_line(now) < neighbour.sent_lines.last:
            self._say_lines(neighbour, 0, now)

    def take_turn(self, neighbour: Neighbour, share: int, now: c.Now) -> Iterator[c.Deed]:
        """Start a neighbour's next turn, of `share` units, and answer the requests that waited for it."""
        neighbour.turn_left = share
        if self._serving.is_held_up(neighbour):
            yield from self._serving.serve(neighbour, now)

    def is_held_up(self, neighbour: Neighbour) -> bool:
        """Whether a neighbour's requests wait only because the units of its turn are used up."""
        return self._serving.is_held_up(neighbour)

    # -- commands ------------------------------------------------------------------------------------------

    def said(self, neighbour: Neighbour, heard: Heard, now: c.Now) -> Iterator[c.Deed]:
        """Handle one command of a neighbour."""
        message, mono_s = heard.message, now.mono_s
        neighbour.counts["commands"] += 1
        match message:
            case Unreadable():
                self._reject(neighbour, message, heard.cookie, mono_s)
            case Ping(nonce):
                neighbour.say(Pong(nonce))
            case Pong(nonce):
                neighbour.ponged(nonce)
                yield from self._serving.serve(neighbour, now)
            case GetInfo():
                self._say_lines(neighbour, last_of(heard.cookie), now)
            case PoolLines(_, relay, _):
                neighbour.line, neighbour.has_told_line = relay, True
            case Inv() | HeldIds():
                self._fetch(neighbour, message, now)
            case GetMsg() | PrefixQuery() | MaskedQuery() | GetHeld():
                yield from self._answer(neighbour, heard, now)
            case Remove(cookie):
                self._serving.unsubscribe(neighbour, cookie)
            case Msg(messages):
                yield from self._messages(neighbour, messages, now)
            case MessagesReply(_, _, messages):  # we send no queries
                neighbour.pay(len(messages), mono_s)
            case IdsReply(_, _, ids):
                neighbour.pay(len(ids) // UNIT_IDS, mono_s)
            case RescindSecrets(secrets):
                yield from self._rescind(neighbour, secrets, now)

    def _reject(self, neighbour: Neighbour, unreadable: Unreadable, cookie: int, now_s: float) -> None:
        if neighbour.pay(UNREADABLE_UNITS + unreadable.size // UNIT_BYTES, now_s):
            neighbour.say(Reject(unreadable.command, PARSING), last_of(cookie))
        neighbour.counts["unreadable"] += 1

    def _say_lines(self, neighbour: Neighbour, cookie: int, now: c.Now) -> None:
        lines = self._holdings.pool.lines(int(now.wall_s))
        neighbour.sent_lines.record(lines.relay, now.mono_s)
        neighbour.lines_told_s = now.mono_s
        neighbour.say(PoolLines(lines.local, lines.relay, lines.highest), cookie)

    def _fetch(self, neighbour: Neighbour, inventory: Inv | HeldIds, now: c.Now) -> None:
        """Request the messages of an inventory that we lack, if the neighbour may send the inventory and pays for
        it."""
        match inventory:
            case Inv(ids, kind):
                if kind != INV_TYPE or not self._fits(neighbour, len(ids), INV_IDS_MAX, now):
                    return
            case HeldIds(after, ids):
                if not neighbour.lacking.is_listing and not neighbour.pay(len(ids), now.mono_s):
                    return
                neighbour.lacking.is_listing, neighbour.lacking.next_page = (
                    False,
                    after if neighbour.lacking.is_listing else 0,
                )
        self._holdings.has_outside(ids, neighbour.name)
        self._fetching.announced(neighbour, ids, self._relay_line(now), now.mono_s)

    def _answer(self, neighbour: Neighbour, heard: Heard, now: c.Now) -> Iterator[c.Deed]:
        """Queue a request that the neighbour can pay for, and answer what may be answered now."""
        message = heard.message
        if isinstance(message, GetMsg):
            neighbour.line = message.least
            is_accepted = self._fits(neighbour, len(message.ids), GET_IDS_MAX, now)
        else:
            rows = 0 if isinstance(message, PrefixQuery) else len(self._holdings.pool)
            is_accepted = neighbour.pay(QUERY_UNITS + rows // UNIT_ROWS, now.mono_s)
        if not is_accepted:
            return
        if isinstance(message, GetHeld):
            line = self._announcing.line_of(neighbour, int(now.wall_s))
            neighbour.coverage.listed(line, is_first=not message.after)
        self._serving.asked(neighbour, heard)
        yield from self._serving.serve(neighbour, now)
        if isinstance(message, GetHeld) and not message.after:
            _say_secrets([neighbour], self._holdings.recent_secrets()[-SECRETS_TOLD_MAX:])

    def _relay_line(self, now: c.Now) -> float:
        return self._holdings.pool.relay_line(int(now.wall_s))

    def _fits(self, neighbour: Neighbour, count: int, most: int, now: c.Now) -> bool:
        """Whether a list of `count` ids is accepted and paid for; more than `most` cost points, as at the deployed
        node."""
        if count > most:
            self._charge(neighbour, TOO_MANY_POINTS, f"{count} ids at once; at most {most}", now)
            return False
        return neighbour.pay(count // UNIT_IDS, now.mono_s)

    def _charge(self, neighbour: Neighbour, points: int, text: str, now: c.Now) -> None:
        neighbour.counts["points_given"] += points
        if self._addresses.charge(neighbour.host, points, now.mono_s):
            neighbour.stop(reasons.MISBEHAVED, text)

    # -- messages ------------------------------------------------------------------------------------------

    def _messages(self, neighbour: Neighbour, messages: Iterable[CapdMessage], now: c.Now) -> Iterator[c.Deed]:
        """Judge messages one by one, and take those that are not rejected, in one transaction."""
        taken: list[tuple[Taken, CapdMessage]] = []
        now_s = int(now.wall_s)
        for message in messages:
            units = 1 + len(message.data) // UNIT_BYTES
            if not neighbour.pay(units, now.mono_s):
                break
            own_id = message.own_id()
            was_asked = self._fetching.came(neighbour, own_id)
            rejected = self._below(neighbour, message, now)
            if rejected is None:
                verdict, deeds = self._holdings.add(message, own_id, now_s)
                yield from deeds
                rejected = verdict if isinstance(verdict, Rejected) else None
                if isinstance(verdict, Taken):
                    taken.append((verdict, message))
                if rejected is None and (was_asked or isinstance(verdict, Taken)):
                    neighbour.refund(units, now.mono_s)
                if isinstance(verdict, Known):
                    neighbour.counts["known"] += 1
                    self._holdings.has_outside((own_id,), neighbour.name)
            if rejected is not None:
                neighbour.counts["turned_away"] += 1
                if rejected.reason is Reason.DISK_FULL:
                    self._fetching.want(neighbour, own_id, now.mono_s)
                elif rejected.reason is not reasons.FUTURE:
                    self._fetching.decline(own_id, now.mono_s)
                yield from self._turned_away.rejected(neighbour.name, own_id, rejected, now, network_of(neighbour.host))
        neighbour.counts["taken"] += len(taken)
        yield from notes.evicted([one for one, _ in taken])
        yield from notes.accepted([one.row for one, _ in taken], neighbour.name, now_s)
        for one, message in taken:
            yield from self._answers.tell(one.row, message, now_s)
        self._tell(now_s)
        self._fetching.ask(neighbour, self._relay_line(now), now.mono_s)

    def _below(self, neighbour: Neighbour, message: CapdMessage, now: c.Now) -> Rejected | None:
        """Reject a message below the priority that neighbours may bring; one below the ban line also costs a point.

        Under `compat` the relay floor is the ban line, without grace, and a message from the future is below it."""
        now_s, initial, created = int(now.wall_s), message.initial_priority, message.create_time
        priority = aged(initial, created, now_s)
        is_future = created > now_s
        if self._is_strict:
            earlier = aged(initial, created, max(created, now_s - GRACE_S))
            is_charged = not is_future and earlier < neighbour.sent_lines.ban_line(now.mono_s)
        else:
            is_charged = priority < RELAY_PRIORITY
        if is_charged:
            self._charge(neighbour, BELOW_POINTS, f"a message of priority {priority:.4g}", now)
        if is_future or not (is_charged or priority < RELAY_PRIORITY):
            return None  # the pool judges the future and the work, with reasons of its own
        return Rejected(reasons.BELOW_LINE, f"{priority:.4g}; neighbours may bring {RELAY_PRIORITY:g}")

    # -- rescinding ----------------------------------------------------------------------------------------

    def _rescind(self, neighbour: Neighbour, secrets: Iterable[bytes], now: c.Now) -> Iterator[c.Deed]:
        """End the messages of these secrets. A secret that has ended something before costs little, since all
        neighbours send it."""
        for secret in secrets:
            is_known = secret in self._secrets
            if not neighbour.pay(1 if is_known else SECRET_UNITS, now.mono_s):
                break
            if is_known:
                continue
            ended, deeds = self._holdings.rescind(secret)
            yield from deeds
            if ended:
                neighbour.refund(SECRET_UNITS, now.mono_s)
            yield from notes.rescinded(ended, neighbour.name, reasons.RESCINDED)
            neighbour.counts["rescinded"] += len(ended)
        self._pass_on_secrets()

    # -- announcements -------------------------------------------------------------------------------------

    def announce(self, now: c.Now) -> None:
        """Announce the messages that were taken to all neighbours, whoever brought them, and pass on secrets that have
        ended messages."""
        now_s, pool = int(now.wall_s), self._holdings.pool
        self._tell(now_s)
        taken, self._unannounced = self._unannounced, []
        held = [row for one in taken if (row := pool.get(one.id)) is not None]
        self._announcing.taken(held, [one for one in self._neighbours if one.is_open], now_s)
        self._pass_on_secrets()

    def _tell(self, now_s: int) -> None:
        """Send messages that were taken to the neighbours whose standing queries they match; they are announced when
        all that came together has been handled."""
        for row in self._changes.take_rows():
            if self._holdings.pool.get(row.id) is not None and self._holdings.pool.standing(row, now_s).is_served:
                self._serving.tell(row)
            self._unannounced.append(row)

    def _pass_on_secrets(self) -> None:
        secrets = self._changes.take_secrets()
        for secret in secrets:
            self._secrets[secret] = None
            if len(self._secrets) > SECRETS_KNOWN_MAX:
                del self._secrets[next(iter(self._secrets))]
        _say_secrets((one for one in self._neighbours if one.is_open), secrets)


def _say_secrets(neighbours: Iterable[Neighbour], secrets: list[bytes]) -> None:
    for neighbour in neighbours:
        for at in range(0, len(secrets), SECRETS_MAX):
            neighbour.say(RescindSecrets(tuple(secrets[at : at + SECRETS_MAX])))
