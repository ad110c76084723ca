"""Messages refused at the door are counted exactly, and cannot fill the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import INT64_MAX, Event, Noted, RouterChange, Turned, encode_events, stands_for
from router.core.log.line import lines
from router.core.neighbours.directory import Neighbour, Standing
from router.core.routing.limits import CoreLimits, RejectionLimits
from router.core.routing.rejection_log import BURST_PART, LINE_BYTES, STRANGERS_APART_MAX
from router.core.wire.control import Join, Leave, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, seal_multicast, seal_unicast
from router.core.wire.reasons import DIAL_BUDGET, Reason
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer

PEER = SigningKey(b"p" * 32)
EXPIRY = expiry_min(WALL_S + 3600)
NOWHERE = SigningKey(b"n" * 32).public
BOOT = b"b" * 16


def letter(number: int, to: PublicKey = NOWHERE, source: SigningKey = ALICE, ttl_s: int = 60) -> bytes:
    return seal_unicast(source, to, number.to_bytes(4, "big"), ttl_s=ttl_s, expiry_min=EXPIRY)


LETTERS = [letter(number) for number in range(400)]


def news(number: int) -> bytes:
    return seal_multicast(GROUP, number.to_bytes(4, "big"), ttl_s=60, expiry_min=EXPIRY)


def house(limits: RejectionLimits | None = None) -> OneRouter:
    return OneRouter(Neighbour(PEER.public), limits=CoreLimits(rejections=limits or RejectionLimits()), strangers=True)


def stranger(number: int) -> SigningKey:
    return SigningKey(number.to_bytes(32, "big"))


def written(events: list[Event]) -> list[Turned]:
    return [one for one in events if isinstance(one, Turned)]


def log_bytes(events: list[Event]) -> int:
    """Return the bytes of these events as lines of the log, each with its newline."""
    return sum(len(line) + 1 for line in lines(encode_events(events, 1, BOOT), ME.public))


# -- sums ---------------------------------------------------------------------------------------------------------


def test_one_event_a_second_for_each_neighbour_and_reason_with_count_and_bytes() -> None:
    one = house()
    app, peer = one.link(ALICE.public), one.link(PEER.public, role="router", owner=False)
    one.events.clear()
    for at in range(0, 300, 10):
        one.bring(app, *LETTERS[at : at + 10])
        one.bring(peer, *LETTERS[at : at + 5], b"\x80")
        one.cycle()
    assert not written(one.events), "what is turned away alone is not worth a transaction"
    one.pass_time(0.5)
    size = len(LETTERS[0]) + 3
    found = {(event.neighbour, event.reason): event for event in written(one.events)}
    assert {which: (event.count, event.link) for which, event in found.items()} == {
        (ALICE.public, Reason.NO_ROUTE): (300, app),
        (PEER.public, Reason.NOT_LOCAL_SOURCE): (150, peer),
        (PEER.public, Reason.MALFORMED): (30, peer),
    }
    assert found[ALICE.public, Reason.NO_ROUTE].size in (300 * (size - 1), 300 * size)
    assert found[PEER.public, Reason.MALFORMED].size == 60 and not found[PEER.public, Reason.MALFORMED].ids
    assert {event.duration_ns for event in found.values()} == {500_000_000}
    assert not one.router.rejections.waiting(one.now())


def test_settling_does_not_wait_for_the_sum() -> None:
    one = house()
    app = one.link(ALICE.public)
    one.bring(app, LETTERS[0])
    one.cycle()
    assert one.settled()[app] == (1, [(1, Reason.NO_ROUTE, "")])


def test_ids_are_named_as_far_as_their_budget_goes() -> None:
    one = house(RejectionLimits(ids_max=16))
    app, far = one.link(ALICE.public), one.link(stranger(1).public, owner=False)
    other = one.link(stranger(2).public, owner=False)
    one.bring(app, *LETTERS[:20])
    one.bring(far, *LETTERS[:20])
    one.bring(other, *LETTERS[:20])
    one.cycle()
    one.pass_time(1)
    named = {event.neighbour: len(event.ids) // 32 for event in written(one.events)}
    assert named == {ALICE.public: 16, stranger(1).public: 2, stranger(2).public: 0}
    assert written(one.events)[0].ids[:32] == message_id(LETTERS[0])
    one.events.clear()
    one.bring(app, LETTERS[20])
    one.cycle()
    one.pass_time(1)
    assert [event.ids for event in written(one.events)] == [message_id(LETTERS[20])], "the next second names again"


def test_duplicates_are_summed_as_well() -> None:
    one = house()
    alice, bob = one.link(ALICE.public), one.link(BOB.public)
    one.bring(bob, seal_unicast(BOB, ME.public, encode_control(Join(GROUP.public, False)), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    one.bring(alice, news(1))
    one.cycle()
    for _ in range(3):
        one.bring(alice, news(1), news(1))
        one.cycle()
    one.pass_time(1)
    [event] = written(one.events)
    assert (event.event, event.count, event.ids) == ("duplicate", 6, message_id(news(1)) * 6)


def test_many_strangers_share_one_sum() -> None:
    one = house()
    for number in range(1, 41):
        link = one.link(stranger(number).public, owner=False)
        one.bring(link, *LETTERS[:3])
        one.cycle()
        one.router.link_down(link, one.now())
    one.cycle()
    one.pass_time(1)
    found = written(one.events)
    assert len(found) == STRANGERS_APART_MAX + 1 and sum(event.count for event in found) == 120
    [rest] = [event for event in found if event.neighbour is None]
    assert (rest.count, rest.link) == (3 * (40 - STRANGERS_APART_MAX), 0)


def test_what_is_summed_is_written_when_the_node_stops() -> None:
    one = house(RejectionLimits(apps_bytes_max=0))
    app = one.link(ALICE.public)
    for _ in range(2):
        one.bring(app, *LETTERS[:3])
        one.cycle()
        one.router.rejections.write_all(one.now())
        one.cycle()
    assert [event.count for event in written(one.events)] == [3, 3]


def test_what_is_asked_for_is_written_first() -> None:
    """Only the owner gets all sums written; another asker only its own, and not beyond the budget."""
    one = house(RejectionLimits(known_bytes_max=8 * 2 * LINE_BYTES + 8 * 128))
    app, peer = one.link(ALICE.public), one.link(PEER.public, role="router", owner=False)
    one.bring(app, LETTERS[0])
    one.bring(peer, LETTERS[0], LETTERS[1])
    one.cycle()
    log, wanted = one.router.rejections, message_id(LETTERS[0])
    assert not log.write_naming(message_id(LETTERS[2]).__eq__, None, one.now())
    assert not log.write_naming(wanted.__eq__, BOB.public, one.now())
    log._budgets[Standing.PEER]._left = 2 * LINE_BYTES
    assert log.write_naming(wanted.__eq__, PEER.public, one.now())
    one.bring(peer, LETTERS[0])
    one.cycle()
    assert not log.write_naming(wanted.__eq__, PEER.public, one.now()), "the budget is used up"
    assert log.write_naming(wanted.__eq__, None, one.now()) and not log.waiting(one.now())
    one.cycle()
    assert [event.neighbour for event in written(one.events)] == [PEER.public, ALICE.public, PEER.public]


# -- the bound ----------------------------------------------------------------------------------------------------


LIMITS = RejectionLimits(256, 200_000, 200_000, 50_000, 300.0)


def test_a_line_is_no_longer_than_it_is_taken_for() -> None:
    key = b"\xff" * 32
    longest = max(Reason, key=lambda reason: len(reason.word))
    turned = Turned(INT64_MAX, INT64_MAX, "duplicate", key, INT64_MAX, longest, b"", 10**15, None, 10**15, 10**15)
    fields = (("peer", key), ("link", INT64_MAX), ("standing", "stranger"))
    state = RouterChange(INT64_MAX, INT64_MAX, "link_down", fields)
    times = RouterChange(INT64_MAX, INT64_MAX, "link_down", (("standing", "stranger"), ("times", 10**15)))
    for event in (turned, state, times):
        assert log_bytes([event]) + 30 < LINE_BYTES, "30: its sequence number may have more digits"


@pytest.mark.parametrize(("whose", "most"), [("app", 200_000), ("known", 200_000), ("strangers", 50_000)])
def test_what_is_turned_away_takes_no_more_than_its_share(whose: str, most: int) -> None:
    """For as long as the log is kept, fifty messages a second are refused; those of strangers come from a new key every
    second."""
    one = house(LIMITS)
    brought = 0
    number = one.link({"app": ALICE, "known": PEER, "strangers": stranger(1)}[whose].public, owner=whose == "app")
    one.events.clear()
    for second in range(300):
        if whose == "strangers":
            one.router.link_down(number, one.now())
            number = one.link(stranger(second + 2).public, owner=False)
        one.bring(number, *LETTERS[:48], b"\x80", b"")
        brought += 50
        one.pass_time(1)
    assert log_bytes(one.events) <= most * (BURST_PART + 1) / BURST_PART
    assert sum(count for _, _, count in one.turned()) == brought, "nothing is counted twice or forgotten"
    if whose == "strangers":
        one.router.rejections.write_all(one.now())
        one.cycle()
        ups = [dict(one.fields).get("times", 1) for one in one.events if isinstance(one, RouterChange)]
        assert sum(times for times in ups if isinstance(times, int)) == 600, "each came and went"


def test_an_acceptance_outlives_a_flood_of_junk(tmp_path: Path) -> None:
    """The log is kept at 512 KiB, and twice that amount of junk does not prune earlier acceptances."""
    keep_bytes, keep_s = 512 << 10, 600.0
    one = house(RejectionLimits.shares(256, keep_bytes, keep_s, 25, 5))
    app, peer = one.link(ALICE.public), one.link(PEER.public, role="router", owner=False)
    one.bring(app, letter(1, ALICE.public))
    one.cycle()
    one.events, before = [], one.events
    segments = Segments(tmp_path, ME, LogLimits(segment_bytes=8192))
    sealer, seq = Sealer(segments), 1

    def log(events: list[Event]) -> None:
        nonlocal seq
        if events:
            sealer.add(encode_events(events, seq, BOOT), 0.0)
            seq = sealer.next_seq
        if sealer.due(0.0):
            sealer.seal()

    log(before)
    sealer.seal()
    for second in range(600):
        if second < 100:
            one.bring(peer, *LETTERS)
            one.bring(app, *LETTERS)
        far = one.link(stranger(second + 1).public, owner=False)
        one.bring(far, *LETTERS[:50])
        one.pass_time(1)
        one.router.link_down(far, one.now())
        log(one.events)
        one.events.clear()
    sealer.seal()
    assert segments.prune(WALL_S, keep_s, keep_bytes) == 0
    assert (
        message_id(letter(1, ALICE.public)).hex().encode() in (tmp_path / "events-0000000000000001.jsonl").read_bytes()
    )


# -- links --------------------------------------------------------------------------------------------------------


def test_a_link_is_named_as_soon_as_something_is_handed_to_it() -> None:
    one = house(replace(LIMITS, strangers_bytes_max=0))
    one.router.directory.public = frozenset({BOB.public})
    bob, far = one.link(BOB.public), one.link(stranger(1).public, owner=False)
    assert one.states().count("link_up") == 1, "of a stranger without a budget none is named"
    one.bring(bob, letter(1, stranger(1).public, BOB, ttl_s=0))
    one.cycle()
    assert len(one.handed(far)) == 1 and one.states().count("link_up") == 2
    one.router.link_down(far, one.now())
    one.cycle()
    assert dict(one.events[-1].fields)["link"] == far, "and its end is named as well"  # type: ignore[union-attr]


@pytest.mark.parametrize("standing", ["stranger", "client", "app"])
def test_what_is_joined_and_left_is_counted_beyond_the_budget(standing: str) -> None:
    """Joining and leaving cannot fill the log, whether a grant allows it or anybody may."""
    one = house(LIMITS)
    budget = {"stranger": LIMITS.strangers_bytes_max, "client": LIMITS.known_bytes_max, "app": LIMITS.apps_bytes_max}
    one.router.directory.join_open = standing == "stranger"
    if standing == "client":
        one.router.directory.replace_neighbours([Neighbour(bytes(stranger(1).public), grants=frozenset({"join"}))])
    far = one.link(stranger(1).public, owner=standing == "app")
    for at in range(300):
        said = Leave(GROUP.public) if at % 2 else Join(GROUP.public, False)
        wire = seal_unicast(stranger(1), ME.public, encode_control(said), ttl_s=0, expiry_min=EXPIRY)
        one.bring(far, wire)
        one.pass_time(0.1)
        one.told(far), one.settled()
    assert log_bytes(one.events) <= budget[standing] * (BURST_PART + 1) / BURST_PART
    one.router.rejections.write_all(one.now())
    one.cycle()
    for event in ("join", "leave"):
        found = [stands_for(state) for state in one.events if isinstance(state, RouterChange) and state.event == event]
        assert sum(found) == 150 > len(found)


# -- addresses that are not dialled -------------------------------------------------------------------------------


def test_addresses_that_are_not_dialled_are_written_by_network_once_a_minute_at_the_cost_of_strangers() -> None:
    one = house()
    one.router.rejections.dials.count(DIAL_BUDGET, 997, prefix="45.0.0.0/24")
    one.pass_time(61)
    [noted] = [event for event in one.events if isinstance(event, Noted)]
    assert (noted.event, noted.service, noted.reason) == ("dial_refused", ME.public, DIAL_BUDGET)
    assert dict(noted.fields) == {"service": "router", "prefix": "45.0.0.0/24", "times": 997}
    one.router.rejections.dials.count(DIAL_BUDGET, prefix="45.0.1.0/24")
    one.pass_time(30)
    assert len([event for event in one.events if isinstance(event, Noted)]) == 1
    one.router.rejections.write_all(one.now())
    one.cycle()
    assert len([event for event in one.events if isinstance(event, Noted)]) == 2


def test_without_a_budget_they_are_counted_until_there_is_one() -> None:
    one = house(RejectionLimits(strangers_bytes_max=LINE_BYTES, keep_s=86_400))
    for minute in range(60):
        one.router.rejections.dials.count(DIAL_BUDGET, prefix=f"45.0.{minute}.0/24")
        one.pass_time(61)
    notes = [event for event in one.events if isinstance(event, Noted)]
    assert len(notes) <= 2
    one.router.rejections.write_all(one.now())
    one.cycle()
    assert sum(stands_for(event) for event in one.events if isinstance(event, Noted)) == 60
