"""What is published in a group that nobody here reads goes to a pub/sub service that asked for it, by value."""

from __future__ import annotations

from collections.abc import Sequence

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.neighbours.directory import Neighbour
from router.core.routing.fanned import UNJOINED_S
from router.core.routing.intake import Refusal
from router.core.wire.admin import encode_inquiry
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.reasons import Reason
from router.service.verbs.fan_out import FanOut
from router.service.verbs.take_part import TakeParts

SERVICE = SigningKey(bytes((61,)) * 32)
EXPIRY = expiry_min(WALL_S + 600)
UPLINK = SigningKey(bytes((62,)) * 32)
OTHERS = [SigningKey(bytes((64, number)) * 16) for number in range(4)]
TERMS = FanOut(8, 8, 8)


class House(OneRouter):
    """A router with an app, a client and an uplink, whose pub/sub service is connected."""

    def __init__(self, *, is_alone: bool = False) -> None:
        client = Neighbour(BOB.public, grants=frozenset(("join", "store", "relay")))
        uplinks = [] if is_alone else [Neighbour(UPLINK.public, uplink=True)]
        super().__init__(client, *uplinks, services={bytes(SERVICE.public): "pubsub"}, locals=[ALICE.public])
        self.service, self.alice = self.link(SERVICE.public, messages=99), self.link(ALICE.public, messages=99)
        self.bob = self.link(BOB.public, role="router")
        self._minutes = 0

    def say(self, link: int, source: SigningKey, body: bytes) -> None:
        self.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        self.cycle()

    def publish(self, link: int, key: SigningKey = GROUP) -> list[Reason]:
        """Publish a message in a group over a link; return why it is refused, if it is."""
        return [reason for _, reason, _ in self.refusals(link, key)]

    def text(self, link: int, key: SigningKey) -> str:
        """Publish a message in a group over a link; return what is said of its refusal."""
        [(_, reason, text)] = self.refusals(link, key)
        assert reason is Reason.NO_SUBSCRIBERS
        return text

    def refusals(self, link: int, key: SigningKey) -> Sequence[Refusal]:
        self._minutes += 1
        self.settled()
        self.bring(link, seal_multicast(key, b"x", ttl_s=60, expiry_min=EXPIRY + self._minutes))
        self.cycle()
        return self.settled()[link][1]

    def owed(self) -> set[bytes]:
        """Return to whom the last message that was accepted is owed."""
        return set(self.accepted()[-1][2])


def test_message_that_nobody_reads_goes_to_the_service_that_asked_for_it() -> None:
    one = House()
    assert one.publish(one.alice) == []
    assert one.owed() == {UPLINK.public}, "which is away"
    one.say(one.service, SERVICE, encode_inquiry(TERMS.inquiry()))
    for link in (one.alice, one.bob):
        assert one.publish(link) == [] and one.owed() == {SERVICE.public, UPLINK.public}
    assert len(one.handed(one.service)) == 2
    uplink = one.link(UPLINK.public, role="router")
    assert one.publish(one.alice) == [] and one.owed() == {UPLINK.public}, "which takes it now"
    one.router.link_down(uplink, one.now())
    one.router.link_down(one.service, one.now())
    assert one.publish(one.alice) == [] and one.owed() == {UPLINK.public}
    service = one.link(SERVICE.public)
    assert one.publish(one.alice) == [] and one.owed() == {UPLINK.public}, "it has not asked again"
    assert one.publish(service) == []


def test_message_on_its_way_to_the_service_stays_when_it_leaves_the_group_meanwhile() -> None:
    one = House()
    one.say(one.service, SERVICE, encode_inquiry(TERMS.inquiry()))
    one.say(one.service, SERVICE, encode_inquiry(TakeParts((GROUP.public,), ("whole",)).inquiry()))
    assert one.publish(one.alice) == [] and SERVICE.public in one.owed()
    one.say(one.service, SERVICE, encode_inquiry(TakeParts((GROUP.public,), ("none",)).inquiry()))
    assert not one.router.purges and one.router.groups.get(GROUP.public, SERVICE.public) is None


def test_group_that_is_read_here_and_messages_of_the_service_are_as_before() -> None:
    one = OneRouter(services={bytes(SERVICE.public): "pubsub"}, locals=[ALICE.public, BOB.public])
    service, alice, bob = one.link(SERVICE.public), one.link(ALICE.public), one.link(BOB.public)
    one.bring(service, seal_unicast(SERVICE, ME.public, encode_inquiry(TERMS.inquiry()), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    for link, key in ((bob, BOB), (alice, ALICE)):
        body = encode_control(Join(GROUP.public, True))
        one.bring(link, seal_unicast(key, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        one.cycle()
    one.bring(alice, seal_multicast(GROUP, b"x", ttl_s=60, expiry_min=EXPIRY))
    one.cycle()
    assert set(one.accepted()[-1][2]) == {BOB.public}, "it stays on this node"
    one.settled()
    other = SigningKey(bytes((63,)) * 32)
    one.bring(service, seal_multicast(other, b"x", ttl_s=60, expiry_min=EXPIRY))
    one.cycle()
    assert [reason for _, reason, _ in one.settled()[service][1]] == [Reason.NO_SUBSCRIBERS]


class Alone(House):
    """Such a router without an uplink, whose service has told these terms."""

    def __init__(self, terms: FanOut) -> None:
        super().__init__(is_alone=True)
        self.tell(terms)

    def tell(self, said: FanOut | TakeParts) -> None:
        self.say(self.service, SERVICE, encode_inquiry(said.inquiry()))


REFUSED = [Reason.NO_SUBSCRIBERS]


def test_what_the_service_has_no_room_for_is_refused_before_it_is_acknowledged() -> None:
    one = Alone(FanOut(2, 2, 2))
    assert [one.publish(one.alice, key) for key in OTHERS[:3]] == [[], [], REFUSED]
    assert one.publish(one.alice, OTHERS[1]) == [], "others go on"
    one.tell(TakeParts((OTHERS[0].public,), ("whole",)))
    one.tell(TakeParts((OTHERS[0].public,), ("none",)))
    assert one.publish(one.alice, OTHERS[2]) == [] and one.publish(one.alice, OTHERS[3]) == REFUSED
    one.tell(FanOut(9, 9, 9, full=(OTHERS[1].public,)))
    assert [one.publish(one.alice, key) for key in OTHERS[1:]] == [REFUSED, [], []]
    one.tell(FanOut(9, 9, 9, is_full=True))
    assert [one.publish(one.alice, key) for key in OTHERS] == [REFUSED] * 4


def test_one_app_or_client_and_all_clients_together_leave_others_their_share() -> None:
    one = Alone(FanOut(9, 2, 1))
    assert [one.publish(one.bob, key) for key in OTHERS[:2]] == [[], REFUSED]
    assert [one.publish(one.alice, key) for key in OTHERS[1:]] == [[], [], REFUSED]
    assert one.publish(one.bob, OTHERS[1]) == [], "a group that counts already"
    assert one.publish(one.link(OTHERS[3].public, messages=9), OTHERS[3]) == [], "another app"


def test_refusal_says_which_bound_the_message_is_beyond() -> None:
    one = House(is_alone=True)
    assert one.text(one.alice, OTHERS[0]) == "", "no service keeps such messages"
    one = Alone(FanOut(9, 1, 1))
    one.publish(one.bob, OTHERS[0])
    one.publish(one.alice, OTHERS[1])
    of_one = "you publish in 1 groups that nobody here reads, the most of one app or client"
    assert one.text(one.alice, OTHERS[2]) == of_one
    of_clients = "clients publish in 1 groups that nobody here reads, the most of all together"
    assert one.text(one.bob, OTHERS[2]) == of_clients
    passing = [one.link(key.public, durable=False, messages=9) for key in OTHERS[:2]]
    assert one.publish(passing[0], OTHERS[2]) == []
    of_passing = "apps with throwaway keys publish in 1 groups that nobody here reads, the most of all together"
    assert one.text(passing[1], OTHERS[3]) == f"{of_passing}; sign on with a kept key (`--as`)"
    one.tell(FanOut(2, 2, 2, full=(OTHERS[1].public,)))
    assert one.text(one.alice, OTHERS[3]) == "messages are kept in 3 groups that nobody here reads, the most"
    full = "as many messages{} as may be kept for readers elsewhere wait for them; publish it again later"
    assert one.text(one.alice, OTHERS[1]) == full.format(" of this group")
    one.tell(FanOut(9, 9, 9, is_full=True))
    assert one.text(one.alice, OTHERS[2]) == full.format("")


def test_group_that_the_service_takes_no_part_in_counts_for_a_minute_and_a_full_one_that_is_read_is_free() -> None:
    one = Alone(FanOut(1, 1, 1))
    assert [one.publish(one.alice, key) for key in OTHERS[:2]] == [[], REFUSED]
    one.pass_time(2 * UNJOINED_S)
    assert one.publish(one.alice, OTHERS[1]) == []
    one.tell(TakeParts((OTHERS[1].public,), ("whole",)))
    one.pass_time(2 * UNJOINED_S)
    assert one.publish(one.alice, OTHERS[0]) == REFUSED, "the service is in the other one"
    one.tell(FanOut(1, 1, 1, full=(OTHERS[1].public,)))
    assert one.publish(one.alice, OTHERS[1]) == REFUSED
    one.say(one.bob, BOB, encode_control(Join(OTHERS[1].public, False)))
    assert one.publish(one.alice, OTHERS[1]) == [] and one.publish(one.alice, OTHERS[0]) == []
