"""The pub/sub service's result of catching up with a group, and the apps that are told of it, by value (R-C35)."""

from __future__ import annotations

import json

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.control.catch_ups import JOINED_LATER_S, KEPT_S
from router.core.routing.effects import SendOwn
from router.core.wire.admin import Inquiry, decode_inquiry, encode_inquiry, is_inquiry
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from router.service.verbs.caught_up import CAUGHT_UP, SaidCaughtUp

SERVICE = SigningKey(bytes((61,)) * 32)
EXPIRY = expiry_min(WALL_S + 600)
FIGURE = {"group": GROUP.public.hex(), "at_s": WALL_S, "missing": 3, "of": 20_000}


def house() -> OneRouter:
    return OneRouter(services={bytes(SERVICE.public): "pubsub"}, locals=[ALICE.public, BOB.public])


def say(one: OneRouter, link: int, source: SigningKey, body: bytes) -> None:
    one.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def catch_up(one: OneRouter, service: int, *heard: SigningKey, **more: object) -> None:
    said = {**FIGURE, "heard": [each.public.hex() for each in heard], **more}
    say(one, service, SERVICE, encode_inquiry(Inquiry(CAUGHT_UP, json.dumps(said))))


def join(one: OneRouter, app: SigningKey) -> int:
    link = one.link(app.public)
    say(one, link, app, encode_control(Join(GROUP.public, False)))
    return link


def told(one: OneRouter, link: int, word: str = CAUGHT_UP) -> list[dict[str, object]]:
    """Return and remove the inquiries with that word sent over a link."""
    found = [each for each in one.done if isinstance(each, SendOwn) and each.link == link]
    one.done = [each for each in one.done if each not in found]
    bodies = [body for each in found if is_inquiry(body := open_message(each.wire).body)]
    said = [decode_inquiry(body) for body in bodies]
    return [json.loads(each.argument) for each in said if isinstance(each, Inquiry) and each.ask == word]


def test_each_app_is_told_once_also_one_that_signs_on_later_and_the_service_who_was() -> None:
    one = house()
    service, alice = one.link(SERVICE.public), join(one, ALICE)
    one.done.clear()
    catch_up(one, service)
    assert told(one, alice) == [FIGURE]
    bob = join(one, BOB)
    one.pass_time(1)
    assert told(one, bob) == [FIGURE] and not told(one, alice)
    assert told(one, service, SaidCaughtUp.WORD) == [
        {"group": GROUP.public.hex(), "at_s": WALL_S, "app": app.public.hex()} for app in (ALICE, BOB)
    ]
    one.pass_time(10)
    catch_up(one, service)
    assert not told(one, alice) and not told(one, bob), "as after a restart of the service alone"


def test_after_a_restart_who_has_heard_it_is_not_told_again() -> None:
    one = house()
    service, alice, bob = one.link(SERVICE.public), join(one, ALICE), join(one, BOB)
    one.done.clear()
    catch_up(one, service, ALICE)
    assert not told(one, alice)
    assert told(one, bob) == [FIGURE]


def test_news_without_anything_missed_is_for_those_who_are_there() -> None:
    one = house()
    service = one.link(SERVICE.public)
    catch_up(one, service, missing=0, of=0)
    alice = join(one, ALICE)
    one.pass_time(5)
    assert not told(one, alice)


def test_who_joins_after_a_day_is_not_told_of_the_past_and_after_a_week_nobody() -> None:
    one = house()
    service = one.link(SERVICE.public)
    catch_up(one, service)
    one.seconds += JOINED_LATER_S + 1
    alice = join(one, ALICE)
    one.pass_time(2)
    assert not told(one, alice) and len(one.router.catch_ups._figures) == 1
    one.seconds += KEPT_S
    one.pass_time(2)
    assert not one.router.catch_ups._figures
