"""Messages of a service on their way: the state holds each until the rules have heard what became of it."""

from __future__ import annotations

from router.core.wire.crypto import SigningKey
from router.core.wire.message import message_id, seal_unicast
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.sending import UNKEPT, Sending, _OnItsWay

KEY = SigningKey(b"k" * 32)
WIRE = seal_unicast(KEY, KEY.public, b"body", ttl_s=60, expiry_min=1)
ID = message_id(WIRE)


def test_state_holds_a_message_until_the_rules_have_heard_what_became_of_it() -> None:
    heard: list[c.Heard] = []
    sending = Sending(heard.append, lambda: None, lambda text: None)
    for number, tag, refused in (
        (1, "asked", None),
        (2, "refused", Reason.NOT_AUTHORISED),
        (3, "", None),
        (UNKEPT, "x", None),
    ):
        one = _OnItsWay(sending, number, tag, ID, WIRE)
        if refused is not None:
            one.refused(refused, "it says why")
        one.ended()
    assert [one.tag for one in heard if isinstance(one, c.Sent)] == ["asked", "refused", "x"]
    assert sending.take_sent() == [3], "nobody wants to hear of that one"
    told = [one for one in heard if isinstance(one, c.Sent)]
    assert sending.take_sent(told + told) == [1, 2] and sending.take_sent() == []


def test_state_deletes_each_of_several_messages_that_are_the_same_to_the_byte() -> None:
    heard: list[c.Heard] = []
    sending = Sending(heard.append, lambda: None, lambda text: None)
    for number in (1, 2):
        _OnItsWay(sending, number, "asked", ID, WIRE).ended()
    assert sending.take_sent([one for one in heard if isinstance(one, c.Sent)]) == [1, 2]
