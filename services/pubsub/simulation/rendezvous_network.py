"""A simulated network of routers that keep points of rendezvous with the code of `services.pubsub.core.rendezvous_*`.

Routers know each other as peer sampling leaves them: some hundred random ones each, then those that a search for the
own place finds. What they say goes through the wire form. A connection is dialled before the first word between two.
Left out: the limits of links, and how what is known is renewed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from ipaddress import IPv4Address
from typing import NamedTuple

from msgspec import Struct

from router.core.wire.address import IpAddress, public_prefix
from router.core.wire.advert import Advertisement, decode_advertisement, make_advertisement
from router.core.wire.crypto import KEY_BYTES, SIGNATURE_BYTES, PublicKey, Signature, SigningKey, digest
from router.core.wire.hint import Hint
from router.core.wire.message import seal_unicast
from services.pubsub.core.rendezvous.answers import PointAnswers
from services.pubsub.core.rendezvous.contacts import Contacts
from services.pubsub.core.rendezvous.points import (
    PLACE_BYTES,
    Contact,
    contact_of,
    day_of,
    days_to_leave,
    nearest,
    place_of,
    point_of,
)
from services.pubsub.core.rendezvous.records import NONCE_BYTES, RECORD_BYTES, Unread, open_record, seal_record
from services.pubsub.core.rendezvous.search import Search, SearchLimits
from services.pubsub.core.rendezvous.store import RecordStore, StoreLimits
from services.pubsub.core.rendezvous.words import (
    BUT_MAX,
    NEAR_MAX,
    TOLD_MAX,
    AskPoint,
    TellPoint,
    decode_point_word,
    encode_point_word,
)
from services.pubsub.simulation.engine import CONNECT_FAILS_S, Engine, Links
from services.pubsub.simulation.meeting import DIAL_TRIPS, DIALS_MAX

WALL_S = 1_800_000_000
EXPIRY_MIN = WALL_S // 60 + 1_440
HEARD = 300
"""Routers of which each has heard by peer sampling: those of three minutes, of eight in each answer."""
ANSWER_S = 5.0
"""Seconds that an answer is waited for."""
MEETING_TRIPS = 3
"""Times that a line is crossed until two services that are connected know that both want a group."""
RECORD_LAYER_BYTES = 22
"""TLS 1.3 adds so much to each of its records."""
PORT = 4101
FIRST_NETWORK, GROUND_NETWORK, INVENTED_NETWORK = 0x14000007, 0x2C000000, 0x38000000
"""Addresses from which routers have theirs, those of an attacker, and those that do not exist."""
UNSIGNED = Signature(b"\x01" * SIGNATURE_BYTES)
_SENDER = SigningKey(digest(b"envelope"))
ENVELOPE_BYTES = RECORD_LAYER_BYTES + len(seal_unicast(_SENDER, _SENDER.public, b"", ttl_s=30, expiry_min=EXPIRY_MIN))
"""Bytes of a word beside its body: those of a unicast, and of a TLS record of its own."""


class Lie(Enum):
    """What a router does with questions: answers them, tells of liars alone and of no record, tells of routers that do
    not exist, returns records that it made itself, or answers honestly and writes down what it sees."""

    NONE, DIVERT, INVENT, FORGE, LIST = range(5)


LIES = (Lie.DIVERT, Lie.INVENT, Lie.FORGE, Lie.LIST)


class PointAsked(NamedTuple):
    """A question of a router comes, as part of a call."""

    by: int
    call: int
    body: bytes


class PointTold(NamedTuple):
    """The answer to a call comes."""

    call: int
    body: bytes


class CallLate(NamedTuple):
    """The time of a call is over, or its connection could not be made."""

    call: int


class Begins(NamedTuple):
    """A router begins to look for others of a group."""

    seeking: Seeking


class FirstMet(NamedTuple):
    """A router has met another one that wants the group."""

    seeking: Seeking
    other: int


class Knower:
    """A router: its advertisement, the routers that it knows, the records that it keeps, and how it lies."""

    __slots__ = ("advert", "answers", "contact", "contacts", "lie", "linked", "seen", "store")

    def __init__(self, advert: Advertisement, contact: Contact, answers: PointAnswers, store: RecordStore) -> None:
        self.advert, self.contact, self.answers, self.store = advert, contact, answers, store
        self.contacts: Contacts = answers.contacts
        self.lie = Lie.NONE
        self.linked: set[int] = set()
        self.seen: set[bytes] = set()

    def __repr__(self) -> str:
        return f"<router with {self.contacts!r}>"


class Chosen:
    """Routers chosen at random, in place of a search for the nearest."""

    def __init__(self, storers: Sequence[Contact]) -> None:
        self.storers = tuple(storers)
        self.is_done, self.asks, self.but = True, 0, ()

    def __repr__(self) -> str:
        return f"<{len(self.storers)} routers chosen at random>"

    def next_asks(self) -> list[PublicKey]:
        return []

    def answer(self, by: PublicKey, near: Iterable[Contact]) -> bool:
        return False

    def fail(self, router: PublicKey) -> None:
        """Nobody was asked."""


class Seeking:
    """A router that looks for others of a group, from a second on, at the point of `day`, None: of the day on which it
    begins. `found_s`: when it has met one.

    `said`: bytes of its words and of the answers, of those `left` while leaving records; `dials`: its connections."""

    __slots__ = (
        "begun_s",
        "day",
        "dials",
        "found_s",
        "group",
        "left",
        "met",
        "node",
        "record",
        "said",
        "search",
        "waiting",
    )

    def __init__(self, node: int, group: PublicKey, begun_s: float, day: int | None = None) -> None:
        self.node, self.group, self.begun_s, self.day = node, group, begun_s, day
        self.found_s: float | None = None
        self.search: Search | Chosen | None = None
        self.waiting: list[int] | None = None  # storers to whom the record is still to be brought
        self.record = b""
        self.said = self.left = self.dials = 0
        self.met: set[int] = set()

    def __repr__(self) -> str:
        return f"<router {self.node} looks since {self.begun_s:.0f} s: {self.search!r}>"


class Call(Struct, frozen=True):
    """A question that waits for its answer; `leaves`: it brings a record."""

    seeking: Seeking
    router: PublicKey
    leaves: bool


class RendezvousNetwork:
    """Routers by number. `chosen`: so many routers at random keep the records of a group; 0: the nearest to its point.

    `unopened`: the records, by cause, that were returned and not used."""

    def __init__(self, seed: int, nodes: int, *, liars: float = 0.0, chosen: int = 0) -> None:
        self.engine = Engine(seed)
        self.links = Links(self.engine.chance)
        self.limits = SearchLimits()
        self.nodes: list[Knower] = []
        self.dead: set[int] = set()
        self.unopened = Counter[Unread]()
        self.join_asks = 0
        self._chosen = chosen
        self._by_key: dict[PublicKey, int] = {}
        self._adverts: dict[PublicKey, Advertisement] = {}
        self._calls: dict[int, Call] = {}
        self._called = 0
        self._seekings: dict[PublicKey, list[Seeking]] = {}
        for number in range(nodes):
            key = SigningKey(digest(b"router %d of %d" % (number, seed)))
            address = IpAddress(IPv4Address(FIRST_NETWORK + (number << 8)), PORT)
            self._admit(make_advertisement(key, (address,), services={}, rev=1, expiry_min=EXPIRY_MIN))
        for place, number in enumerate(self.engine.chance.sample(range(nodes), round(liars * nodes))):
            self.nodes[number].lie = LIES[place % len(LIES)]
        self._liars = [one.contact for one in self.nodes if one.lie is not Lie.NONE]
        self._become_known()

    def __repr__(self) -> str:
        return f"<network of {len(self.nodes)} at {self.engine.now_s:.0f} s>"

    def seek(self, node: int, group: PublicKey, begun_s: float) -> Seeking:
        """Let a router look for others of a group from a second on."""
        return self._planned(Seeking(node, group, begun_s))

    def _planned(self, seeking: Seeking) -> Seeking:
        self._seekings.setdefault(seeking.group, []).append(seeking)
        self.engine.at(seeking.begun_s, seeking.node, Begins(seeking))
        return seeking

    def grind(self, group: PublicKey, count: int, networks: int) -> None:
        """Add routers of an attacker who knows the group: their keys are the nearest to its point of today, and they
        keep no record. They share that many public networks."""
        point = point_of(group, day_of(group, WALL_S))
        for number in range(count):
            key = PublicKey(point[: PLACE_BYTES - 1] + self.engine.chance.randbytes(KEY_BYTES - PLACE_BYTES + 1))
            ip = IPv4Address(GROUND_NETWORK + (len(self.nodes) % networks << 8) + number)
            one = self._admit(_unsigned(key, ip))
            one.lie = Lie.DIVERT
            self._liars.append(one.contact)
            self._hear_some(one)
            self._join(one)

    def kill(self, share: float, spared: Collection[int]) -> None:
        """Let a share of all routers vanish, but none of these."""
        at_risk = [number for number in range(len(self.nodes)) if number not in spared and number not in self.dead]
        self.dead.update(self.engine.chance.sample(at_risk, min(len(at_risk), round(share * len(self.nodes)))))

    def run(self, until_s: float) -> None:
        self.engine.run(self._happen, until_s)

    # -- before ----------------------------------------------------------------------------------------------------

    def _admit(self, advert: Advertisement) -> Knower:
        contact = contact_of(advert.router, public_prefix(advert.addresses[0]))
        chance = self.engine.chance
        far = StoreLimits(nearer_max=1 << 30) if self._chosen else None
        store = RecordStore(chance.randbytes(16), chance, far)
        answers = PointAnswers(Contacts(contact.router), store, self._adverts.get)
        self._by_key[contact.router], self._adverts[contact.router] = len(self.nodes), advert
        self.nodes.append(Knower(advert, contact, answers, store))
        return self.nodes[-1]

    def _become_known(self) -> None:
        """Let each router hear of some at random, and then search for its own place."""
        for one in self.nodes:
            self._hear_some(one)
        for one in self.nodes:
            self._join(one)

    def _hear_some(self, one: Knower) -> None:
        for heard in self.engine.chance.sample(self.nodes, min(HEARD, len(self.nodes))):
            one.contacts.hear(heard.contact)

    def _join(self, one: Knower) -> None:
        """Search for the own place. Time does not pass."""
        own = one.contact
        search = Search(own.router, own.router, one.contacts.nearest(own.place, BUT_MAX), self.limits)
        while asked := search.next_asks():
            for key in asked:
                to = self._by_key.get(key)
                if to is None:
                    search.fail(key)
                    one.contacts.forget(key)
                    continue
                told = self._answer(self.nodes[to], AskPoint(own.router, search.but, me=one.advert), own)
                assert told is not None
                near = self._verified(told)
                search.answer(key, near)
                self.nodes[to].contacts.hear(own)
                one.contacts.hear(self.nodes[to].contact)
                for contact in near:
                    one.contacts.hear(contact)
        self.join_asks += search.asks

    # -- a search --------------------------------------------------------------------------------------------------

    def _happen(self, number: int, event: object) -> None:
        match event:
            case Begins(seeking):
                self._begin(seeking)
            case PointAsked(by, call, body):
                self._hear_question(number, by, call, body)
            case PointTold(call, body):
                self._hear_answer(call, body)
            case CallLate(call):
                self._give_up(call)
            case FirstMet(seeking, other):
                self._meet(seeking, other)

    def _begin(self, seeking: Seeking) -> None:
        """Search for today's point; near the end of a day for tomorrow's as well."""
        one, group = self.nodes[seeking.node], seeking.group
        if seeking.day is None:
            seeking.day, *more = days_to_leave(group, self._wall_s)
            for day in more:
                self._planned(Seeking(seeking.node, group, self.engine.now_s, day))
        nonce = self.engine.chance.randbytes(NONCE_BYTES)
        hint = Hint(one.contact.router, one.advert.addresses)
        seeking.record = seal_record(group, seeking.day, (hint,), self._wall_s, nonce)
        point = point_of(group, seeking.day)
        if self._chosen:
            others = [other.contact for other in self.nodes if other is not one]
            seeking.search = Chosen(self.engine.chance.sample(others, min(self._chosen, len(others))))
        else:
            known = one.contacts.nearest(place_of(point), BUT_MAX)
            seeking.search = Search(point, one.contact.router, known, self.limits)
        self._go_on(seeking)

    @property
    def _wall_s(self) -> float:
        return WALL_S + self.engine.now_s

    def _go_on(self, seeking: Seeking) -> None:
        search = seeking.search
        assert search is not None
        for key in search.next_asks():
            self._call(seeking, key, leaves=False)
        if search.is_done and seeking.waiting is None:
            seeking.waiting = [self._by_key[one.router] for one in reversed(search.storers)]
            for _ in range(DIALS_MAX):
                self._leave_next(seeking)

    def _leave_next(self, seeking: Seeking) -> None:
        if seeking.waiting:
            self._call(seeking, self.nodes[seeking.waiting.pop()].contact.router, leaves=True)

    def _call(self, seeking: Seeking, router: PublicKey, *, leaves: bool) -> None:
        """Ask a router about the group's point, or leave the record there; dial it first if it is not connected."""
        search, by = seeking.search, seeking.node
        assert search is not None
        self._called += 1
        self._calls[self._called] = Call(seeking, router, leaves)
        to = self._by_key.get(router)
        trips = self._connected(seeking, by, to)
        if to is None or not trips:
            self.engine.after(CONNECT_FAILS_S, by, CallLate(self._called))
            return
        assert seeking.day is not None
        point = point_of(seeking.group, seeking.day)
        body = encode_point_word(AskPoint(point, record=seeking.record) if leaves else AskPoint(point, search.but))
        self._count(seeking, body, leaves=leaves)
        delay_s = self.links.delay_s(by, to)
        self.engine.after(trips * delay_s, to, PointAsked(by, self._called, body))
        self.engine.after((trips - 1) * delay_s + ANSWER_S, by, CallLate(self._called))

    def _connected(self, seeking: Seeking, by: int, to: int | None) -> int:
        """Connect two routers; return how often the line is crossed until the first word is there, 0 if never."""
        if to is not None and to in self.nodes[by].linked:
            return 0 if to in self.dead else 1
        seeking.dials += 1
        if to is None or to in self.dead:
            return 0
        self.nodes[by].linked.add(to)
        self.nodes[to].linked.add(by)
        return 1 + DIAL_TRIPS

    def _count(self, seeking: Seeking, body: bytes, *, leaves: bool) -> None:
        size = len(body) + ENVELOPE_BYTES
        seeking.said += size
        seeking.left += size if leaves else 0

    def _hear_question(self, number: int, by: int, call: int, body: bytes) -> None:
        asked = decode_point_word(body)
        if number in self.dead or not isinstance(asked, AskPoint):
            return
        told = self._answer(self.nodes[number], asked, self.nodes[by].contact)
        if told is not None:
            self.engine.after(self.links.delay_s(number, by), by, PointTold(call, encode_point_word(told)))

    def _hear_answer(self, number: int, body: bytes) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        seeking, told = call.seeking, decode_point_word(body)
        self._count(seeking, body, leaves=call.leaves)
        assert seeking.search is not None and isinstance(told, TellPoint)
        self._read(seeking, told.records)
        if call.leaves:
            self._leave_next(seeking)
        else:
            seeking.search.answer(call.router, self._verified(told))
            self._go_on(seeking)

    def _give_up(self, number: int) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        self.nodes[call.seeking.node].contacts.forget(call.router)
        if call.leaves:
            self._leave_next(call.seeking)
        else:
            assert call.seeking.search is not None
            call.seeking.search.fail(call.router)
            self._go_on(call.seeking)

    def _read(self, seeking: Seeking, records: Iterable[bytes]) -> None:
        """Open records, and connect to the routers that they name."""
        assert seeking.day is not None
        for record in records:
            opened = open_record(seeking.group, seeking.day, record, self._wall_s)
            if isinstance(opened, Unread):
                self.unopened[opened] += 1
                continue
            for hint in opened.hints:
                to = self._by_key.get(hint.router)
                if to is None or to == seeking.node or to in seeking.met:
                    continue
                seeking.met.add(to)
                if trips := self._connected(seeking, seeking.node, to):
                    span_s = (trips + MEETING_TRIPS) * self.links.delay_s(seeking.node, to)
                    self.engine.after(span_s, seeking.node, FirstMet(seeking, to))

    def _meet(self, seeking: Seeking, other: int) -> None:
        """Both routers know now that they want the same group."""
        for one in self._seekings[seeking.group]:
            if one is seeking or (one.node == other and one.begun_s <= self.engine.now_s):
                one.found_s = self.engine.now_s if one.found_s is None else one.found_s

    # -- answers ---------------------------------------------------------------------------------------------------

    def _answer(self, one: Knower, asked: AskPoint, by: Contact) -> TellPoint | None:
        """Return a router's answer, which may be a lie."""
        chance, place = self.engine.chance, place_of(asked.point)
        match one.lie:
            case Lie.DIVERT:
                told = [liar for liar in nearest(place, self._liars, 2 * NEAR_MAX) if liar.router != by.router]
                near = [self._adverts[liar.router] for liar in told if liar.router[:PLACE_BYTES] not in asked.but]
                return TellPoint(asked.point, True, tuple(near[:NEAR_MAX]), ())
            case Lie.INVENT:
                return TellPoint(asked.point, True, tuple([self._invented(asked.point) for _ in range(NEAR_MAX)]), ())
        told_truly = one.answers.answer(asked, by, self.engine.now_s)
        if told_truly is None or one.lie is Lie.NONE:
            return told_truly
        one.seen.update(told_truly.records, () if asked.record is None else (asked.record,))
        if one.lie is Lie.LIST:
            return told_truly
        forged = [chance.randbytes(RECORD_BYTES) for _ in range(TOLD_MAX if asked.record is not None else 0)]
        return TellPoint(asked.point, True, told_truly.near, tuple(forged))

    def _invented(self, point: bytes) -> Advertisement:
        """Return the advertisement of a router that does not exist, with the nearest key that there may be."""
        chance = self.engine.chance
        key = PublicKey(point[: PLACE_BYTES - 1] + chance.randbytes(KEY_BYTES - PLACE_BYTES + 1))
        return _unsigned(key, IPv4Address(INVENTED_NETWORK + chance.randrange(1 << 24)))

    def _verified(self, told: TellPoint) -> list[Contact]:
        """Return the routers that an answer tells of. An attacker's keys and signatures are taken for found by work."""
        return [
            contact_of(one.router, public_prefix(one.addresses[0]))
            for one in told.near
            if one.signature == UNSIGNED or one == self._adverts.get(one.router) or one.verify()
        ]


def _unsigned(key: PublicKey, ip: IPv4Address) -> Advertisement:
    """Return an advertisement for whose key the attacker would first have to work; its signature is taken for valid."""
    signer = SigningKey(bytes(KEY_BYTES))
    made = make_advertisement(signer, (IpAddress(ip, PORT),), services={}, rev=1, expiry_min=EXPIRY_MIN)
    return decode_advertisement(made.message.replace(signer.public, key).replace(made.signature, UNSIGNED))
