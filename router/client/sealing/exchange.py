"""Prekeys asked for and given: what an app sends of its own accord so that its unicasts are sealed.

Requests and answers are unicasts like others, so they wait at routers for who is away. They are taken from what the
node hands over before a loop sees it, and a request is settled once its answer is in custody.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from struct import error as StructError

import trio

from router.client.composer import Composer, Lifetime
from router.client.custody.aside import End
from router.client.custody.outbox import Submission
from router.client.errors import ClientError, JournalError, NoPrekey, Refused
from router.client.interrupts import uninterrupted
from router.client.publishing import Publishing
from router.client.sealing.correspondents import Verdict, Writing
from router.client.sealing.rows import PrekeyRow, PrekeyRows
from router.client.sealing.telling import LIVES, RenewalTelling
from router.client.sealing.unicast_sealing import UnicastSealing, UnknownPrekey
from router.client.undeliverable import Undeliverable
from router.core.wire.codec import Malformed
from router.core.wire.control import Report
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.errors import RouterError
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import Unicast, open_message, verify_message
from router.core.wire.prekey import Prekey
from router.core.wire.prekey_exchange import ASK, decode_answer, encode_answer
from router.core.wire.reasons import Reason, reason_from
from router.core.wire.renewal import Renewal, decode_renewal_notice, is_renewal_notice
from router.core.wire.unicast_seal import OpenedBody

PREKEY_S = 30.0
"""How long a message waits for the recipient's prekey once the node has the request."""
ANSWERS_MAX = 256
"""Most answers that the node has not taken yet; requests beyond them wait at the node."""
GIVEN_MAX = 10_000
"""Most addresses remembered that got a prekey without asking; beyond that they get it once more."""
SAY_AGAIN_S = 60.0
"""How often it is said at most, for each reason, that a prekey inside a message is not used."""
LOOK_S = 600.0
"""How often prekeys are looked at: renewed daily, forgotten at their end."""
WAITS = "until then requests for prekeys, answers and news of renewals wait at the node, and nothing sealed is opened"
REMEMBERED_MAX = 256
"""Most answers in custody for which it is remembered how long they live, so that they can be sent with a shorter life;
beyond that the oldest go."""
_LIVES_SHORT = Lifetime(60, 2)
"""The life of a request by a key that is thrown away, and so hears no answer later."""


class _Request:
    """A request for a prekey under way, and the sink of its submission. `answered` is set when something came."""

    def __init__(self, id: MessageId | None, on_custody: Callable[[], None]) -> None:
        self.answered = trio.Event()
        self.in_custody = trio.Event()
        self.error: ClientError | None = None
        self.waiting = 0
        self.id = id
        self._on_custody = on_custody
        if id is None:
            self.in_custody.set()

    def refused(self, reason: Reason, text: str) -> None:
        self.failed(Refused(reason, text, self.id))

    def ended(self) -> None:
        if self.error is None:
            self._on_custody()
        self.in_custody.set()

    def failed(self, error: ClientError) -> None:
        self.error = error
        self.in_custody.set()


class _Reply:
    """An answer under way, and the sink of its submission; `ends` settle the requests that it answers. It has the life
    of that number in `LIVES`; `again` sends it with the next one."""

    def __init__(self, over: Callable[[], None], again: Callable[[], None]) -> None:
        self.ends: list[End] = []
        self.life = 0
        self._over = over
        self._again = again
        self._is_too_long = False

    def refused(self, reason: Reason, text: str) -> None:
        """Note whether it lives too long; else who asked is gone, or not let in, and the request is settled all the
        same."""
        self._is_too_long = reason is Reason.EXPIRY_TOO_FAR

    def ended(self) -> None:
        if self._is_too_long and self.life + 1 < len(LIVES):
            self.life, self._is_too_long = self.life + 1, False
            self._again()
            return
        self._over()
        for end in self.ends:
            end(None)

    def failed(self, error: ClientError) -> None:
        """Settle nothing, so that the requests come again to a later run."""
        self._over()


@uninterrupted
class Answering:
    """Answers requests for prekeys: that there is none, as a service says, which sends and reads in the open."""

    def __init__(self, composer: Composer, publishing: Publishing) -> None:
        self._composer = composer
        self._publishing = publishing
        self._replies: dict[PublicKey, _Reply] = {}
        self._answered: OrderedDict[MessageId, int] = OrderedDict()  # answers, with the numbers of their lives

    def __repr__(self) -> str:
        return f"<answers to requests for prekeys: {len(self._replies)} under way>"

    def hear(self, wire: bytes, end: End) -> None:
        """Act on a request, or an answer, that the node has handed over; `end` settles or refuses it."""
        message = open_message(wire)
        assert isinstance(message, Unicast)
        if message.body != ASK:
            end((Reason.PEER_REFUSED, Verdict.NOT_ASKED.value))
        elif message.source not in self._replies and len(self._replies) >= ANSWERS_MAX:
            end((Reason.RATE_LIMITED, "too many requests for prekeys at once"))
        else:
            self.reply(message.source, end)

    @property
    def sealing(self) -> PrekeyExchange | None:
        """Return what seals; None if everything goes in the open."""
        return None

    @property
    def unseal(self) -> Callable[[Unicast], OpenedBody] | None:
        """Return what opens sealed messages; None if they are given to the app as they are."""
        return None

    def renewal_of(self, source: PublicKey) -> Renewal | None:
        """Return None: this app is told of no renewals."""
        return None

    def hear_report(self, report: Report) -> None:
        """Send an answer with a shorter life that a router further on has refused as it expires too far ahead."""
        life = self._answered.pop(report.message, None)
        if life is not None and life + 1 < len(LIVES) and reason_from(report.reason) is Reason.EXPIRY_TOO_FAR:
            with suppress(RouterError):  # whoever asks is answered once it can be written
                self.reply(report.destination, _settle_nothing, life + 1)

    def sign_by(self, key: SigningKey, mine: Sequence[Renewal]) -> None:
        """Do nothing: nothing is sealed."""

    async def run(self) -> None:
        """Do nothing: there is no prekey to renew."""
        await trio.lowlevel.checkpoint()

    def reply(self, to: PublicKey, end: End, life: int = 0) -> None:
        """Send this app's prekey, or that it has none; one answer that is still under way serves. Raise `RouterError`
        if the prekey cannot be written."""
        found = self._replies.get(to)
        if found is None:
            body = encode_answer(self._own_prekey())
            send = partial(self._send_reply, to, body)
            found = self._replies[to] = _Reply(partial(self._replied, to), send)
            found.life = life
            send()
        found.ends.append(end)

    def _send_reply(self, to: PublicKey, body: bytes) -> None:
        reply = self._replies[to]
        composed = self._composer.unicast(to, body, LIVES[reply.life])
        self._answered[composed.id] = reply.life
        if len(self._answered) > REMEMBERED_MAX:
            self._answered.popitem(last=False)
        self._publishing.put(Submission(composed.frame, reply))

    def _replied(self, to: PublicKey) -> None:
        self._replies.pop(to, None)

    def _own_prekey(self) -> Prekey | None:
        return None


@uninterrupted
class PrekeyExchange(Answering):
    """Gets the prekeys of those to whom an app writes, gives its own, and seals and opens with them.

    `machine` makes what seals of what is kept in `rows`, at the first use; `problem` gets sentences about what was not
    accepted; `durable`: the key is kept, and hears answers that come to a later run."""

    def __init__(
        self,
        composer: Composer,
        publishing: Publishing,
        machine: Callable[[], UnicastSealing],
        rows: PrekeyRows,
        problem: Callable[[str], None],
        wall_s: Callable[[], float],
        *,
        durable: bool,
    ) -> None:
        super().__init__(composer, publishing)
        self._machine_of = machine
        self._rows = rows
        self._problem = problem
        self._undeliverable = Undeliverable(problem, wall_s)
        self._wall_s = wall_s
        self._durable = durable
        self._made: UnicastSealing | None = None
        self._requests: dict[PublicKey, _Request] = {}
        self._said_s: dict[Verdict, float] = {}
        self._given: tuple[bytes, set[PublicKey]] = b"", set()  # a prekey's id, and who got it without asking
        self._told_fault = ""
        self._telling = RenewalTelling(
            composer, publishing, lambda: self.machine, self._own_prekey, rows, problem, self._tell_fault
        )

    @property
    def sealing(self) -> PrekeyExchange:
        return self

    @property
    def unseal(self) -> Callable[[Unicast], OpenedBody]:
        return self.open

    @property
    def machine(self) -> UnicastSealing:
        """Return what seals and opens; the first use reads what is kept. Raise `RouterError` if that cannot be read."""
        if self._made is None:
            try:
                self._made = self._machine_of()
            except (ValueError, StructError) as error:
                said = f"the prekeys in {self._rows.where} cannot be read: {error}"
                raise JournalError(f"{said}; run the version that wrote them, or restore the folder") from None
        return self._made

    @property
    def _now_min(self) -> int:
        return expiry_min(self._wall_s())

    def _write(self, rows: list[PrekeyRow]) -> None:
        """Write what is known of others, and what is forgotten, soon."""
        if rows:
            self._rows.gather(rows)

    def _tell_fault(self, error: RouterError) -> None:
        """Say once what keeps the state from being used, however much fails of it, until it can be used again."""
        if str(error) != self._told_fault:
            self._told_fault = str(error)
            self._problem(f"{error}; {WAITS}")

    def _own_prekey(self) -> Prekey:
        """Return the prekey of today, once its secret is on disk. Raise `RouterError` if it cannot be written."""
        self.machine.renew(self._now_min)
        return self.machine.current()

    async def run(self) -> None:
        """Forget what has ended as time goes by, and tell of renewals."""
        async with trio.open_nursery() as nursery:
            if self._durable:
                nursery.start_soon(self._telling.run)
            while True:
                try:
                    if self._rows.is_begun or self._made is not None:
                        self._write(self.machine.tick(self._now_min))
                    self._told_fault = ""
                except RouterError as error:  # whoever sends is told again
                    self._tell_fault(error)
                await trio.sleep(LOOK_S)

    # -- sending -------------------------------------------------------------------------------------------

    async def prekey_of(self, to: PublicKey, timeout_s: float = PREKEY_S) -> Prekey | None:
        """Return the prekey of an address, None if it wants messages in the open; ask it if that is not known. Raise
        `NoPrekey`, `Refused` or `NodeUnavailable`."""
        self._own_prekey()
        to = self.machine.newest(to)
        found = self.machine.prekey_of(to, self._now_min)
        if isinstance(found, Writing) and found is not Writing.PLAIN:
            await self._ask(to, timeout_s)
            found = self.machine.prekey_of(to, self._now_min)
        if found is Writing.ASK or found is Writing.WAIT:
            raise NoPrekey(to, timeout_s)
        return found if isinstance(found, Prekey) else None

    async def _ask(self, to: PublicKey, timeout_s: float) -> None:
        """Ask an address for its prekey, unless it was asked just now, and wait for the answer."""
        lives = LIVES if self._durable else (_LIVES_SHORT,)
        for life in lives:
            try:
                return await self._ask_once(to, timeout_s, life)
            except Refused as error:
                if error.reason is not Reason.EXPIRY_TOO_FAR or life == lives[-1]:
                    raise

    async def _ask_once(self, to: PublicKey, timeout_s: float, life: Lifetime) -> None:
        await self._publishing.until_room()
        request = self._requests.get(to) or self._requested(to, life)
        request.waiting += 1
        try:
            await request.in_custody.wait()
            if request.error is not None:
                raise request.error
            with trio.move_on_after(timeout_s):
                await request.answered.wait()
            if request.error is not None:
                raise request.error
        finally:
            request.waiting -= 1
            is_over = request.error is not None or not request.waiting
            if is_over and self._requests.get(to) is request:
                del self._requests[to]

    def _requested(self, to: PublicKey, life: Lifetime) -> _Request:
        if self.machine.prekey_of(to, self._now_min) is Writing.ASK:
            composed = self._composer.unicast(to, ASK, life)
            request = _Request(composed.id, partial(self._asked, to))
            self._publishing.submit(Submission(composed.frame, request))
        else:
            request = _Request(None, _nothing)
        self._requests[to] = request
        return request

    def hear_report(self, report: Report) -> None:
        """Fail those who wait for an answer to a request that was refused on its way, or has expired."""
        super().hear_report(report)
        request = self._requests.get(report.destination)
        if request is not None and request.id == report.message:
            self._write(self.machine.correspondents.not_asked(report.destination))
            request.failed(Refused(reason_from(report.reason), f"it was {report.state} on its way", report.message))
            request.answered.set()

    def _asked(self, to: PublicKey) -> None:
        self._write(self.machine.correspondents.asked(to, self._now_min))

    def seal(self, prekey: Prekey, seq: int, content: bytes) -> bytes:
        """Return the body sealed to the owner of a prekey."""
        return self.machine.seal(prekey, seq, content)

    # -- receiving -----------------------------------------------------------------------------------------

    def hear(self, wire: bytes, end: End) -> None:
        message = open_message(wire)
        assert isinstance(message, Unicast)
        try:
            if message.body == ASK:
                self._telling.heard(message)
                super().hear(wire, end)
                return
            is_renewal = is_renewal_notice(message.body)
            why = self._heard_renewal(message, wire) if is_renewal else self._heard_answer(message, wire)
        except RouterError as error:
            self._tell_fault(error)
            end((Reason.INTERNAL, "its state cannot be read or written"))
            return
        if why:
            self._not_used(message, why, "renewal" if is_renewal else "prekey")
        end((Reason.PEER_REFUSED, why) if why else None)

    def _not_used(self, message: Unicast, why: str, what: str) -> None:
        self._undeliverable.note(None, message.via, f"the {what} that it brings is not used: {why}")

    def _heard_answer(self, message: Unicast, wire: bytes) -> str:
        """Act on an answer; return why it is not accepted, "" if it is."""
        if not verify_message(wire):
            return "its signature does not fit"
        if message.expiry_min <= self._now_min - 1:
            return "its answer has expired"
        try:
            prekey = decode_answer(message.body)
        except Malformed as error:
            return str(error)
        if message.source in map(
            self.machine.newest, self._requests
        ):  # the answer may come before the node has told that it took the request
            self._asked(message.source)
        verdict, rows = self.machine.correspondents.answered(message.source, prekey, self._now_min)
        self._write(rows)
        if verdict.is_accepted:
            self._has_prekey_of(message.source)
        return "" if verdict.is_accepted else verdict.value

    # -- renewals ------------------------------------------------------------------------------------------

    def sign_by(self, key: SigningKey, mine: Sequence[Renewal]) -> None:
        """Seal and open for another key of this app, and tell those that it writes to."""
        if self._made is not None:
            self._made.sign_by(key, mine)
        self._telling.renewed()

    def newest(self, address: PublicKey) -> PublicKey:
        """Return the address that has the place of this one, as far as this app was told."""
        return self.machine.newest(address)

    def renewal_of(self, source: PublicKey) -> Renewal | None:
        """Return the statement by which another key has taken this one's place, None if this app was not told of it."""
        if self._made is None and not self._rows.is_begun:
            return None
        with suppress(RouterError):  # `run` tells what keeps the state from being read
            return self.machine.renewals.of(source)
        return None

    def _heard_renewal(self, message: Unicast, wire: bytes) -> str:
        """Act on the news of a renewal; return why it is not believed, "" if it is."""
        if not verify_message(wire):
            return "its signature does not fit"
        try:
            said = decode_renewal_notice(message.body)
        except Malformed as error:
            return str(error)
        if said.old not in self.machine.correspondents and said.old not in self._requests:
            return "this app has exchanged no sealed messages with that address"
        verdict, rows = self.machine.renewed(said, self._now_min)
        self._write(rows)
        return "" if verdict.is_believed else verdict.sentence

    def _has_prekey_of(self, source: PublicKey) -> None:
        """Go on where a prekey of this address, or of one whose place it has, is waited for."""
        for to, request in self._requests.items():
            if self.machine.newest(to) == source:
                request.answered.set()

    def open(self, message: Unicast) -> OpenedBody:
        """Return what the source has sealed to this app. Raise `Malformed` or a `SealError`; who has sealed to a prekey
        that is not ours, or to one that is older than a day, is told the one of today."""
        try:
            with suppress(RouterError):  # without a prekey that is on disk nothing is told
                self._telling.heard(message)
            opened = self.machine.open(message.body, message.source, self._now_min, message.destination)
        except UnknownPrekey:
            with suppress(RouterError):  # without a prekey that is on disk nothing is told
                if len(self._replies) < ANSWERS_MAX:
                    self.reply(message.source, _settle_nothing)
            raise
        if opened.needs_prekey:
            with suppress(RouterError):
                self._give(message.source)
        self._write(opened.rows)
        if opened.verdict is Verdict.TAKEN:
            self._has_prekey_of(message.source)
        if opened.verdict is not None and not opened.verdict.is_accepted:
            self._not_taken(opened.verdict)
        return opened.message

    def _not_taken(self, verdict: Verdict) -> None:
        """Say why a prekey inside a sealed message is not used, each reason at most once in `SAY_AGAIN_S`."""
        now_s = self._wall_s()
        if now_s - self._said_s.get(verdict, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._said_s[verdict] = now_s
            self._problem(f"a prekey inside a sealed message is not used: {verdict.value}")

    def _give(self, to: PublicKey) -> None:
        """Give the prekey of today, once, to who seals to an older one."""
        today = self._own_prekey().id
        if self._given[0] != today or len(self._given[1]) >= GIVEN_MAX:
            self._given = today, set()
        if to not in self._given[1] and len(self._replies) < ANSWERS_MAX:
            self.reply(to, _settle_nothing)
            self._given[1].add(to)


def _nothing() -> None:
    """Do nothing: the request was recorded by the one who sent it."""


def _settle_nothing(_: tuple[Reason, str] | None) -> None:
    """Settle nothing: nobody has asked for this answer."""
