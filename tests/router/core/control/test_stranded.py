"""The pub/sub service is told what waits for uplinks alone while none of them is connected, by value."""

from __future__ import annotations

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.control.published import TOLD_MAX
from router.core.neighbours.directory import Neighbour
from router.core.routing.effects import SendOwn
from router.core.wire.admin import SERVICE_BYTES_MAX, Inquiry, decode_inquiry, encode_inquiry, is_inquiry
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, open_message, seal_multicast, seal_unicast
from router.service.verbs.fan_out import FanOut
from router.service.verbs.published import Published
from router.service.verbs.take_part import TakeParts
from router.service.verbs.verb import news_of

SERVICE, UPLINK, SECOND = (SigningKey(bytes((number,)) * 32) for number in (61, 62, 63))
EXPIRY = expiry_min(WALL_S + 6000)


class House(OneRouter):
    """A core with an app, a client and uplinks, whose pub/sub service asked for what nobody here reads."""

    def __init__(self, *uplinks: SigningKey) -> None:
        client = Neighbour(BOB.public, grants=frozenset(("join", "store", "relay")))
        found = [Neighbour(one.public, uplink=True) for one in uplinks or (UPLINK,)]
        super().__init__(client, *found, services={bytes(SERVICE.public): "pubsub"}, locals=[ALICE.public])
        self.alice, self.bob = self.link(ALICE.public, messages=99), self.link(BOB.public, role="router")
        self.service = self.fan_out()
        self._number = 0

    def fan_out(self) -> int:
        service = self.link(SERVICE.public, messages=9999, size=1 << 30)
        self.say(service, SERVICE, encode_inquiry(FanOut(9, 9, 9).inquiry()))
        return service

    def say(self, link: int, source: SigningKey, body: bytes) -> None:
        self.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        self.cycle()

    def up(self, key: SigningKey = UPLINK) -> int:
        return self.link(key.public, role="router", messages=9999, size=1 << 30)

    def down(self, *links: int) -> None:
        for link in links:
            self.router.link_down(link, self.now())
        self.cycle()

    def publish(self, link: int, count: int = 1, group: SigningKey = GROUP) -> list[bytes]:
        """Publish messages over a link; return their ids."""
        bodies, self._number = range(self._number, self._number + count), self._number + count
        wires = [seal_multicast(group, b"%d" % one, ttl_s=600, expiry_min=EXPIRY) for one in bodies]
        self.bring(link, *wires)
        self.cycle()
        return [bytes(message_id(one)) for one in wires]

    def told(self, seconds: int = 3) -> list[bytes]:
        """Return the ids that the service is told within so many seconds."""
        self.done.clear()
        for _ in range(seconds):
            self.pass_time(1)
        bodies = [open_message(one.wire).body for one in self.done if isinstance(one, SendOwn)]
        said = [decode_inquiry(body, SERVICE_BYTES_MAX) for body in bodies if is_inquiry(body)]
        news = [news_of(one) for one in said if isinstance(one, Inquiry) and one.ask == Published.WORD]
        return [
            one.ids[at : at + 32] for one in news if isinstance(one, Published) for at in range(0, len(one.ids), 32)
        ]


def test_what_was_owed_to_an_uplink_that_has_died_is_told_once_and_stays_owed() -> None:
    one = House()
    uplink = one.up()
    ids = one.publish(one.alice) + one.publish(one.bob)
    assert one.accepted()[-1][2] == (UPLINK.public,) and one.told() == []
    one.down(uplink)
    assert one.told() == ids and one.told() == []
    assert one.router.queues.by_recipient[UPLINK.public].total.messages == 2
    later = one.publish(one.alice)
    assert set(one.accepted()[-1][2]) == {SERVICE.public, UPLINK.public}, "both ways from now on"
    assert later and one.told() == []


def test_what_the_uplink_has_taken_is_not_told() -> None:
    one = House()
    uplink = one.up()
    first, second = one.publish(one.alice, 2)
    one.router.settled(uplink, 1, one.now())
    one.cycle()
    one.down(uplink)
    assert one.told() == [second] and first != second


def test_nothing_is_told_while_another_uplink_is_connected() -> None:
    one = House(UPLINK, SECOND)
    links = one.up(UPLINK), one.up(SECOND)
    ids = one.publish(one.alice)
    assert set(one.accepted()[-1][2]) == {UPLINK.public, SECOND.public}
    one.down(links[0])
    assert one.told() == []
    one.down(links[1])
    assert one.told() == ids + ids, "each queue is read by itself; the service knows an id"


def test_each_time_that_an_uplink_dies_what_came_since_is_told() -> None:
    one = House()
    one.down(one.up())
    uplink = one.up()
    first = one.publish(one.alice)
    one.down(uplink)
    assert one.told() == first
    uplink = one.up()
    second = one.publish(one.alice)
    one.down(uplink)
    assert one.told() == second


def test_a_service_that_begins_anew_is_told_of_all_that_waits() -> None:
    one = House()
    uplink = one.up()
    ids = one.publish(one.alice)
    one.down(uplink)
    assert one.told() == ids
    one.down(one.service)
    assert one.told() == []
    one.service = one.fan_out()
    assert one.told() == ids


def test_messages_of_groups_that_are_read_here_or_carried_by_the_service_are_not_told() -> None:
    one = House()
    uplink = one.up()
    one.say(one.bob, BOB, encode_control(Join(PublicKey(GROUP.public), False)))
    one.say(one.service, SERVICE, encode_inquiry(TakeParts((GROUP.public,), ("whole",)).inquiry()))
    one.publish(one.alice)
    assert set(one.accepted()[-1][2]) == {BOB.public, SERVICE.public, UPLINK.public}
    one.bring(one.alice, seal_unicast(ALICE, SECOND.public, b"x", ttl_s=600, expiry_min=EXPIRY))
    one.cycle()
    assert one.accepted()[-1][2] == (UPLINK.public,), "a unicast"
    one.down(uplink)
    assert one.told() == []


def test_a_long_queue_is_read_in_steps_of_a_thousand_messages_a_second() -> None:
    one = House()
    uplink = one.up()
    ids = [id for _ in range(5) for id in one.publish(one.alice, TOLD_MAX // 2)]
    one.down(uplink)
    assert [len(one.told(1)) for _ in range(5)] == [0, TOLD_MAX, TOLD_MAX, TOLD_MAX // 2, 0]
    assert len(ids) == 5 * TOLD_MAX // 2
