"""A message of which only copies follow needs no transaction of its service, and ends when the router has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing
from rigs.own_services import ask, one_service
from rigs.patience import HANG_S

from router.client.received import Received
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.message import message_id, seal_multicast, with_via
from router.core.wire.reasons import Reason
from router.disk.state.service_state import State
from router.service import contract as c
from router.service.copies_alone import CopiesAlone, are_copies_alone
from router.service.passing import copied_to
from router.service.running import key_of
from router.service.sending import UNKEPT

GROUP = SigningKey(b"g" * 32)
NEAR, FAR = SigningKey(b"n" * 32).public, SigningKey(b"f" * 32).public
LONG = 1 << 27  # an expiry minute


def wire(body: bytes = b"x") -> bytes:
    return seal_multicast(GROUP, body, ttl_s=60, expiry_min=LONG)


def message(name: bytes, settled: list[bytes]) -> Received:
    async def settle() -> None:
        settled.append(name)

    source = PublicKey(b"s" * 32)
    shown = MessageId(name.ljust(32)), name, GROUP.public, None, source, None, (), None, None, 0.0, False, (), LONG
    return Received(*shown, wire(name), settle, lambda reason, text: None)


async def test_message_is_settled_when_the_router_has_taken_or_refused_all_its_copies() -> None:
    settled, told = list[bytes](), list[bytes]()
    copies = CopiesAlone(lambda one: told.append(one.body))
    both, one = message(b"both", settled), message(b"one", settled)
    to_two = [("", with_via(both.wire, router)) for router in (NEAR, FAR)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(copies.run)
        found = copies.take([(both, to_two), (one, [("tag", with_via(one.wire, NEAR))])])
        assert {number for number, *_ in found} == {UNKEPT}
        order = [copied_to(sent.wire) or b"" for sent in found]
        assert order == sorted(order), "those for one router are together"
        until = {(message_id(sent.wire), copied_to(sent.wire)): sent.ended for sent in found}
        for of, to, expected in (
            (both, FAR, []),
            (one, NEAR, [b"one"]),
            (both, NEAR, [b"one", b"both"]),
        ):
            ended = until[message_id(of.wire), to]
            assert ended is not None
            ended()
            await trio.testing.wait_all_tasks_blocked()
            assert settled == told == expected
        assert "0 messages" in repr(copies)
        nursery.cancel_scope.cancel()


def test_only_copies_and_what_need_not_last_are_sent_on_without_a_transaction() -> None:
    copy = c.Forward(wire(), NEAR)
    assert are_copies_alone([copy, copy, c.Wake(1.0), c.Send(FAR, b"", kept=False)])
    others = (c.Send(FAR, b""), c.Put(b"k", b"v"), c.Inform("said"), c.Join("group"))
    assert not any(are_copies_alone([copy, other]) for other in others)
    assert not are_copies_alone([copy, c.Refuse(Reason.LEFT)]), "which ends the message"


SENDING_ON = """
from router.core.wire.crypto import PublicKey
from router.service.contract import Answer, Asked, Forward, Inform, Message, Sent

WIRE, NEAR = bytes.fromhex("{wire}"), PublicKey(bytes.fromhex("{near}"))

class SendingOn:
    def __init__(self, setup):
        self.refused = 0

    def hear(self, heard, now):
        match heard:
            case Message():
                return [Forward(WIRE, NEAR, "copy"){more}]
            case Sent("copy", _, reason) if reason is not None:
                self.refused += 1
            case Asked(number):
                return [Answer(number, self.refused)]
        return []
"""


@pytest.mark.parametrize(("name", "more", "is_kept"), [("alone", "", False), ("beside", ", Inform('heard')", True)])
async def test_what_only_copies_follow_from_is_settled_and_not_kept_as_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, more: str, is_kept: bool
) -> None:
    """The router refuses the copy here, as it knows no such neighbour."""
    rules = SENDING_ON.format(wire=wire().hex(), near=NEAR.hex(), more=more)
    async with one_service(tmp_path, monkeypatch, name, rules) as (home, node):
        sent = await node.send(key_of(home, name).public, b"hello", wait=True)
        assert [one.state for one in await sent.final(HANG_S)] == ["delivered"]
        assert await ask(node, f"{name} refused") == 1
    state = State(home.path / "services" / name, 0)
    assert state.has_heard(sent.id) is is_kept and not state.outbox()
    state.close()
