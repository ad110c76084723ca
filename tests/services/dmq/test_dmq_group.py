"""A topic that is carried by a group of routers: what is published there, heard there, and handed in by a unicast."""

from __future__ import annotations

from typing import TypeVar

import pytest
from msgspec.structs import replace
from samples.dmq import EXPIRES_AT, POOLS, Pool
from samples.dmq_network import Network, submit
from samples.dmq_node import Host, host, wire

from router.core.wire.crypto import MessageId, PublicKey, digest
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.dmq import reasons
from services.dmq.core.diagnosis import Facts, _nodes
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols.submission import (
    MsgAcceptMessage,
    MsgRejectMessage,
    MsgSubmitMessage,
    RejectKind,
    decode_message,
    encode_message,
)
from services.dmq.core.topic_group import JOIN_TAG, NOBODY, TTL_S
from services.dmq.node_commands import about_group
from services.dmq.settings import Settings

NAME = "dmq-preview"
GROUP, APP = PublicKey(b"g" * 32), PublicKey(b"a" * 32)
Of = TypeVar("Of", bound=c.Deed)


def did(node: Host, kind: type[Of]) -> list[Of]:
    """Return the deeds of this kind since the last call."""
    found: list[Of] = [one for one in node.fabric if isinstance(one, kind)]
    node.fabric = [one for one in node.fabric if not isinstance(one, kind)]
    return found


def in_group(body: bytes) -> c.Message:
    return c.Message(MessageId(digest(body)), body, group=GROUP)


def spoilt(whole: bytes) -> bytes:
    """Return a message with a wrong KES signature."""
    found = bytearray(whole)
    found[found.index(Dmq05().read(whole).kes_signature)] ^= 1
    return bytes(found)


def test_what_a_client_hands_in_is_published_as_it_is_and_what_is_heard_is_not() -> None:
    node = host(group=NAME)
    assert did(node, c.Join) == [c.Join(NAME, raw=True, tag=JOIN_TAG)]
    node.hear(c.Joined(JOIN_TAG, GROUP, may_publish=True))
    assert node.connect().submit(wire()) == MsgAcceptMessage()
    own_id = Dmq05().read(wire()).id.hex()
    assert did(node, c.Publish) == [c.Publish(wire(), NAME, TTL_S, f"group {own_id} 1", EXPIRES_AT, once=True)]
    node.hear(in_group(wire(1)))
    assert node.connect().request() == (wire(), wire(1)) and not node.fabric
    assert node.events("dmq_accepted")[-1].each["from"] == [f"group {NAME}"]
    assert node.ask("why", Dmq05().read(wire(1)).id.hex())["given_by"] == f"group {NAME}"
    node.hear(in_group(wire()))
    node.hear(c.Sent(f"group {own_id} 1", MessageId(b"i" * 32)))
    assert node.ask("status")["group"] == {
        "name": NAME, "joined": True, "may_publish": True, "problem": "", "published": 1, "heard": 1, "duplicates": 1,
        "rejected": {},
    }  # fmt: skip
    assert not node.events("dmq_rejected") and node.ask("status")["accepted"] == 2
    node.crash()
    assert node.connect().request() == (wire(), wire(1)), "it was kept with the fact that it was heard"
    assert not did(host(), c.Join) and host().ask("status")["group"] is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (spoilt(wire()), reasons.BAD_SIGNATURE),
        (Dmq05().write(Pool(77).draft()), reasons.UNKNOWN_POOL),
        (wire(0, expires_at=EXPIRES_AT - 4000), reasons.EXPIRED),
        (b"a sealed message of a chat", Reason.MALFORMED),
        (b"", Reason.MALFORMED),
    ],
)
def test_what_is_wrong_in_the_group_is_refused_by_its_reason_and_disturbs_nothing(body: bytes, reason: Reason) -> None:
    node = host(group=NAME)
    did(node, c.Join)
    node.hear(in_group(body))
    [refusal] = did(node, c.Refuse)
    assert refusal.reason == reason and node.ask("status")["group"]["rejected"] == {reason.word: 1}
    if reason is not Reason.MALFORMED:
        assert node.notes[-1].reason == reason and node.notes[-1].fields["peer"] == f"group {NAME}"
    node.hear(in_group(wire()))
    assert node.connect().request() == (wire(),)


def test_of_one_pool_no_more_is_taken_than_can_be_honest_and_no_other_waits_for_that() -> None:
    node = host(group=NAME)
    for number in range(40):
        node.hear(in_group(wire(0, b"%d" % number)))
    assert {one.reason for one in did(node, c.Refuse)} == {reasons.TOO_FREQUENT}
    full = host(group=NAME, pool_bytes_max=4096)
    for number in range(9):
        full.hear(in_group(wire(0, b"%d" % number)))
    assert {one.reason for one in did(full, c.Refuse)} == {Reason.PEER_REFUSED}, "a later one would hold up the group"
    assert full.ask("status")["group"]["rejected"].keys() == {"dmq:pool-full"}


def test_the_router_keeps_what_cannot_be_judged_or_held_yet() -> None:
    node = Host(Settings(stake_file="stake", group=NAME), *[pool.id for pool in POOLS], has_stake=False)
    node.hear(in_group(wire()))
    assert [one.reason for one in did(node, c.Refuse)] == [reasons.STAKE_MISSING] and reasons.STAKE_MISSING.later
    for given, reason in (({"messages_max": 1}, reasons.MEMPOOL_FULL), ({}, reasons.DISK_FULL)):
        node = host(group=NAME, **given)
        node.hear(in_group(wire(1)))
        node.kept.has_room = bool(given)
        node.hear(in_group(wire()))
        assert [one.reason for one in did(node, c.Refuse)] == [reason] and reason.later
        assert not node.ask("status")["group"]["rejected"]


def test_a_unicast_is_a_submission_and_is_answered() -> None:
    node = host(group=NAME)
    did(node, c.Join)
    for body, answer in (
        (encode_message(MsgSubmitMessage(wire())), MsgAcceptMessage()),
        (wire(1), MsgAcceptMessage()),
        (wire(1), MsgRejectMessage(RejectKind.ALREADY_RECEIVED)),
        (spoilt(wire(2)), MsgRejectMessage(RejectKind.INVALID)),
        (b"hello", MsgRejectMessage(RejectKind.INVALID)),
        (wire(2, expires_at=EXPIRES_AT - 4000), MsgRejectMessage(RejectKind.TTL_TOO_LARGE)),
    ):
        node.hear(c.Message(MessageId(digest(body)), body, source=APP))
        [sent] = did(node, c.Send)
        found = decode_message(sent.body)
        assert sent.to == APP and type(found) is type(answer)
        assert not isinstance(found, MsgRejectMessage) or found.kind == answer.kind  # type: ignore[union-attr]
    assert [one.body for one in did(node, c.Publish)] == [wire(), wire(1)] and not node.fabric
    assert node.connect().request() == (wire(), wire(1))
    status = node.ask("status")
    assert (status["accepted"], status["group"]["heard"]) == (2, 0)
    assert status["rejected"] == {"dmq:duplicate": 1, "dmq:bad-signature": 1, "dmq:expired": 1}


def test_what_could_not_be_published_is_told_and_a_link_for_reading_is_no_fault() -> None:
    node, none = host(group=NAME), MessageId(bytes(32))
    node.connect().submit(wire())
    [published] = did(node, c.Publish)
    node.hear(c.Sent(published.tag, none, Reason.NOT_AUTHORISED, "the link is for reading only"))
    assert not node.warnings and not node.ask("status")["group"]["may_publish"]
    assert [one.reason for one in node.events("dmq_unpublished")] == [Reason.NOT_AUTHORISED]
    assert "its link is for reading only: 0 published" in about_group(node.ask("status")["group"])
    node.hear(c.Sent(published.tag, MessageId(b"i" * 32), Reason.NO_SUBSCRIBERS))
    assert not node.warnings and node.ask("status")["group"]["problem"] == NOBODY
    node.hear(c.Sent(published.tag, MessageId(b"i" * 32), Reason.DUPLICATE))
    assert node.ask("status")["group"]["problem"] == ""
    node.notes.clear()
    for _ in range(2):
        node.hear(c.Sent(published.tag, none, Reason.NO_ROUTE, 'there is no group "dmq-preview"'))
    assert node.warnings == [f'messages are not published in the group {NAME}: there is no group "dmq-preview"']
    [note, _] = node.events("dmq_unpublished")
    assert (note.messages, note.reason) == ([Dmq05().read(wire()).id], Reason.NO_ROUTE)
    found = _nodes(Facts("socket", 0, status=node.ask("status")), node.now.wall_s)
    assert found.ok is False and "there is no group" in found.found


def handovers(node: Host) -> list[tuple[str, str, list[int]]]:
    """Return what the log says of the group as a recipient, for the audit."""
    found = []
    for one in node.notes:
        to = str(one.fields.get("recipients", one.fields.get("recipient", "")))
        if f"group {NAME}" in to.split(","):
            found.append((str(one.fields["handover"]), to, list(map(int, one.each["number"]))))
    return found


def test_the_log_owes_a_message_to_the_group_until_its_router_has_it() -> None:
    node, none, recipient = host(group=NAME), MessageId(bytes(32)), f"group {NAME}"
    node.connect().submit(wire())
    node.hear(in_group(wire(1)))
    node.connect().submit(wire(2))
    assert handovers(node) == [("owed", f"a,b,{recipient}", [1]), ("owed", f"a,b,{recipient}", [3])]
    first, third = did(node, c.Publish)
    node.hear(c.Sent(first.tag, MessageId(b"i" * 32)))
    node.hear(c.Sent(third.tag, MessageId(b"k" * 32), Reason.DUPLICATE))
    assert handovers(node)[2:] == [("done", recipient, [1]), ("done", recipient, [3])]
    node.notes.clear()
    node.connect().submit(wire(0, b"to nobody"))
    node.hear(c.Sent(did(node, c.Publish)[0].tag, MessageId(b"l" * 32), Reason.NO_SUBSCRIBERS))
    assert [one[0] for one in handovers(node)] == ["owed", "ended"] and node.notes[-1].reason is Reason.NO_SUBSCRIBERS
    for text in (b"refused", b"not owed", b"not owed either"):
        node.notes.clear()
        node.connect().submit(wire(1, text))
        node.hear(c.Sent(did(node, c.Publish)[0].tag, none, Reason.NOT_AUTHORISED, "the link is for reading only"))
    assert not handovers(node) and len(node.events("dmq_accepted")) == 1
    node.connect().submit(wire(2, b"the link may send again"))
    node.hear(c.Sent(did(node, c.Publish)[0].tag, MessageId(b"m" * 32)))
    assert not handovers(node) and node.ask("status")["group"]["may_publish"]
    node.connect().submit(wire(0, b"owed"))
    assert [one[0] for one in handovers(node)] == ["owed"]


def test_status_and_doctor_say_at_once_whether_the_node_takes_part_in_the_group() -> None:
    """Its link may be added to the home, replaced or removed while the node runs, and no message need come for that."""
    node, none = host(group=NAME), MessageId(bytes(32))

    def found() -> tuple[bool | None, str]:
        status = node.ask("status")
        finding = _nodes(Facts("socket", 0, status=status), node.now.wall_s)
        return finding.ok, f"{about_group(status['group'])}; {finding.found}; {finding.remedy}"

    assert found()[0] is None and "not joined" in found()[1] and "is being joined" in found()[1]
    missing = f'there is no group "{NAME}"; `router group new NAME` makes one'
    node.hear(c.Joined(JOIN_TAG, error=missing))
    assert found()[0] is False and missing in found()[1]
    assert node.warnings == [f"it does not take part in the group {NAME}: {missing}"]
    node.connect().submit(wire())
    node.hear(c.Sent(did(node, c.Publish)[0].tag, none, Reason.NO_ROUTE, missing))
    assert len(node.warnings) == 1, "the same is not told twice"
    node.hear(c.Joined(JOIN_TAG, GROUP, may_publish=True))
    assert found()[0] is True and found()[1].endswith(f"the group {NAME} alone; "), "the old problem is over"
    assert node.mended == node.warnings
    node.hear(c.Joined(JOIN_TAG, GROUP))
    assert found()[0] is False and found()[1].count("its link is for reading only") == 1
    assert "for reading only" in about_group(node.ask("status")["group"])
    node.hear(c.Joined(JOIN_TAG, GROUP, may_publish=True))
    node.connect().submit(wire(1))
    node.hear(c.Sent(did(node, c.Publish)[0].tag, MessageId(b"i" * 32), Reason.NO_SUBSCRIBERS))
    assert found()[0] is False and NOBODY in found()[1]
    node.hear(in_group(b"no message"))
    assert found()[0] is True, "somebody else has joined it"


def test_a_group_that_the_settings_name_no_more_is_left() -> None:
    node = host(group=NAME)
    for name, fabric in (
        (NAME, [c.Join(NAME, raw=True, tag=JOIN_TAG)]),
        ("another", [c.Leave(NAME), c.Join("another", raw=True, tag=JOIN_TAG)]),
        ("", [c.Leave("another")]),
        ("", []),
    ):
        node.fabric.clear()
        node.settings = replace(node.settings, group=name)
        node.crash()
        assert node.fabric == fabric


def test_a_group_is_left_by_its_key_when_its_name_stands_for_another_one() -> None:
    """Its link was removed, and one of a new group added, while the node was stopped."""
    node, other = host(group=NAME), PublicKey(b"o" * 32)
    node.hear(c.Joined(JOIN_TAG, GROUP, may_publish=True))
    node.crash()
    node.fabric.clear()
    node.hear(c.Joined(JOIN_TAG, GROUP, may_publish=True))
    assert not node.fabric
    node.crash()
    node.fabric.clear()
    node.hear(c.Joined(JOIN_TAG, other, may_publish=True))
    assert node.fabric == [c.Leave(GROUP.hex())]
    node.fabric.clear()
    node.settings = replace(node.settings, group="")
    node.crash()
    assert node.fabric == [c.Leave(other.hex())]


def test_a_group_needs_messages_that_say_when_they_expire() -> None:
    problems = dict(Settings(stake_file="stake", group=NAME, revision="cip-29ffe0e").problems())
    assert problems.keys() == {"revision"}


class Fabric(Network):
    """Nodes that dial each other and are in a group as well, which keeps for each what it has not heard."""

    def __init__(self) -> None:
        super().__init__()
        self.away: list[Host] = []
        self.bodies: list[tuple[bytes, int]] = []
        self._queues: dict[str, list[bytes]] = {}

    def settle(self) -> None:
        super().settle()
        while self._carry():
            super().settle()

    def _carry(self) -> bool:
        """Carry what was published to all others, once; return whether there was something."""
        was_busy = False
        for place, one in self.hosts.items():
            for deed in did(one, c.Publish):
                assert deed.once and deed.until_s is not None
                if (message := (deed.body, deed.until_s)) not in self.bodies:
                    self.bodies.append(message)
                    for other in self.hosts.keys() - {place}:
                        self._queues.setdefault(other, []).append(deed.body)
        for place, queue in self._queues.items():
            while queue and self.hosts[place] not in self.away:
                self.hosts[place].hear(in_group(queue.pop(0)))
                was_busy = True
        return was_busy


def test_three_routers_joined_both_ways_give_each_consumer_every_message_once() -> None:
    fabric = Fabric()
    nodes = [fabric.add(port, group=NAME, consumers=("a=unix:a.sock",), pause_s=0) for port in range(3)]
    for port, node in enumerate(nodes):
        fabric.name_roots(node, (port + 1) % 3, (port + 2) % 3)
    fabric.pass_time(4)
    wires = [wire(number % 3, b"%d" % number) for number in range(9)]
    read: list[list[bytes]] = [[], [], []]
    for number, one in enumerate(wires):
        if number == 3:
            fabric.away.append(nodes[2])
            fabric.crash(nodes[2])
        submitted = nodes[number % (2 if fabric.away else 3)]
        assert submit(fabric, submitted, one) == MsgAcceptMessage()
        if number == 6:
            fabric.away.clear()
        fabric.pass_time(2)
    consumers = [node.connect("consumer a") for node in nodes]
    for consumer, found in zip(consumers, read, strict=True):
        while some := consumer.request(blocking=False):
            found += some
    assert [sorted(found) for found in read] == [sorted(wires)] * 3
    assert sorted(body for body, _ in fabric.bodies) == sorted(wires), "whoever publishes it, it is one message"
    for node in nodes:
        status = node.ask("status")
        assert (status["accepted"], status["rejected"], status["group"]["rejected"]) == (9, {}, {})
