"""Messages of a service on their way: the state holds each until the rules have heard what became of it."""

from __future__ import annotations

from router.core.wire.crypto import SigningKey
from router.core.wire.message import message_id, seal_unicast
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.sending import SAID_S, SENT_MAX, SENT_S, UNKEPT, Sending, _OnItsWay

KEY = SigningKey(b"k" * 32)
WIRE = seal_unicast(KEY, KEY.public, b"body", ttl_s=60, expiry_min=1)
ID = message_id(WIRE)


def test_state_holds_a_message_until_the_rules_have_heard_what_became_of_it() -> None:
    heard: list[c.Heard] = []
    sending = Sending(heard.append, lambda: None, lambda text: None, lambda: 0.0)
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
    sending = Sending(heard.append, lambda: None, lambda text: None, lambda: 0.0)
    for number in (1, 2):
        _OnItsWay(sending, number, "asked", ID, WIRE).ended()
    assert sending.take_sent([one for one in heard if isinstance(one, c.Sent)]) == [1, 2]


def test_messages_in_custody_are_due_when_they_are_many_or_old() -> None:
    now_s, woken = [5.0], list[float]()
    sending = Sending(lambda heard: None, lambda: woken.append(now_s[0]), lambda text: None, lambda: now_s[0])
    _OnItsWay(sending, 1, "", ID, WIRE).ended()
    assert not sending.is_due and sending.due_s == 5.0 + SENT_S and woken == [5.0], "the host learns when they are due"
    now_s[0] = 5.5
    _OnItsWay(sending, 2, "", ID, WIRE).ended()
    assert not sending.is_due and sending.due_s == 5.0 + SENT_S and woken == [5.0], "the first of them counts"
    now_s[0] = 5.0 + SENT_S
    assert sending.is_due and sending.take_sent() == [1, 2] and not sending.is_due
    for number in range(1, SENT_MAX + 1):
        assert not sending.is_due
        _OnItsWay(sending, number, "", ID, WIRE).ended()
    assert sending.is_due and len(woken) == 3, "with the first and with the last"


def test_log_tells_of_refused_messages_once_a_minute_and_counts_those_between() -> None:
    now_s, said = [5.0], list[str]()
    sending = Sending(lambda heard: None, lambda: None, said.append, lambda: now_s[0])
    for at_s in (5.0, 6.0, 5.0 + SAID_S - 0.1, 5.0 + SAID_S, 5.0 + 2 * SAID_S):
        now_s[0] = at_s
        one = _OnItsWay(sending, 1, "", ID, WIRE)
        one.refused(Reason.NO_ROUTE, "it says why")
        one.ended()
    assert [one.partition("; ")[2] for one in said] == ["", "2 more were not sent before it", ""]
    assert all(one.startswith("a message was not sent: ") and "no-route" in one for one in said)
