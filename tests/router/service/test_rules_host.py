"""The host of rules carries out their deeds in the order in which they are given."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import trio
import trio.testing
from rigs.own_services import ask, one_service
from rigs.patience import HANG_S

from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.core.wire.reasons import Reason
from router.disk.commit_speed import CommitSpeed
from router.disk.state.service_state import SMALL_BYTES, SMALL_ROWS, Batch, State
from router.service import request_queue
from router.service.running import key_of

KEYS = [SigningKey(bytes((n,)) * 32).public.hex() for n in range(1, 9)]
FICKLE = f"""
from router.core.wire.crypto import PublicKey
from router.service.contract import Answer, Asked, AddNeighbour

KEYS = {KEYS}

class Fickle:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        if not isinstance(heard, Asked):
            return []
        until_s = int(now.wall_s) + 3600
        last = {{"forget": 0, "know": until_s}}[heard.word]
        keys = [PublicKey(bytes.fromhex(key)) for key in KEYS]
        known = [AddNeighbour(key, ("tls://127.0.0.1:9",), until_s - last) for key in keys]
        return [*known, *(AddNeighbour(key, ("tls://127.0.0.1:9",), last) for key in keys), Answer(heard.number, last)]
"""


async def test_of_two_requests_about_one_key_the_later_one_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_service(tmp_path, monkeypatch, "fickle", FICKLE) as (_, node):
        for word, known in (("know", set(KEYS)), ("forget", set())):
            await ask(node, f"fickle {word}")
            assert {one["address"] for one in json.loads(await node.ask("peers")) if one["learned"]} == known


HASTY = """
from router.core.wire.crypto import PublicKey
from router.service.contract import Answer, Asked, AddNeighbour, Send, Sent

class Hasty:
    def __init__(self, setup):
        self.asked, self.refused = 0, []

    def hear(self, heard, now):
        if isinstance(heard, Asked):
            self.asked, until_s = heard.number, int(now.wall_s) + 3600
            keys = [PublicKey(bytes.fromhex(key)) for key in heard.argument.split()]
            known = [AddNeighbour(key, ("tls://127.0.0.1:9",), until_s) for key in keys]
            return [*(Send(key, b"hello", 60, tag=key.hex()) for key in keys), *known]
        if isinstance(heard, Sent):
            self.refused.append(str(heard.refused))
            return [Answer(self.asked, self.refused)] if len(self.refused) == 8 else []
        return []
"""


async def test_what_is_sent_goes_after_what_is_asked_of_the_router(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour is known before a message is sent to it, whatever the order of the deeds of one event."""
    async with one_service(tmp_path, monkeypatch, "hasty", HASTY) as (_, node):
        assert await ask(node, f"hasty send {' '.join(KEYS)}") == ["None"] * 8


BUSY = """
from router.core.wire.crypto import PublicKey
from router.service.contract import Answer, Asked, Message
from router.service.roles.overlay import Dial

NOBODY = PublicKey(bytes.fromhex("{key}"))

class Busy:
    def __init__(self, setup):
        self.heard = 0

    def hear(self, heard, now):
        match heard:
            case Message():
                self.heard += 1
                return [Dial(NOBODY)]
            case Asked(number):
                return [Answer(number, self.heard)]
        return []

ROLE = "overlay"
"""


async def test_messages_are_heard_while_many_requests_wait_for_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages were not settled before there was room for all requests that follow from them; the answers that make
    room lay behind these messages in the window, where most of them were lost: each then took 30 s."""
    monkeypatch.setattr(request_queue, "REQUESTS_MAX", 10)
    monkeypatch.setattr(request_queue, "PATIENCE_S", 0.1)
    count = 1_200
    async with one_service(tmp_path, monkeypatch, "busy", BUSY.format(key=KEYS[0])) as (home, app):
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(app.send, key_of(home, "busy").public, b"%d" % number)
        while await ask(app, "busy heard") < count:
            await trio.sleep(0.02)


DOORMAN = """
from router.core.wire.reasons import Reason
from router.service.contract import Message, Put, Refuse


class Doorman:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        match heard:
            case Message(body=b"keep"):
                return [Put(b"kept", b"")]
            case Message(body=body) if body.startswith(b"junk"):
                return [Refuse(Reason.NOT_AUTHORISED)]
        return []
"""


async def test_what_the_rules_refuse_or_ignore_costs_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they keep is committed in a thread, or in the loop if that is quick."""
    batches, were_here, is_quick = list[Batch](), list[bool](), [False]
    commit, here = State.commit, threading.get_ident()

    def counted(self: State, batch: Batch, now_min: int) -> list[int]:
        batches.append(batch)
        were_here.append(threading.get_ident() == here)
        return commit(self, batch, now_min)

    monkeypatch.setattr(State, "commit", counted)
    monkeypatch.setattr(CommitSpeed, "is_quick", property(lambda self: is_quick[0]))
    async with one_service(tmp_path, monkeypatch, "doorman", DOORMAN) as (home, node):
        doorman = key_of(home, "doorman").public
        for n in range(5):
            outcomes = await node.send(doorman, b"junk %d" % n, wait=True)
            assert [one.reason async for one in outcomes][-1] == Reason.NOT_AUTHORISED
            outcomes = await node.send(doorman, b"nothing %d" % n, wait=True)
            assert [one.reason async for one in outcomes][-1] is None
        assert batches == []
        outcomes = await node.send(doorman, b"keep", wait=True)
        assert [one.reason async for one in outcomes][-1] is None
        assert [(len(one.kept), len(one.heard)) for one in batches] == [(1, 1)]
        is_quick[0] = True
        outcomes = await node.send(doorman, b"keep", wait=True)
        assert [one.reason async for one in outcomes][-1] is None
        assert were_here == [False, True]


def test_batches_are_small_up_to_a_number_of_rows_and_bytes() -> None:
    keys = [b"%d" % n for n in range(SMALL_ROWS)]
    assert Batch().is_small and Batch(kept=dict.fromkeys(keys, b"")).is_small
    assert not Batch(kept=dict.fromkeys(keys, b""), sent=[1]).is_small
    assert Batch(kept={b"k": bytes(SMALL_BYTES - 1)}, outbox=[("", b"w")]).is_small
    assert not Batch(kept={b"k": bytes(SMALL_BYTES)}, outbox=[("", b"w")]).is_small
    assert not Batch(forgets=True).is_small, "sealed values are written anew"


LOOSE = """
from router.service.contract import Answer, Asked, Inform, Message, Send

class Loose:
    def __init__(self, setup):
        self.heard, self.asked = 0, []

    def hear(self, heard, now):
        if isinstance(heard, Message):
            self.heard += 1
            {how}
        if isinstance(heard, Asked):
            self.asked.append(heard.number)

    def settled(self, now):
        asked, self.asked = self.asked, []
        yield from (Answer(number, self.heard) for number in asked)
        {later}
"""


@pytest.mark.parametrize(
    ("name", "how", "later", "is_kept"),
    [
        ("silent", "return None", "", False),
        ("answering_unkept", "return [Send(heard.source, b'yes', kept=False)]", "", False),
        ("answering", "return [Send(heard.source, b'yes')]", "", True),
        ("yielding", "return (one for one in [Inform('heard')])", "", True),
        ("deciding_late", "return None", "yield from [Inform('heard')] * self.heard", True),
    ],
)
async def test_deeds_may_be_none_or_yielded_and_what_they_follow_from_is_kept_as_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str, later: str, is_kept: bool
) -> None:
    async with one_service(tmp_path, monkeypatch, name, LOOSE.format(how=how, later=later)) as (home, node):
        sent = await node.send(key_of(home, name).public, b"hello", wait=True)
        assert [one.state for one in await sent.final(HANG_S)] == ["delivered"]
        assert await ask(node, f"{name} how many") == 1
    state = State(home.path / "services" / name, 0)
    assert state.has_heard(sent.id) is is_kept
    state.close()


PULLING = """
from router.core.wire.crypto import MessageId, PublicKey
from router.service.contract import Answer, Asked, Join, Joined, Pull, Pulled

class Pulling:
    def __init__(self, setup):
        self.asked, self.ids, self.pulled = 0, [], []

    def hear(self, heard, now):
        match heard:
            case Asked(number, "join", group):
                self.asked = number
                return [Join(group, raw=True, tag="club")]
            case Joined():
                return [Answer(self.asked, heard.error)]
            case Asked(number, "pull", argument):
                group, *self.ids = map(bytes.fromhex, argument.split())
                self.asked, self.pulled = number, []
                return [Pull(PublicKey(group), MessageId(id)) for id in self.ids]
            case Pulled(_, id, wire):
                self.pulled.append(id if wire else b"")
                if len(self.pulled) == len(self.ids):
                    return [Answer(self.asked, [id.hex() for id in self.pulled])]
        return []
"""


async def test_messages_that_are_pulled_are_heard_in_the_order_in_which_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service sends on in this order what it has pulled. Each was asked for by a task of its own, and such tasks run
    forwards or backwards, by chance: so half of all runs of messages reached a late core backwards."""
    async with one_service(tmp_path, monkeypatch, "pulling", PULLING) as (home, node):
        link = new_group(b"g" * 32, b"k" * 32, "club")
        async with connect(home=home, as_name="away") as reader:
            await reader.join(link)
        assert await ask(node, f"pulling join {link.group.hex()}") == ""
        ids = [id.hex() for id in await node.group(link).publish_many([b"%d" % number for number in range(12)])]
        for _ in range(8):
            assert await ask(node, f"pulling pull {link.group.hex()} {' '.join(ids)}") == ids
