"""Values of every message between pub/sub services with fixed keys, shared by several tests."""

from __future__ import annotations

from router.core.wire.meeting import Meet, Met
from samples.core import ADVERTISEMENTS, BOB, GROUP, IDS
from samples.discovery import FILLER, FIRST, MEETING, SECOND
from services.pubsub.core.messages import (
    AskGroups,
    AskInterests,
    AskRings,
    AskSums,
    Compare,
    Compared,
    Filter,
    Have,
    Interested,
    Member,
    Message,
    Ring,
    Sum,
    TellGroups,
    TellInterests,
    TellRings,
    TellSums,
    make_filter,
)

T, OTHER_T = b"t" * 16, b"u" * 16
FILTERS: tuple[Filter, ...] = make_filter(BOB, 0, bytes(128)), make_filter(BOB, 1_790_000_000_000, b"\x55" * 128)
VIEW = (Interested(0, ADVERTISEMENTS[0], FILTERS[0]), Interested(255, ADVERTISEMENTS[1], FILTERS[1]))
RINGS = (Ring(T, (Member(0, 0), Member(1, 25))), Ring(OTHER_T, (Member(1, 255),)))

MESSAGES: tuple[Message, ...] = (
    Meet(FIRST),
    Met(FIRST, SECOND, MEETING.tags([GROUP.public], FILLER)[:2]),
    AskInterests(FILTERS[1], VIEW[:1]),
    TellInterests(FILTERS[0], ()),
    AskRings(ADVERTISEMENTS[:1], (Ring(T, (Member(0, 25),)),)),
    TellRings((), (Ring(T, ()),)),
    Compare(T, 0, 23, b"a"),
    Compare(T, 0, 23, b"a", 0),
    Compared(T, 3_100_000, (1 << 32) - 1, b"\x61" + bytes(40)),
    Compared(T, 3_100_000, (1 << 32) - 1, b"\x61" + bytes(40), bytes.fromhex("01000000070001"), 7),
    Have(T, IDS[:1]),
    Have(OTHER_T, IDS[:3]),
    AskGroups(T, 0, b"a"),
    TellGroups(OTHER_T, 63, b"\0" + bytes(40)),
    AskSums(0, 0, (Sum(T, bytes(16)),)),
    AskSums((1 << 32) - 1, 3_100_000, (Sum(T, OTHER_T), Sum(OTHER_T, T))),
    TellSums(7, b"\0\1\2"),
)
