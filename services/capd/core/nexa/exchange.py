"""Handles each command of a neighbour, and announces to neighbours what the pool has taken.

Work is paid for before it is done (see `limits.py`); the price of a message that is taken is refunded, since its own
work has paid for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from router.service import contract as c
from services.capd import reasons
from services.capd.core import notes
from services.capd.core.answers import PoolAnswers
from services.capd.core.columns import Row
from services.capd.core.holdings import Holdings
from services.capd.core.limits import Profile
from services.capd.core.message import CapdMessage
from services.capd.core.turned_away import TurnedAway

from .announcing import Announcing
from .bringing import Bringing
from .commands import (
    GET_IDS_MAX,
    INV_IDS_MAX,
    INV_TYPE,
    BadLengthReply,
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
from .packets import PARSING, Ping, Pong, Reject
from .passing_on import PassingOn
from .questioning import Questioning
from .serving import Serving
from .session import Heard, Unreadable

TOO_MANY_POINTS = 20
SECRETS_KNOWN_MAX = 10_000
"""Most secrets that have ended messages and are remembered, so that they cost little when they come again."""
SECRETS_TOLD_MAX = 256
"""Secrets that are sent to a new neighbour, the latest; there, each one that ends nothing costs us units."""
UNREJECTED = "capdqreply"
"""The command that the deployed node ignores unread, since it asks nothing."""
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
        neighbours: Collection[Neighbour],
        profile: Profile,
        limits: NexaLimits,
        *,
        is_fetching: bool = False,
    ) -> None:
        self._holdings = holdings
        self._neighbours = neighbours
        self._changes = holdings.follow()
        self._unannounced: list[Row] = []
        self._secrets: dict[bytes, None] = {}
        passing_on = PassingOn(holdings.pool)
        self._announcing = Announcing(holdings, passing_on, profile, limits)
        self._fetching = Fetching(holdings, profile, limits)
        self._serving = Serving(holdings, passing_on, profile, limits)
        self._bringing = Bringing(holdings, answers, turned_away, self._fetching, self._serving, profile)
        self._questioning = Questioning(holdings, answers.lookups, is_fetching=is_fetching)

    def __repr__(self) -> str:
        return f"<Exchange: {self._fetching!r}, {self._serving!r}>"

    # -- a connection --------------------------------------------------------------------------------------

    def greeted(self, neighbour: Neighbour) -> None:
        """Ask a new neighbour for its lines and for the ids that it holds; a Nexa node ignores the second request."""
        neighbour.say(GetInfo())
        neighbour.say(GetHeld(0))
        neighbour.coverage.greeted(self._holdings.pool.last)
        neighbour.lacking.is_listing = True

    def closed(self, neighbour: Neighbour, now: c.Now) -> Iterator[c.Deed]:
        """End the standing queries of a neighbour whose connection has ended, and what it was asked for."""
        self._serving.unsubscribe(neighbour)
        self._questioning.closed(neighbour)
        yield from self._answers_came(now)

    def due(self, neighbour: Neighbour, now: c.Now) -> Iterator[c.Deed]:
        """Request from a neighbour the messages that are due, announce to it what was not announced before, ask for its
        lines and tell ours, and answer its waiting requests."""
        if neighbour.is_open:
            self._lines_due(neighbour, now)
            self._questioning.due(neighbour, now.mono_s)
            yield from self._answers_came(now)
            self._announcing.due(neighbour, now)
            self._fetching.due(neighbour, self._relay_line(now), now.mono_s)
            yield from self._serving.serve(neighbour, now)

    def prefixes_left(self, neighbour: Neighbour) -> int | None:
        """Return how many prefixes are left of the fetching of everything; None if it has not begun."""
        return self._questioning.left(neighbour)

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
            case MessagesReply():
                yield from self._reply(neighbour, message, now)
            case IdsReply(cookie, _, ids):  # we ask for messages
                neighbour.pay(len(ids) // UNIT_IDS, mono_s)
                self._questioning.refused(neighbour, cookie)
                yield from self._answers_came(now)
            case BadLengthReply(cookie, _):
                self._questioning.refused(neighbour, cookie)
                yield from self._answers_came(now)
            case RescindSecrets(secrets):
                yield from self._rescind(neighbour, secrets, now)

    def _reject(self, neighbour: Neighbour, unreadable: Unreadable, cookie: int, now_s: float) -> None:
        is_paid = neighbour.pay(UNREADABLE_UNITS + unreadable.size // UNIT_BYTES, now_s)
        if is_paid and unreadable.command != UNREJECTED:
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
            neighbour.is_of_ours = True
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
            neighbour.charge(TOO_MANY_POINTS, f"{count} ids at once; at most {most}", now.mono_s)
            return False
        return neighbour.pay(count // UNIT_IDS, now.mono_s)

    # -- messages ------------------------------------------------------------------------------------------

    def _messages(self, neighbour: Neighbour, messages: Iterable[CapdMessage], now: c.Now) -> Iterator[c.Deed]:
        """Take the messages that a neighbour brings, unless they are rejected, and request more of it."""
        yield from self._bringing.brought(neighbour, messages, now)
        self._tell(int(now.wall_s))
        self._fetching.ask(neighbour, self._relay_line(now), now.mono_s)

    def _reply(self, neighbour: Neighbour, reply: MessagesReply, now: c.Now) -> Iterator[c.Deed]:
        """Take the messages of an answer to a question of ours, and ask on."""
        content = self._questioning.content_of(neighbour, reply.cookie)
        if content is None:  # a question that was given up, or none of ours
            neighbour.pay(len(reply.messages), now.mono_s)
            yield from self._bringing.unasked(neighbour, b"", now, 0)
            return
        neighbour.refund(1, now.mono_s)
        self._questioning.answered(neighbour, reply, now.mono_s)
        yield from self._answers_came(now)

    def _answers_came(self, now: c.Now) -> Iterator[c.Deed]:
        """Take the messages of answers that have come as far as they are waited for."""
        for neighbour, content, messages in self._questioning.take():
            yield from self._bringing.answered(neighbour, content, messages, now)
            self._tell(int(now.wall_s))

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
        open_ones = [one for one in self._neighbours if one.is_open]
        self._announcing.taken(held, open_ones, now_s)
        self._questioning.search(open_ones, now.mono_s)
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
