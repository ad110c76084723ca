"""The pub/sub service is told ids of what apps of this node publish, in place of the messages, by value (R-C33)."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

from msgspec.structs import replace
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP
from samples.stores import parcel

from router.core.control.published import IDS_MAX, TOLD_MAX, PublishedIds
from router.core.neighbours.directory import ServiceFacts
from router.core.routing.effects import SendOwn
from router.core.routing.links import Link
from router.core.wire.admin import (
    SERVICE_BYTES_MAX,
    Answer,
    Inquiry,
    decode_inquiry,
    encode_inquiry,
    is_inquiry,
)
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, open_message, seal_multicast, seal_unicast
from router.core.wire.now import Now
from router.service.verbs.published import Published
from router.service.verbs.take_part import TakeParts
from router.service.verbs.verb import News, news_of

SERVICE = SigningKey(bytes((61,)) * 32)
EXPIRY = expiry_min(WALL_S + 600)


class House(OneRouter):
    """A router with two apps, both in a group that the pub/sub service has joined."""

    def __init__(self) -> None:
        super().__init__(services={bytes(SERVICE.public): "pubsub"}, locals=[ALICE.public, BOB.public])
        self.store.keep_history_for(SERVICE.public)
        self.service = self.link(SERVICE.public)
        self.alice = self.link(ALICE.public)
        self.bob = self.link(BOB.public)
        self.say(self.bob, BOB, encode_control(Join(GROUP.public, False)))
        self.say(self.service, SERVICE, encode_control(Join(GROUP.public, True)))

    def say(self, link: int, source: SigningKey, body: bytes) -> None:
        self.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        self.cycle()

    def ids_only(self, on: bool) -> None:
        self.say(
            self.service, SERVICE, encode_inquiry(TakeParts((GROUP.public,), ("ids" if on else "whole",)).inquiry())
        )

    def publish(self, *bodies: bytes, ttl_s: int = 60) -> list[bytes]:
        wires = [seal_multicast(GROUP, body, ttl_s=ttl_s, expiry_min=EXPIRY) for body in bodies]
        self.done.clear()
        self.bring(self.alice, *wires)
        self.cycle()
        return [bytes(message_id(one)) for one in wires]

    def published(self) -> list[News | None]:
        """Return what the service hears within a second."""
        self.pass_time(1)
        bodies = [open_message(one.wire).body for one in self.done if isinstance(one, SendOwn)]
        said = [decode_inquiry(body, SERVICE_BYTES_MAX) for body in bodies if is_inquiry(body)]
        return [news_of(one) for one in said if isinstance(one, Inquiry) and one.ask == Published.WORD]


def test_it_is_told_ids_until_it_asks_for_messages_and_both_are_history() -> None:
    one = House()
    one.ids_only(True)
    ids = one.publish(b"1", b"2")
    assert one.published() == [Published(GROUP.public, b"".join(ids), ((EXPIRY, 2),))]
    assert one.accepted()[-1][2] == (BOB.public,)
    one.ids_only(False)
    ids += one.publish(b"3")
    assert not one.published() and one.accepted()[-1][2] == (BOB.public, SERVICE.public)
    held = one.store.records.held(GROUP.public, 0, 100, 0).keys
    assert [held[at + 4 : at + 36] for at in range(0, len(held), 36)] == ids


def test_what_is_published_in_the_cycle_in_which_it_asks_for_messages_is_given_to_it() -> None:
    one = House()
    one.ids_only(True)
    one.publish(b"1")
    whole = encode_inquiry(TakeParts((GROUP.public,), ("whole",)).inquiry())
    one.bring(one.service, seal_unicast(SERVICE, ME.public, whole, ttl_s=0, expiry_min=EXPIRY))
    one.publish(b"2")
    assert one.accepted()[-1][2] == (BOB.public, SERVICE.public)


def test_a_join_asks_for_messages_again() -> None:
    one = House()
    one.ids_only(True)
    one.say(one.service, SERVICE, encode_control(Join(GROUP.public, True)))
    one.publish(b"1")
    assert not one.published() and SERVICE.public in one.accepted()[-1][2]


def test_the_messages_come_where_nobody_else_would_have_them_or_the_service_is_away() -> None:
    one = House()
    one.ids_only(True)
    one.router.link_down(one.bob, one.now())
    one.router.groups.remove(GROUP.public, BOB.public)
    one.publish(b"nobody else")
    assert one.accepted()[-1][2] == (SERVICE.public,) and not one.published()
    other = House()
    other.ids_only(True)
    other.router.link_down(other.service, other.now())
    other.publish(b"later")
    assert other.accepted()[-1][2] == (BOB.public, SERVICE.public)


def test_what_does_not_wait_is_not_told() -> None:
    one = House()
    one.ids_only(True)
    one.publish(b"now or never", ttl_s=0)
    assert not one.published()


def test_a_service_without_the_role_is_not_told_ids() -> None:
    one = House()
    one.router.directory.services[ALICE.public] = ServiceFacts("bell")
    one.say(one.alice, ALICE, encode_inquiry(TakeParts((GROUP.public,), ("ids",)).inquiry()))
    answer = decode_inquiry(open_message(one.told(one.alice)[-1]).body)
    assert isinstance(answer, Answer) and "only the service with the role" in json.loads(answer.text)["error"]
    assert one.router.groups.told_ids(GROUP.public) is None


def test_ids_beyond_the_limit_are_counted_and_none_is_told_before_there_is_room() -> None:
    one = House()
    one.ids_only(True)
    told: list[Inquiry] = []
    room = [False]

    class Recorder:
        def say(self, link: Link, said: Any, now: Now, to: PublicKey | None = None) -> bool:
            if room[0]:
                told.append(said)
            return room[0]

    ids, random = PublishedIds(replace(one.router._kernel, speaker=Recorder())), Random(1)
    first, second = (parcel(random, at, WALL_S, count=IDS_MAX // 2 + 10) for at in (1, 100_000))
    for each in (first, second):
        each.signer = GROUP.public
        each.expiries[:] = type(each.expiries)("I", [EXPIRY + (at % 997 == 0) for at in range(each.count)])
        ids.note(each)
    ids.tick(one.now())
    assert not told
    room[0] = True
    ids.tell(one.now())
    heard = [news_of(each) for each in told]
    assert all(isinstance(each, Published) and len(each.ids) <= 32 * TOLD_MAX for each in heard)
    assert max(len(encode_inquiry(each)) for each in told) < SERVICE_BYTES_MAX
    found = [each for each in heard if isinstance(each, Published)]
    assert b"".join(each.ids for each in found) == (first.ids + second.ids)[: IDS_MAX * 32]
    assert sum(each.left_out for each in found) == 20
    runs = [minute for each in found for minute, count in each.expiries for _ in range(count)]
    assert runs == [*first.expiries, *second.expiries][:IDS_MAX]
    assert base64.b64encode(found[0].ids).decode() in told[0].argument
    ids.tick(one.now())
    assert len(told) == len(found)
