"""Deeds with a field of a wrong type, or that name what there is not, are named with their field."""

from __future__ import annotations

from typing import Any

import pytest

from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.cycle_changes import listed
from router.service.deed_checks import DeedChecks, WrongDeed
from router.service.roles import discovery as d
from router.service.roles import overlay as o

KEY = SigningKey(bytes(32)).public
ID = MessageId(bytes(32))
MOOD = Reason.declare(790, "checked:mood", "It is in no mood.")


class Dance(c.Deed, frozen=True):
    """A deed that nobody carries out."""


class Mute:
    """A value whose text cannot be made."""

    def __repr__(self) -> str:
        raise ValueError("I say nothing")


class Endless(str):
    """A text whose text has no end."""

    __slots__ = ()

    def __repr__(self) -> str:
        while True:
            pass

    __str__ = __repr__


@pytest.fixture
def checks() -> DeedChecks:
    found = DeedChecks({"desk": "tcp://127.0.0.1:1", "dgrams": "udp://127.0.0.1:1", "lan": "multicast://x", "shut": ""})
    found.asked(5)
    return found


WRONG: dict[str, tuple[Any, str]] = {
    "a value": (c.Put(b"count", 17), "Put with a wrong value: expected bytes | null, got int"),  # type: ignore[arg-type]
    "a key": (c.Put("count", b""), "Put with a wrong key: expected bytes, got str"),  # type: ignore[arg-type]
    "a secret": (c.Put(b"count", b"", "no"), "Put with a wrong secret: expected bool, got str"),  # type: ignore[arg-type]
    "no key": (c.Put(b"", b""), "Put with a wrong key: it has 0 bytes, where 1 to 511 are allowed"),
    "a long key": (c.Put(b"x" * 512, b""), "wrong key: it has 512 bytes"),
    "a time": (c.Wake("soon"), "Wake with a wrong at_s: expected float, got str"),  # type: ignore[arg-type]
    "no time": (c.Wake(float("nan")), "Wake with a wrong at_s: it is no number"),
    "an address": (c.Send("nobody", b""), "Send with a wrong to: expected PublicKey, got str"),  # type: ignore[arg-type]
    "a body": (c.Send(KEY, "aGk="), "Send with a wrong body: expected bytes, got str"),  # type: ignore[arg-type]
    "a ttl": (c.Send(KEY, b"", ttl_s=-1), "Send with a wrong ttl_s: -1 is none"),
    "a group": (c.Join(KEY), "Join with a wrong group: expected str, got bytes: give key.hex()"),  # type: ignore[arg-type]
    "a word": (c.Refuse("checked:mud"), 'Refuse with a wrong reason: no reason has the word "checked:mud"; declare it'),
    "a door": (c.Write("dusk", "1", b""), 'Write with a wrong door: it has no door "dusk"; its doors are "desk", '),
    "a list for a door": (c.Write(["desk"], "1", b""), "Write with a wrong door: expected str, got array"),  # type: ignore[arg-type]
    "data": (c.Write("desk", "1", "hi"), "Write with a wrong data: expected bytes, got str"),  # type: ignore[arg-type]
    "a handed door": (c.HandOver("dusk", "1"), "HandOver with a wrong door"),
    "a handed address": (c.HandOver("desk", "1", ip="nowhere"), 'HandOver with a wrong ip: "nowhere" is no IP address'),
    "a marked door": (c.MarkKnown("dusk", "1"), "MarkKnown with a wrong door"),
    "a stream kept open": (c.KeepOpen("dusk", "1"), "KeepOpen with a wrong door"),
    "an interface": (d.UseInterfaces("lan", ("eth0",)), "UseInterfaces with a wrong interfaces: expected int"),  # type: ignore[arg-type]
    "a door of streams": (
        d.UseInterfaces("desk", (1,)),
        'wrong door: its door "desk" is one of tcp, and this is for doors of multicast',
    ),
    "a door of datagrams": (d.WriteOnClose("dgrams", "*%1", b""), 'its door "dgrams" is one of udp'),
    "a stream of datagrams": (
        c.MarkKnown("lan", "1"),
        'its door "lan" is one of multicast, and this is for doors of streams',
    ),
    "handed datagrams": (c.HandOver("dgrams", "1"), "HandOver with a wrong door"),
    "connected datagrams": (c.Connect("dgrams", "tcp://h:1", "t"), "Connect with a wrong door"),
    "half a character": (c.Send(KEY, b"", tag="\ud800"), "Send with a wrong tag: it has half of a character"),
    "a port": (d.DialBack(KEY, 70_000, "t"), "DialBack with a wrong port: expected int <= 65535"),
    "minutes": (o.PullFrom(KEY, KEY, ID, minutes=0), "PullFrom with a wrong minutes: expected int >= 1"),
    "a question": (c.Answer(999, 1), "Answer with a wrong number: question 999 was not asked"),
    "no JSON": (c.Answer(5, object()), "something that is no JSON"),
    "a right": (c.Grant(KEY, (7,), 1), "Grant with a wrong rights: expected str, got int"),  # type: ignore[arg-type]
    "a label": (o.Attest("anything", b""), 'Attest with a wrong label: "anything" is no label of signed bytes'),
    "a str": ("Send", "it returned 'Send', of type str, among its deeds; return a list of deeds"),
    "a long str": ("x" * 99, f"it returned 'xxx{56 * 'x'}…, of type str, among its deeds"),
    "a number": (7, "it returned something of type int among its deeds"),
    "nothing": (None, "it returned None among its deeds"),
    "a list in the list": ([c.Tick()], "it returned something of type list among its deeds"),
    "a class": (c.Wake, "it returned the class Wake itself among its deeds"),
    "an event as a deed": (c.Tick(), "it returned something of type router.service.contract.Tick among its deeds"),
    "a deed of nobody": (Dance(), f"it returned something of type {__name__}.Dance among its deeds"),
    "one without a text": (Mute(), f"it returned something of type {__name__}.Mute among its deeds"),
    "one whose text has no end": (Endless(), f"it returned something of type {__name__}.Endless among its deeds"),
}


@pytest.mark.parametrize(("deed", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_deed_is_named_with_its_field(checks: DeedChecks, deed: Any, said: str) -> None:
    with pytest.raises(WrongDeed) as told:
        checks.judge(deed, hears_message=True)
    assert said in str(told.value)


def test_right_deeds_are_returned_as_they_are_to_be_carried_out(checks: DeedChecks) -> None:
    right = [
        c.Put(b"count", b"17"), c.Put(b"count", None), c.Put(b"count", b"17", True), c.Forget(),
        c.Wake(7), c.Send(KEY, b"x", tag="t"), c.Write("desk", "9", b""),
        c.Connect("afar", "tcp://there:1", "t"), c.Write("afar", "1", b"x"), c.Answer(5, {"one": [1, None]}),
        c.Refuse(MOOD, "not today"), c.Grant(KEY, ("join",), 5), c.LogEvent("golf", ID), c.Join(KEY.hex()),
        d.UseInterfaces("lan", (1, 2)), d.UseInterfaces("shut", (1,)),
        o.Advertise(groups=(KEY, "friends")), o.PullFrom(KEY, KEY, ID), c.Inform("x"),
    ]  # fmt: skip
    assert [checks.judge(one, hears_message=True) for one in right] == right
    assert checks.judge(c.Refuse("checked:mood", "no"), hears_message=True) == c.Refuse(MOOD, "no")


def test_what_is_beyond_the_range_of_a_request_is_told_with_field_and_range_and_its_router_decides() -> None:
    doubted = list[tuple[c.Deed, str]]()
    checks = DeedChecks(doubt=lambda deed, why: doubted.append((deed, str(why))))
    many = c.AddNeighbour(KEY, ("tls://there:1",) * 99)
    often = c.Grant(KEY, ("join",), 5, uses=-1)
    assert [checks.judge(one, hears_message=True) for one in (many, often)] == [many, often]
    assert doubted == [
        (many, "it returned AddNeighbour with a wrong urls: expected array of length <= 8"),
        (often, "it returned Grant with a wrong uses: expected int >= 0"),
    ]


def test_a_refusal_needs_a_message(checks: DeedChecks) -> None:
    with pytest.raises(WrongDeed, match="Refuse without a message to refuse; return it when it hears the message"):
        checks.judge(c.Refuse(MOOD), hears_message=False)


def test_a_question_is_answered_once_and_an_answer_to_one_of_an_earlier_life_is_let_pass(checks: DeedChecks) -> None:
    checks.judge(c.Answer(5, 1), hears_message=False)
    with pytest.raises(WrongDeed, match="question 5 was answered already; answer each with its own number, once"):
        checks.judge(c.Answer(5, 2), hears_message=False)
    checks.judge(c.Answer(3, 1), hears_message=False)


def test_a_deed_that_is_in_no_list_is_named() -> None:
    with pytest.raises(WrongDeed, match="it returned Send where a list of deeds belongs; write it in brackets"):
        listed(c.Send(PublicKey(KEY), b""))
    assert list(listed(None)) == []
