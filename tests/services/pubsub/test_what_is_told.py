"""Information that a met neighbour gets about groups: tags and filters, by which it finds no group that it does not
know."""

from __future__ import annotations

from base64 import b32encode, b64encode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator

from blake3 import blake3
from rigs.pubsub_sides import NOW, Side, Sides

from router.core.wire.crypto import MessageId, PublicKey, SigningKey, digest
from router.core.wire.lifetime import expiry_min
from router.core.wire.meeting import TAG_BYTES, TAGS_STEP, Met
from router.core.wire.message import seal_multicast
from router.core.wire.text import key_text
from router.service import contract as c
from services.pubsub.core.meetings.filters import bits_of
from services.pubsub.core.messages import (
    AskInterests,
    AskRings,
    Message,
    TellInterests,
    TellRings,
    decode_message,
)

KEYS = [SigningKey(bytes((21, number)) * 16) for number in range(20)]
SHARED, *OWN = (key.public for key in KEYS)
SECONDS = 60.0


def traces(group: PublicKey) -> Iterator[bytes]:
    """Yield a group's key and the values that can be computed from it alone, as bytes and as text."""
    alone = [bytes(group), digest(group), digest(b"upsycle interest 1" + group), digest(b"upsycle topic 1" + group)]
    alone += [bytes(one)[::-1] for one in alone] + [one[:TAG_BYTES] for one in alone]
    alone.append(blake3(b"upsycle interest 1" + group).digest(8))
    yield from alone
    for one in alone:
        yield from (
            one.hex().encode(),
            b64encode(one).rstrip(b"="),
            urlsafe_b64encode(one).rstrip(b"="),
            b32encode(one),
        )
    yield key_text("group", group).encode()


def found(groups: Iterable[PublicKey], said: Iterable[bytes]) -> list[bytes]:
    everything = b"\0".join(said)
    return [one for group in groups for one in traces(group) if one in everything]


def test_what_is_searched_for_would_be_found() -> None:
    for trace in traces(SHARED):
        assert found([SHARED], [b"before " + trace + b" after"])
    assert not found(OWN, [bytes(SHARED)])


def told(wanted: Iterable[PublicKey]) -> list[bytes]:
    """Return the messages of a node that wants these groups to one that wants one, once discovery has named each to the
    other."""
    one, other = Side(1, wanted), Side(2, [SHARED])
    sides = Sides(one, other)
    sides.link(one, other)
    for here, there in ((one, other), (other, one)):
        here.hear(c.Message(MessageId(bytes(32)), there.advert().message, group=here.advert().services["discovery"]))
    sides.pass_time(SECONDS)
    assert one.neighbours(SHARED) == {other.router.public}
    assert sum(sender is other for sender, _ in sides.sent) > 10
    return [sent.body for sender, sent in sides.sent if sender is one]


def by_kind(said: Iterable[bytes]) -> dict[type[Message], list[bytes]]:
    kinds = defaultdict(list)
    for body in said:
        kinds[type(decode_message(body))].append(body)
    return kinds


def test_a_neighbour_is_told_no_key_of_any_group() -> None:
    said = told([SHARED, *OWN])
    assert {AskInterests, AskRings, Met, TellInterests, TellRings} <= by_kind(said).keys()
    assert not found([SHARED, *OWN], said)


def test_a_meeting_tells_of_one_group_as_much_as_of_all() -> None:
    few, many = (by_kind(told(wanted))[Met] for wanted in ([SHARED], [SHARED, *OWN]))
    assert {len(body) for body in few} == {len(body) for body in many}
    for body in many:
        met = decode_message(body)
        assert isinstance(met, Met) and len(set(met.tags)) == TAGS_STEP and list(met.tags) == sorted(met.tags)


def test_rings_name_only_groups_that_are_shared() -> None:
    rings = by_kind(told([SHARED, *OWN]))
    asked = [
        said
        for body in [*rings[AskRings], *rings[TellRings]]
        if isinstance(said := decode_message(body), AskRings | TellRings)
    ]
    assert asked and all(len(said.rings) == 1 for said in asked)


def test_a_filter_differs_only_in_bits_of_the_group() -> None:
    """A filter reveals nothing about other groups, and its bits for this one are drawn by chance."""
    filters = []
    for wanted in ([SHARED], [SHARED, OWN[0]]):
        side = Side(1, wanted)
        side.seconds = 60.0
        side.hear(c.Tick())
        mine = side.mine()
        assert mine is not None
        filters.append(int.from_bytes(mine.bits, "little"))
    changed = filters[0] ^ filters[1]
    assert {bit for bit in range(1024) if changed >> bit & 1} <= set(bits_of(OWN[0]))


def test_a_message_goes_only_to_those_with_which_its_group_is_shared() -> None:
    one, other = Side(1, [SHARED, OWN[0]]), Side(2, [SHARED])
    sides = Sides(one, other)
    sides.link(one, other)
    sides.pass_time(30.0)
    forwarded = []
    for number, group in enumerate(KEYS[:2]):
        one.done.clear()
        wire = seal_multicast(group, b"sealed", ttl_s=60, expiry_min=expiry_min(NOW.wall_s + 3_600))
        one.hear(c.Message(MessageId(bytes(31) + bytes([number])), b"sealed", group=group.public, wire=wire))
        forwarded.append([deed.via for deed in one.take(c.Forward)])
    assert forwarded == [[other.router.public], []]
