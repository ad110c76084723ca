"""Any commands of neighbours, in any pieces: the pool goes on, and its counts equal what there is."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from samples.capd import BORN, posted
from samples.capd_net import REGTEST, Client, Pool, peers

from router.service import contract as c
from services.capd.core import messages as m
from services.capd.core import rows
from services.capd.core.message import CapdMessage, rescind_hash_of
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa.envelope import Packet
from services.capd.core.nexa.limits import NexaLimits
from services.capd.core.nexa.neighbours import DOOR
from services.capd.core.nexa.packets import ExtVersion, Ping, Pong, Verack, packet_of
from services.capd.core.pattern import Pattern
from services.capd.settings import Settings

SECRET = b"secret"
LIMITS = NexaLimits(
    units_burst=400, units_per_s=50, subscriptions=4, masked=2, subscriptions_of_address=6, waiting_ids=12,
    waiting_requests=6, wanted_ids=8, outstanding_ids=3, unread_bytes=2_000, announce_bytes=1_500, ping_bytes=800,
    told_max=3, asked_max=4, of_address=3, neighbours_max=4, addresses_max=3,
)  # fmt: skip
STORED = [
    *(posted(b"TK%d" % number + bytes(300), 2.2 + number / 4) for number in range(8)),
    posted(b"TK rescindable", 3.0, secret_hash=rescind_hash_of(SECRET)),
    posted(b"TK expiring", 3.0, expiration=20),
    posted(b"TK expired", 3.0, expiration=0),
    posted(b"TK faded", 4.0, BORN - 590),
    posted(b"TK of the future", 3.0, BORN + 3),
    CapdMessage(b"TK without work", BORN, 0x1F00FFFF, b"n" * 300),
    CapdMessage(b"TK without end", (1 << 64) - 1, 0, b"", 0),
    CapdMessage(b"", 0, 0xFFFFFFFF),
]
IDS = [one.own_id() for one in STORED] + [bytes(32)]
FLOATS = st.sampled_from([0.0, 2.0, 2.5, -1e300, 1e300, float("nan"), float("inf"), -0.0])
NUMBERS = st.sampled_from([0, 1, 2, 5, 0xFFFFFFFF])
SOME_IDS = st.lists(st.sampled_from(IDS), min_size=2, max_size=9).map(tuple)
KINDS = st.sampled_from([0, 1, 2, 3, 9, 0x80, 0x81, 0x82, 0xFF])
SOME = st.lists(st.sampled_from(STORED), min_size=1, max_size=6).map(tuple)
COMMON: st.SearchStrategy[Any] = st.one_of(
    SOME.map(n.Msg),
    st.builds(n.GetMsg, FLOATS, SOME_IDS),
    st.builds(
        n.PrefixQuery, NUMBERS, KINDS, NUMBERS, NUMBERS, st.sampled_from([b"TK", b"TK1\0", b"TK1" + bytes(13), b"T"])
    ),
    st.just(own.RescindSecrets((SECRET, b"of nothing"))),
)
OTHER: st.SearchStrategy[Any] = st.one_of(
    st.builds(n.Inv, SOME_IDS, st.sampled_from([72, 72, 73])),
    st.builds(
        n.PrefixQuery, NUMBERS, KINDS, NUMBERS, NUMBERS,
        st.sampled_from([b"", b"TK", b"TK1\0", b"TK1" + bytes(13)]),
    ),
    st.builds(
        own.MaskedQuery, NUMBERS, KINDS, NUMBERS, NUMBERS,
        st.sampled_from([Pattern.prefix(b""), Pattern.of(b"T", b"\xff"), Pattern.of(b"\0\0r", b"\0\0\x0f")]),
    ),
    st.builds(n.Remove, NUMBERS), st.builds(own.GetHeld, NUMBERS, NUMBERS), st.builds(own.HeldIds, NUMBERS, SOME_IDS),
    st.just(own.RescindSecrets((SECRET, b"of nothing"))), st.builds(n.PoolLines, FLOATS, FLOATS, FLOATS),
    st.just(n.GetInfo()),
    st.builds(n.IdsReply, NUMBERS, NUMBERS, SOME_IDS), st.builds(n.MessagesReply, NUMBERS, NUMBERS, SOME),
    st.just(Ping(1)), st.just(Pong(1)), st.just(Packet("capdmsg", b"\x05")), st.just(Packet("block", bytes(9000))),
)  # fmt: skip
SAID = st.one_of(COMMON, COMMON, OTHER)
RARE = st.one_of(
    st.sampled_from([Verack(), ExtVersion({}), Packet("\n")]), st.just(Packet("capdinv", bytes(2_000_000)))
)
STEPS = st.one_of(
    st.tuples(
        st.just("say"), st.integers(0, 2), st.lists(SAID, min_size=4, max_size=9), st.sampled_from([40, 1 << 20])
    ),
    st.tuples(st.just("say"), st.integers(0, 2), st.lists(RARE, min_size=1, max_size=1), st.just(1 << 20)),
    st.tuples(st.sampled_from(["read", "leave"]), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.sampled_from([1, 5, 30, 125])),
    st.tuples(st.just("post"), st.sampled_from(STORED)),
)


class Talk:
    """A pool, and three clients at two addresses; a client that was closed comes again."""

    def __init__(self, profile: str) -> None:
        given = Settings(network="regtest", profile=profile, pool_bytes=4096)  # type: ignore[arg-type]
        self.pool = Pool(given, LIMITS)
        self.clients = [self.client(number) for number in range(3)]

    def client(self, number: int) -> Client:
        return Client(self.pool, ("127.0.0.1:1", "127.0.0.1:2", "203.0.113.7:1")[number], 5 + number)

    def step(self, word: str, *of: Any) -> None:
        match word, *of:
            case "say", number, said, size:
                client = self.clients[number]
                data = b"".join(
                    (one if isinstance(one, Packet) else packet_of(one)).encoded(REGTEST) for one in said
                )  # fmt: skip
                for at in range(0, len(data), size):
                    client.send(data[at : at + size])
            case "read", number:
                client = self.clients[number]
                client.is_reading = not client.is_reading
                if client.is_reading and not client.is_closed:
                    data, client.unread = bytes(client.unread), bytearray()
                    client.written(data) if data else None
            case "leave", number:
                if not self.clients[number].is_closed:
                    self.pool.hear(c.Came(DOOR, self.clients[number].peer, b""))
                self.clients[number] = self.client(number)
            case "wait", seconds:
                self.pool.pass_time(seconds)
            case "post", message:
                self.pool.ask(m.Post(1, message.encoded()))
        for client in self.clients:
            client.take()

    def check(self) -> None:
        """Check that the rows on disk are the pool's messages, and that counts equal what there is."""
        kept = {rows.read_kept(value).id for key, value in self.pool.kept.items() if key.startswith(rows.MESSAGE)}
        info = self.pool.ask(m.Info(1))
        assert info.count == len(kept) and info.size <= 4096
        neighbours = self.pool.rules._neighbours
        subscriptions = neighbours._exchange._serving.subscriptions
        all_of_them = list(neighbours._neighbours.values())
        assert len(all_of_them) <= 4 and len(peers(self.pool)["neighbours"]) == len(all_of_them)
        assert len(subscriptions) == sum(one.subscriptions for one in all_of_them)
        known = neighbours._addresses._known
        assert sum(one.subscriptions for one in known.values()) == len(subscriptions)
        for one in all_of_them:
            assert 0 <= one.subscriptions <= 4 and 0 <= one.waiting_ids <= 12 and len(one.requests) <= 7
            assert one.waiting_ids == sum(len(r.message.ids) for r in one.requests if isinstance(r.message, n.GetMsg))
            assert len(one.told) <= 3 and len(one.lacking.wanted) <= 8 and len(one.lacking.asked) <= 3
            assert one.unread_bytes + one.session.queued_bytes <= 2_000 + 8 * 700 or one.fault


@settings(max_examples=settings().max_examples, deadline=None)
@given(st.sampled_from(["strict", "compat"]), st.lists(STEPS, min_size=4, max_size=14))
def test_pool_counts_right_after_any_talk(profile: str, steps: list[tuple[Any, ...]]) -> None:
    talk = Talk(profile)
    for step in steps:
        talk.step(*step)
    talk.check()
    noted = [one for note in talk.pool.events("capd_accepted") for one in (note.message, *note.messages) if one]
    evicted = [one for note in talk.pool.events("capd_evicted") for one in (note.message, *note.messages) if one]
    assert len(noted) - len(evicted) >= talk.pool.ask(m.Info(1)).count
