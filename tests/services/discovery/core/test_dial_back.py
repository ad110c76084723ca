"""DIAL_ME and DIALLED by value: whom a node asks, whom it dials back and how often, and the operator's answer."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from router.core.wire.address import parse_address
from router.core.wire.advert import make_advertisement
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import discovery as d
from services.discovery.core.dial_back import ANSWER_S, ASKERS_MAX, EVERY_S, SILENT, UNKNOWN, DialBacks
from services.discovery.core.known import Known
from services.discovery.core.messages import Dialled, DialMe, decode_message, encode_message

WALL_S = 1_800_000_000
KEYS = [SigningKey(bytes((3, number)) * 16) for number in range(4)]
CORE, CORE_SERVICE, ASKER, ASKER_SERVICE = (one.public for one in KEYS)
NONCE = b"n" * 16
PLACE = parse_address("tls://203.0.113.9:4100")


class Rules:
    """The part, which knows the discovery service of one core."""

    def __init__(self) -> None:
        known = Known()
        services = {"discovery": CORE_SERVICE}
        until_min = expiry_min(WALL_S + 3600)
        known.remember(make_advertisement(KEYS[0], [PLACE], services=services, rev=1, expiry_min=until_min))
        self.part = DialBacks(c.Setup("discovery", ASKER_SERVICE, SimpleNamespace(), {}, Random(1)), known)
        self.seconds = 0.0

    @property
    def now(self) -> c.Now:
        return c.Now(WALL_S + self.seconds, self.seconds)

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        return self.part.hear(heard, self.now)

    def read(self, said: DialMe | Dialled, via: PublicKey | None = CORE) -> list[c.Deed]:
        message = c.Message(MessageId(bytes(32)), encode_message(said), source=CORE_SERVICE, via=via)
        return self.part.read(message, said, self.now)

    def answer(self, deeds: list[c.Deed]) -> Any:
        [found] = [one.value for one in deeds if isinstance(one, c.Answer)]
        return found


def asked(one: Rules, *routers: PublicKey) -> tuple[list[c.Deed], DialMe]:
    deeds = one.hear(c.Asked(7, "reach", f"4100 {' '.join(key.hex() for key in routers)}"))
    [sent] = [deed for deed in deeds if isinstance(deed, c.Send)]
    assert (sent.to, sent.via) == (CORE_SERVICE, CORE)
    said = decode_message(sent.body)
    assert isinstance(said, DialMe) and said.port == 4100
    return deeds, said


def test_the_operator_hears_what_others_found_and_whom_nobody_could_ask() -> None:
    one = Rules()
    deeds, said = asked(one, CORE, ASKER)
    assert not [deed for deed in deeds if isinstance(deed, c.Answer)]
    assert not one.read(Dialled(said.nonce, PLACE), via=ASKER), "an answer counts from the router that was asked"
    assert not one.read(Dialled(b"x" * 16, PLACE))
    rows = one.answer(one.read(Dialled(said.nonce, PLACE, Reason.CONNECT_TIMEOUT, "no answer in 10 s")))
    assert rows == [
        {"router": ASKER.hex(), "at": "", "why": UNKNOWN},
        {"router": CORE.hex(), "at": PLACE.url, "why": "no answer in 10 s"},
    ]


def test_a_node_that_is_reached_has_nothing_to_mend() -> None:
    one = Rules()
    _, said = asked(one, CORE)
    assert one.answer(one.read(Dialled(said.nonce, PLACE))) == [{"router": CORE.hex(), "at": PLACE.url, "why": ""}]


def test_who_does_not_answer_is_named_after_a_while() -> None:
    one = Rules()
    deeds, _ = asked(one, CORE)
    assert [deed.at_s for deed in deeds if isinstance(deed, c.Wake)] == [WALL_S + ANSWER_S]
    one.seconds = ANSWER_S
    assert one.answer(one.hear(c.Tick())) == [{"router": CORE.hex(), "at": "", "why": SILENT}]
    assert one.hear(c.Tick()) == []


@pytest.mark.parametrize("argument", ["", "4100", "0 " + CORE.hex(), "port " + CORE.hex(), "4100 nobody"])
def test_a_question_that_makes_no_sense_is_answered(argument: str) -> None:
    assert "reach PORT ROUTER" in Rules().answer(Rules().hear(c.Asked(7, "reach", argument)))["error"]


def test_an_asker_is_dialled_once_a_minute_and_told_the_last_result_in_between() -> None:
    """The question contains no address, and the rules never see one before the dial: they name the router only."""
    one = Rules()
    [dial] = one.read(DialMe(NONCE, 4100))
    assert isinstance(dial, d.DialBack) and (dial.router, dial.port) == (CORE, 4100)
    [refused] = one.read(DialMe(NONCE, 4100))
    assert isinstance(refused, c.Refuse) and refused.reason is Reason.RATE_LIMITED
    [told] = one.hear(d.DialledBack(dial.tag, "203.0.113.9", Reason.CONNECT_FAILED, "refused"))
    assert isinstance(told, c.Send) and (told.to, told.via) == (CORE_SERVICE, CORE)
    assert decode_message(told.body) == Dialled(NONCE, PLACE, Reason.CONNECT_FAILED, "refused")
    [again] = one.read(DialMe(b"m" * 16, 4100))
    assert isinstance(again, c.Send)
    assert decode_message(again.body) == Dialled(b"m" * 16, PLACE, Reason.CONNECT_FAILED, "refused")
    [other_port] = one.read(DialMe(NONCE, 22))
    assert isinstance(other_port, c.Refuse)
    one.seconds = EVERY_S
    [later] = one.read(DialMe(NONCE, 22))
    assert isinstance(later, d.DialBack) and later.port == 22
    assert one.hear(d.DialledBack(later.tag)) == [], "its link is gone, and so is the way to tell"


def test_many_askers_at_once_are_refused_and_so_is_one_of_this_node() -> None:
    one = Rules()
    for number in range(ASKERS_MAX):
        [dial] = one.read(DialMe(NONCE, 4100), via=PublicKey(number.to_bytes(32)))
        assert isinstance(dial, d.DialBack)
    [refused] = one.read(DialMe(NONCE, 4100))
    assert isinstance(refused, c.Refuse) and refused.reason is Reason.RATE_LIMITED
    [own] = one.read(DialMe(NONCE, 4100), via=None)
    assert isinstance(own, c.Refuse) and own.reason is Reason.NOT_AUTHORISED
