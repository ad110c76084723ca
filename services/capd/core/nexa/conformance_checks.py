"""The checks of a Nexa node: greeting, lines, messages, inventories, queries, bad input, and the commands of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from services.capd.core.message import CapdMessage, rescind_hash_of
from services.capd.core.pattern import Pattern
from services.capd.core.solving import Draft, bits_of_priority, tried

from .commands import IDS, MESSAGES, SUBSCRIBE, GetInfo, GetMsg, Inv, Msg, PrefixQuery, Remove
from .conformance import CLOSED, CONNECTED, GREETED, Check
from .envelope import MAGICS, Packet
from .greeting import CAPD_KEY, COOKIES_KEY, Version
from .own_commands import GetHeld, MaskedQuery, RescindSecrets
from .packets import ExtVersion, Message, Ping, Verack, packet_of

COOKIE, ANSWER = 0x5_0000, "cookie 0005ffff"
UNASKED = "cookie 0000ffff"
"""The cookie of an answer to a request without a cookie."""
MISSING = b"\xaa" * 32
MOST = 0xFFFF_FFFF
OTHER_TYPE = 73
LINE = 1e300


class Trial(Struct, frozen=True):
    """The parameters of a run of checks: the network, the time, a priority that the node passes on, and a seed, so that
    no two runs bring the same messages."""

    network: str
    now_s: int
    priority: float
    seed: bytes

    @property
    def magic(self) -> bytes:
        return MAGICS[self.network]

    @property
    def greeting(self) -> Version:
        nonce = int.from_bytes(sha256(self.seed).digest()[:8])
        return Version(self.now_s, nonce, b"/capd-conform:1.0/")

    def wire(self, *messages: Message | Packet, cookie: int = 0) -> bytes:
        """Return the bytes of these messages."""
        found = (one if isinstance(one, Packet) else packet_of(one, cookie) for one in messages)
        return b"".join(one.encoded(self.magic) for one in found)


class _Offers:
    """The messages of one check: A, B, C, all with one prefix of 8 bytes that no other check uses."""

    def __init__(self, trial: Trial, name: str) -> None:
        self._trial = trial
        self.prefix = sha256(trial.seed + name.encode()).digest()[:8]
        self.names: dict[bytes, str] = {MISSING: "missing"}
        self.messages: dict[bytes, CapdMessage] = {}

    def one(self, name: str, priority: float = 0.0, age_s: int = 5, rescind_hash: bytes = bytes(20)) -> CapdMessage:
        """Make a message, do its work, and register it under a name."""
        trial, data = self._trial, self.prefix + name.encode().ljust(8, b".") + b" an offer of the conformance checks"
        bits = bits_of_priority(priority or trial.priority, len(data))
        draft = Draft(data, trial.now_s - age_s, bits, rescind_hash=rescind_hash)
        nonce = tried(draft.solved(b"").stage1(), bits, 0, 1 << 32)
        assert nonce is not None
        return self.known(name, draft.solved(nonce))

    def known(self, name: str, message: CapdMessage) -> CapdMessage:
        """Register a message under a name, and return it."""
        own_id = message.own_id()
        self.names[own_id], self.messages[own_id] = name, message
        return message


def checks(trial: Trial) -> Iterator[Check]:
    """Yield the checks, in the order in which they are made."""
    yield from _greetings(trial)
    yield from _lines(trial)
    yield from _messages(trial)
    yield from _requests(trial)
    yield from _inventories(trial)
    yield from _queries(trial)
    yield from _standing_query(trial)
    yield from _bad_input(trial)
    yield from _own(trial)
    yield from _harmful(trial)


def _greetings(trial: Trial) -> Iterator[Check]:
    greeting, wire = trial.greeting, trial.wire
    right = ExtVersion({CAPD_KEY: 1, COOKIES_KEY: 1})
    answers = (("version",), ("extversion",), ("verack",))
    yield Check("greets", CONNECTED, "version, extversion, verack", wire(greeting, right, Verack()), answers)
    seven = ExtVersion({CAPD_KEY: 7, COOKIES_KEY: 1})
    data = wire(greeting, seven, Verack()) + wire(GetInfo(), cookie=COOKIE)
    yield Check("any-number", CONNECTED, "a pool's number 7, capdgetinfo", data, (*answers, (f"capdinfo {ANSWER}",)))
    yield Check("version-again", GREETED, "version", wire(greeting), then=CLOSED)
    yield Check("extversion-again", GREETED, "extversion", wire(right), then=CLOSED)
    yield Check("unknown-command", GREETED, "nonsense, 5,000 bytes", wire(Packet("nonsense", bytes(5000))))
    yield Check("ping", GREETED, "ping", wire(Ping(7)), (("pong",),))


def _check(name: str, sent: str, data: bytes, *expected: str, of: _Offers | None = None) -> Check:
    """Return a check that begins after the greeting, with one description for each expectation."""
    names, messages = (of.names, of.messages) if of else ({}, {})
    return Check(name, GREETED, sent, data, tuple((one,) for one in expected), names=names, messages=messages)


def _lines(trial: Trial) -> Iterator[Check]:
    wire = trial.wire
    yield _check("info", "capdgetinfo", wire(GetInfo(), cookie=COOKIE), f"capdinfo {ANSWER}")
    yield _check("info-without-cookie", "capdgetinfo, cookie 0", wire(GetInfo()), f"capdinfo {UNASKED}")
    data = wire(Packet("capdgetinfo", b"trailing", COOKIE))
    yield _check("trailing-bytes", "capdgetinfo and 8 bytes", data, f"capdinfo {ANSWER}")


def _messages(trial: Trial) -> Iterator[Check]:
    wire = trial.wire
    of = _Offers(trial, "brings")
    yield _check("brings", "capdmsg A", wire(Msg((of.one("A"),))), "capdinv A", of=of)
    of = _Offers(trial, "brings-two")
    both = Msg((of.one("A"), of.one("B")))
    yield _check("brings-two", "capdmsg A B", wire(both), "capdinv A", "capdinv B", of=of)
    of = _Offers(trial, "twice")
    data = wire(Msg((of.one("A"),)), Msg((of.one("A"),)), Msg((of.one("B"),)))
    yield _check("twice", "capdmsg A, capdmsg A, capdmsg B", data, "capdinv A", "capdinv B", of=of)
    of = _Offers(trial, "forms")
    first = of.one("A")
    data = wire(Packet("capdmsg", b"\x01" + _redundant(first)), GetMsg(0.0, (first.own_id(),)))
    yield _check("forms", "capdmsg A with redundant flags, capdgetmsg A", data, "capdmsg A", "capdinv A", of=of)


def _requests(trial: Trial) -> Iterator[Check]:
    wire = trial.wire
    of = _Offers(trial, "gets")
    first = of.one("A")
    data = wire(Msg((first,)), GetMsg(0.0, (first.own_id(),)))
    yield _check("gets", "capdmsg A, capdgetmsg A", data, "capdmsg A", "capdinv A", of=of)
    of = _Offers(trial, "gets-with-cookie")
    first = of.one("A")
    data = wire(Msg((first,))) + wire(GetMsg(0.0, (first.own_id(),)), cookie=COOKIE)
    yield _check("gets-with-cookie", "capdmsg A, capdgetmsg A", data, f"capdmsg A {ANSWER}", "capdinv A", of=of)
    of = _Offers(trial, "gets-missing")
    yield _check("gets-missing", "capdgetmsg of what is not there", wire(GetMsg(0.0, (MISSING,))), of=of)
    of = _Offers(trial, "cut-off")
    first = of.one("A")
    data = wire(GetMsg(LINE, ()), Msg((first,)), GetMsg(LINE, (first.own_id(),)))
    yield _check("cut-off", "capdgetmsg from 1e300, capdmsg A, capdgetmsg A from 1e300", data, of=of)


def _inventories(trial: Trial) -> Iterator[Check]:
    wire = trial.wire
    of = _Offers(trial, "asks")
    first = of.one("A")
    yield _check("asks", "capdinv A", wire(Inv((first.own_id(),))), "capdgetmsg A", of=of)
    of = _Offers(trial, "asks-not-again")
    first = of.one("A")
    data = wire(Msg((first,)), Inv((first.own_id(),)))
    yield _check("asks-not-again", "capdmsg A, capdinv A", data, "capdinv A", of=of)
    of = _Offers(trial, "other-type")
    first = of.one("A")
    data = wire(Inv((first.own_id(),), OTHER_TYPE))
    yield _check("other-type", f"capdinv A of type {OTHER_TYPE}", data, of=of)


def _redundant(message: CapdMessage) -> bytes:
    """Encode a message with all flags set, with an expiration that says never and a rescind hash of zeros."""
    wire, end = message.encoded(), 14 + len(message.nonce)
    return b"\xff" + wire[1:end] + b"\xff\xff" + bytes(20) + wire[end:]


def _queries(trial: Trial) -> Iterator[Check]:
    wire = trial.wire

    def query(
        name: str,
        sent: str,
        kind: int,
        content: int | bytes,
        *expected: str,
        start: int = 0,
        quantity: int = 200,
        cookie: int = 77,
    ) -> Check:
        """Return a check that queries three messages. `content`: the bytes to look for, or how many of their first."""
        of = _Offers(trial, name)
        offers = tuple(of.one(one) for one in "ABC")
        begins = offers[0].data[:content] if isinstance(content, int) else content
        data = wire(GetMsg(LINE, ()), Msg(offers)) + wire(
            PrefixQuery(cookie, kind, start, quantity, begins), cookie=COOKIE
        )
        wanted = tuple((f"capdqreply {one} {ANSWER}",) for one in expected)
        return Check(name, GREETED, f"capdmsg A B C, capdq {sent}", data, wanted, names=of.names, messages=of.messages)

    yield query("query-8", "8 bytes", MESSAGES, 8, "77 messages of 3: C B A")
    yield query("query-16", "16 bytes", MESSAGES, 16, "77 messages of 1: A")
    yield query("query-ids", "8 bytes, ids", IDS, 8, "77 ids of 3: C B A")
    yield query("query-page", "8 bytes, from 1, 1", MESSAGES, 8, "77 messages of 3: B", start=1, quantity=1)
    yield query("query-none", "what nobody has", MESSAGES, bytes(16), "77 messages of 0:")
    yield query("query-most", "2³² − 1 of them", MESSAGES, 8, "77 messages of 3: C B A", quantity=MOST)
    yield query("query-cookie", "cookie 2³² − 1", IDS, 16, f"{MOST} ids of 1: A", cookie=MOST)
    for length in (0, 1, 3, 17):
        content = b"x" * length
        yield query(f"query-{length}", f"{length} bytes", MESSAGES, content, f"77 bad length {length}")
    yield query("query-type", "type 9", 9, 8)


def _standing_query(trial: Trial) -> Iterator[Check]:
    wire, of = trial.wire, _Offers(trial, "standing")
    before, after, again = of.one("A"), of.one("B"), of.one("C")
    standing = PrefixQuery(77, MESSAGES | SUBSCRIBE, 0, 200, of.prefix)
    data = wire(GetMsg(LINE, ()), Msg((before,))) + wire(standing, cookie=COOKIE)
    sent = "capdmsg A, capdq with 0x80, capdmsg B, capdremove, capdmsg C"
    expected = ((f"capdqreply 77 messages of 1: A {ANSWER}",), ("capdqreply 77 messages of 1: B",))
    data += wire(Msg((after,)), Remove(77), Msg((again,)))
    yield Check("standing", GREETED, sent, data, expected, names=of.names, messages=of.messages)


def _bad_input(trial: Trial) -> Iterator[Check]:
    wire = trial.wire
    bomb = b"\xfe\xff\xff\xff\x0f"
    for name, sent, packet in (
        ("cut-message", "capdmsg cut short", Packet("capdmsg", b"\x01" + bytes(10), COOKIE)),
        ("long-number", "capdinv with a size in three bytes", Packet("capdinv", b"\x48\xfd\x01\x00" + MISSING, COOKIE)),
        ("count-bomb", "capdgetmsg of 268,435,455 ids", Packet("capdgetmsg", bytes(8) + bomb, COOKIE)),
        ("cut-query", "capdq cut short", Packet("capdq", bytes(5), COOKIE)),
    ):
        yield Check(name, GREETED, sent, wire(packet), ((f"reject {packet.command} 1 {ANSWER}",),))
    of = _Offers(trial, "bad-work")
    bad = of.known("bad", replace(of.one("A"), nonce=b"no work"))
    data = wire(Msg((bad, of.one("A"))))
    expected = (("capdinv A",),)
    yield Check("bad-work", GREETED, "capdmsg of one without work, and A", data, expected, names=of.names)
    of = _Offers(trial, "too-long")
    long_one = Packet("capdmsg").encoded(trial.magic)[:16] + b"\xff" * 8
    yield Check("too-long", GREETED, "a packet of 2³² − 1 bytes", long_one, then=CLOSED, is_harmful=True)


def _own(trial: Trial) -> Iterator[Check]:
    """Yield the checks of our own commands, which a node may ignore."""
    wire = trial.wire

    def check(name: str, sent: str, data: bytes, of: _Offers, *expected: str) -> Check:
        choices = tuple((one,) for one in expected)
        return Check(name, GREETED, sent, data, choices, names=of.names, messages=of.messages, is_own=True)

    of = _Offers(trial, "masked")
    offers = tuple(of.one(one) for one in "AB")
    mask = b"\xff" * 7 + b"\x0f" + b"\xff"
    pattern = Pattern.of(of.prefix + b"B", mask)
    data = wire(GetMsg(LINE, ()), Msg(offers)) + wire(MaskedQuery(5, IDS, 0, MOST, pattern), cookie=COOKIE)
    yield check("masked", "capdmsg A B, capdmaskq of B", data, of, f"capdqreply 5 ids of 1: B {ANSWER}")
    of = _Offers(trial, "held")
    data = wire(GetMsg(2.0, ()), Msg((of.one("A"),)), GetHeld((1 << 64) - 1))
    yield check("held", "capdmsg A, capdgetheld behind the last", data, of, f"capdheld {UNASKED}", "capdinv A")
    of = _Offers(trial, "rescinds")
    secret = sha256(trial.seed).digest()
    first = of.one("A", rescind_hash=rescind_hash_of(secret))
    data = wire(GetMsg(LINE, ()), Msg((first,)), RescindSecrets((secret,)), GetMsg(0.0, (first.own_id(),)))
    yield check("rescinds", "capdmsg A, capdrescind, capdgetmsg A", data, of, "capdrescind")


def _harmful(trial: Trial) -> Iterator[Check]:
    """Yield the checks that cost points, or a ban."""

    def check(name: str, sent: str, data: bytes, *expected: str, names: Mapping[bytes, str], then: str = "") -> Check:
        choices = tuple((one,) for one in expected)
        return Check(name, GREETED, sent, data, choices, then or "open", names, is_harmful=True)

    wire = trial.wire
    of = _Offers(trial, "below")
    data = wire(Msg((of.one("low", 1.5), of.one("A"))))
    yield check("below", "capdmsg of one below the floor, and A", data, "capdinv A", names=of.names)
    of = _Offers(trial, "future")
    data = wire(Msg((of.one("early", age_s=-3600), of.one("A"))))
    yield check("future", "capdmsg of one from the future, and A", data, "capdinv A", names=of.names)
    many = tuple(number.to_bytes(32, "little") for number in range(20_001))
    data = wire(Inv(many))
    yield check("20,001-ids", "capdinv of 20,001 ids", data, names=dict.fromkeys(many, "one"))
    data = wire(GetMsg(0.0, many[:10_001]))
    yield check("10,001-ids", "capdgetmsg of 10,001 ids", data, names={})
    other = next(magic for magic in MAGICS.values() if magic != trial.magic)
    data = packet_of(GetInfo()).encoded(other)
    said = "a packet of another network"
    yield replace(check("wrong-magic", said, data, names={}, then=CLOSED), is_banning=True)
