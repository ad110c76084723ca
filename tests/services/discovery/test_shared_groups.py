"""Groups shared by two discovery services, as values: the rules of both, with their messages carried by hand."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from router.core.service.meetings import MeetingLimits
from router.core.wire.address import parse_address
from router.core.wire.advert import make_advertisement
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import discovery as d
from router.service.roles import overlay as o
from services.discovery.core.messages import Message, Named, decode_message, encode_message
from services.discovery.rules import Discovery
from services.discovery.settings import Settings

NOW = c.Now(1_800_000_000, 1_000)
GROUPS = [SigningKey(bytes((3, number)) * 16).public for number in range(3)]


class Side:
    """The discovery service of one node, and its requests to its router."""

    def __init__(self, number: int, wanted: list[PublicKey], name: str = "", *, say_name: bool = True) -> None:
        self.name, self.settings = name, Settings(say_name=say_name)
        self.router = SigningKey(bytes((1, number)) * 16)
        self.service = SigningKey(bytes((2, number)) * 16)
        self.kept: dict[bytes, bytes] = {}
        self.start()
        for group in wanted:
            self.hear(d.Wanted(group, True))

    def start(self) -> None:
        """Start the service, the second time with its kept state."""
        given = "discovery", self.service.public, self.settings, self.kept, Random(1)
        self.rules = Discovery(c.Setup(*given, node_name=self.name))
        self.done: list[c.Deed] = []
        self.wake_s = 0.0
        self.hear(c.Started(self.router.public))

    def hear(self, heard: c.Heard, seconds: float = 0.0) -> None:
        for deed in self.rules.hear(heard, c.Now(NOW.wall_s + seconds, NOW.mono_s + seconds)):
            if isinstance(deed, c.Wake):
                self.wake_s = deed.at_s - NOW.wall_s
            elif isinstance(deed, c.Put):
                self.kept[deed.key] = deed.value or b""
            else:
                self.done.append(deed)

    def sees(self, other: Side) -> None:
        """Let the service hear the other's datagram."""
        address, expiry = parse_address("tls://192.168.0.2:4100"), expiry_min(NOW.wall_s + 600)
        advert = make_advertisement(
            other.router, [address], services={"discovery": other.service.public}, rev=1, expiry_min=expiry
        )
        self.rules.known.nearby[other.router.public] = advert
        self.hear(c.Sent("", MessageId(bytes(32))))

    def take(self, kind: type[c.Deed]) -> list[c.Deed]:
        found = [one for one in self.done if isinstance(one, kind)]
        self.done = [one for one in self.done if not isinstance(one, kind)]
        return found


def carry(sides: list[Side], seconds: float) -> list[tuple[Side, Message]]:
    """Let time pass up to that second, and carry the services' messages; return them, each with who heard it."""
    carried = list[tuple[Side, Message]]()
    for side in sides:
        side.hear(c.Tick(), seconds)
    while sent := [(side, one) for side in sides for one in side.take(c.Send)]:
        for sender, one in sent:
            assert isinstance(one, c.Send)
            to = next(side for side in sides if side.router.public == one.via)
            assert (one.to, one.ttl_s) == (to.service.public, 30)
            source, via = sender.service.public, sender.router.public
            to.hear(c.Message(MessageId(bytes(32)), one.body, source=source, via=via), seconds)
            carried.append((to, decode_message(one.body)))
    return carried


def test_both_let_their_routers_agree_on_what_both_want() -> None:
    one, two = Side(1, GROUPS[:2]), Side(2, GROUPS[1:])
    assert one.take(o.AckWanted) == [o.AckWanted(group, True) for group in GROUPS[:2]]
    one.sees(two)
    two.sees(one)
    carry([one, two], 0.0)
    assert not one.take(d.ShareGroups) and one.wake_s == MeetingLimits().start_s
    carry([one, two], 1.0)
    until_s = int(NOW.wall_s) + 1 + 7200
    assert one.take(d.ShareGroups)[-1] == d.ShareGroups(two.router.public, (GROUPS[1],), until_s, lan=True)
    assert two.take(d.ShareGroups)[-1] == d.ShareGroups(one.router.public, (GROUPS[1],), until_s, lan=True)
    one.hear(d.Wanted(GROUPS[1], False), 20.0)
    assert one.wake_s < 22
    carry([one, two], 21.0)
    for side, other in ((one, two), (two, one)):
        assert side.take(d.ShareGroups)[-1] == d.ShareGroups(
            other.router.public, (), int(NOW.wall_s) + 21 + 7200, lan=True
        )


def test_names_are_said_to_those_alone_with_whom_groups_are_in_common() -> None:
    ann, bob, eve = Side(1, GROUPS[:1], "ann"), Side(2, GROUPS[:1], "bob", say_name=False), Side(3, GROUPS[2:], "eve")
    for side, other in permutations((ann, bob, eve), 2):
        side.sees(other)
    said = [(to.name, one.name) for to, one in carry([ann, bob, eve], 1.0) if isinstance(one, Named)]
    assert set(said) == {("ann", ""), ("bob", "ann")}
    assert not ann.take(c.Refuse) and not bob.take(c.Refuse), "each has agreed before it hears the other's name"


def test_a_name_is_taken_from_nobody_else() -> None:
    one, near, far = Side(1, GROUPS), Side(2, []), Side(3, GROUPS)
    one.sees(near)
    for other in (near, far):
        body, source, via = encode_message(Named("hub")), other.service.public, other.router.public
        one.hear(c.Message(MessageId(bytes(32)), body, source=source, via=via))
    [refused] = one.take(c.Refuse)
    assert isinstance(refused, c.Refuse) and "routers nearby" in refused.text
    assert not one.take(c.AddNeighbour)


def test_who_is_not_near_is_not_met_and_keeps_what_was_agreed() -> None:
    one, two = Side(1, GROUPS), Side(2, GROUPS)
    two.sees(one)
    carry([one, two], 1.0)
    assert one.take(c.Refuse) == [
        c.Refuse(Reason.NOT_AUTHORISED, "only the discovery services of routers nearby are met")
    ]
    assert not one.take(d.ShareGroups)
    one.sees(two)
    carry([one, two], 7.0)
    assert one.take(d.ShareGroups) and two.take(d.ShareGroups)
    for side in (one, two):
        side.rules.known.nearby.clear()
    carry([one, two], 4000.0)
    assert not one.take(d.ShareGroups) and not two.take(d.ShareGroups), "nobody is met, and nothing taken back"


@pytest.mark.parametrize("again", [False, True])
def test_lan_off_ends_what_was_agreed_at_once_also_with_who_was_near_before_a_restart(again: bool) -> None:
    one, others = Side(1, GROUPS), [Side(number, GROUPS) for number in (2, 3, 4)]
    for other in others:
        one.sees(other)
        other.sees(one)
    carry([one, *others], 1.0)
    if again:
        one.start()
    one.take(d.ShareGroups)
    one.hear(c.Asked(1, "lan", "off"), 2.0)
    keys = {side.router.public for side in others}
    done = [*one.take(d.ShareGroups), *one.take(c.AddNeighbour)]
    assert {deed.key for deed in done if isinstance(deed, d.ShareGroups) and not deed.groups} == keys
    assert {deed.key for deed in done if isinstance(deed, c.AddNeighbour) and not deed.until_s} == keys
    assert not one.kept.get(b"agreed")
    one.hear(c.Asked(2, "lan", "off"), 3.0)
    assert not one.take(d.ShareGroups)


def test_who_speaks_for_another_is_refused() -> None:
    one, two, three = Side(1, GROUPS), Side(2, GROUPS), Side(3, GROUPS)
    one.sees(two)
    one.sees(three)
    two.sees(one)
    two.hear(c.Tick(), 1.0)
    [sent] = two.take(c.Send)
    assert isinstance(sent, c.Send)
    for source, via in ((two.service, three.router), (three.service, two.router)):
        one.hear(c.Message(MessageId(bytes(32)), sent.body, source=source.public, via=via.public), 1.0)
        assert len(one.take(c.Refuse)) == 1
    one.hear(c.Message(MessageId(bytes(32)), sent.body, source=two.service.public), 1.0)
    assert len(one.take(c.Refuse)) == 1, "an app of this node meets nobody"
