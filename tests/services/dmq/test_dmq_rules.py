"""A DMQ node's rules: the state kept before a signer is answered, the messages for consumers, and closed
connections."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import BODY, EXPIRES_AT, NOW, POOLS, Pool, altered
from samples.dmq_node import SETTINGS, Host, host, wire

from router.core.link.machine import Agency
from router.core.wire.crypto import Signature, SigningKey
from router.service import contract as c
from router.service.plugins import load_shown
from services.dmq import reasons
from services.dmq.core.admission import AT_ONCE_MAX, LATE_S
from services.dmq.core.cbor import array_of
from services.dmq.core.holdings import OtherNode
from services.dmq.core.messages.certificate import issue
from services.dmq.core.messages.fault import Fault, Rejected
from services.dmq.core.messages.signed_message import Dmq05, Draft
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols.mux import HEAD, MESSAGE_S, sdu
from services.dmq.core.protocols.submission import NUMBER, MsgAcceptMessage, MsgRejectMessage, RejectKind
from services.dmq.core.stake.source import BadSource
from services.dmq.node_commands import mempool_table
from services.dmq.rules import DISK_FULL, DmqNode
from services.dmq.settings import Settings

ACCEPTED = MsgAcceptMessage()


def test_what_comes_together_is_verified_and_noted_together_before_its_signers_hear() -> None:
    node = host(pause_s=0.0, clients_max=AT_ONCE_MAX + 2)
    node.computes = node.settles = False
    wires = [wire(number % len(POOLS), b"%d" % number) for number in range(AT_ONCE_MAX + 1)]
    for one in wires:
        assert node.connect().submit(one) is None, "its signatures are not verified yet"
    node.settles = True
    node.pass_time(0)
    [job] = node.waiting
    decided = node.rules.hear(c.Computed(job.tag, bytes(len(wires))), node.now)
    kinds = [type(one).__name__ for one in decided if isinstance(one, c.Put | c.LogEvent | c.Write)]
    firsts = len(POOLS)  # with the record of their pool
    assert kinds == [*["Put"] * 3, "Write"] * firsts + [*["Put"] * 2, "Write"] * (len(wires) - firsts)
    settled = [one for one in node.rules.settled(node.now) if isinstance(one, c.Put | c.LogEvent)]
    assert {one.key for one in settled if isinstance(one, c.Put)} == {b"state", b"counts"}
    [noted] = [one for one in settled if isinstance(one, c.LogEvent)]
    messages = [Dmq05().read(one) for one in wires]
    assert list(noted.messages) == [one.id for one in messages]
    assert noted.fields == {"handover": "owed", "recipients": "a,b"}
    assert noted.each == {
        "number": list(range(1, len(wires) + 1)), "pool": [one.certificate.pool.hex() for one in messages],
        "bytes": [len(one) for one in wires], "due": [EXPIRES_AT] * len(wires),
    }  # fmt: skip


def test_few_messages_are_verified_at_once_unless_wrong_ones_come() -> None:
    node = host()
    node.computes = node.settles = False
    spoilt = bytearray(wire(1))
    spoilt[spoilt.index(Dmq05().read(wire(1)).kes_signature)] ^= 1
    signers = [node.connect() for _ in range(3)]
    for signer, one in zip(signers, (wire(0), bytes(spoilt), wire(2)), strict=True):
        assert signer.submit(one) is None
    node.settles = True
    node.pass_time(0)
    assert [signer.heard[0] for signer in signers][::2] == [ACCEPTED] * 2 and not node.waiting
    node.settles = False
    for signer, number in zip(signers, (0, 1, 2), strict=True):
        assert signer.submit(wire(number, b"more")) is None
    node.settles = True
    node.pass_time(0)
    assert len(node.waiting) == 1, "after a wrong signature they are verified elsewhere"
    assert node.rules.batch_delay_s(node.now) > 0 == host().rules.batch_delay_s(node.now), (
        "and more are awaited each time"
    )
    opened = c.Opened("local", "new")
    assert host().rules.is_urgent(opened, node.now) and not node.rules.is_urgent(opened, node.now)


def test_what_waits_for_a_process_that_is_late_is_verified_here() -> None:
    node = host(pause_s=0.0, clients_max=2 * AT_ONCE_MAX + 2)
    node.computes = node.settles = False
    signers = [node.connect() for _ in range(2 * AT_ONCE_MAX + 2)]
    for number, signer in enumerate(signers):
        if number == AT_ONCE_MAX + 1:
            node.settles = True
            node.pass_time(0)  # these go to the other process
            assert len(node.waiting) == 1
            node.gathers = True
        assert signer.submit(wire(number % len(POOLS), b"%d" % number)) is None
    assert node.wake_s <= node.now.wall_s + LATE_S
    node.pass_time(LATE_S)
    answered = [number for number, signer in enumerate(signers) if signer.heard]
    assert answered == list(range(AT_ONCE_MAX + 1, 2 * AT_ONCE_MAX + 1)), "a part at a time, the first ones first"
    node.pass_time(0)
    assert signers[-1].heard == [ACCEPTED] and not signers[0].heard
    node.compute()
    assert all(signer.heard == [ACCEPTED] for signer in signers)


def test_nobody_looks_again_and_again_at_a_late_process_while_wrong_signatures_come() -> None:
    node = host(pause_s=0.0)
    node.computes = node.settles = False
    spoilt = bytearray(wire(1))
    spoilt[spoilt.index(Dmq05().read(wire(1)).kes_signature)] ^= 1
    assert node.connect().submit(bytes(spoilt)) is None
    node.settles = True
    node.pass_time(0)
    for number in range(2):
        assert node.connect().submit(wire(0, b"%d" % number)) is None
    node.pass_time(2 * LATE_S)
    assert len(node.waiting) == 1 and node.wake_s > node.now.wall_s


def test_a_message_alone_is_verified_at_once() -> None:
    node = host()
    node.computes = False
    assert node.connect().submit(wire()) == ACCEPTED and not node.waiting


def test_what_was_accepted_survives_and_is_known() -> None:
    node = host()
    assert node.connect().submit(wire()) == ACCEPTED
    node.crash()
    again = node.connect().submit(wire())
    assert again == MsgRejectMessage(RejectKind.ALREADY_RECEIVED)
    assert node.connect().request() == (wire(),)
    status = node.ask("status")
    assert (status["accepted"], status["rejected"]) == (1, {"dmq:duplicate": 1})
    assert status["mempool"] == {"messages": 1, "bytes": len(wire())}
    assert [one["id"] for one in node.ask("mempool")["messages"]] == [Dmq05().read(wire()).id.hex()]


def test_each_rejection_has_its_reason() -> None:
    node = host()
    certificate = issue(POOLS[2].cold, POOLS[1].kes.public, 0, 1430)
    wrong = Dmq05().write(replace_certificate(POOLS[1], certificate.signature))
    stranger = Dmq05().write(Pool(77).draft())
    for bad, reason in ((wrong, reasons.BAD_CERTIFICATE), (stranger, reasons.UNKNOWN_POOL)):
        answer = node.connect().submit(bad)
        assert isinstance(answer, MsgRejectMessage) and node.notes[-1].reason == reason
        assert node.notes[-1].message == Dmq05().read(bad).id
    assert not node.ask("mempool")["messages"] and node.connect().submit(wire(1)) == ACCEPTED


def replace_certificate(pool: Pool, signature: Signature) -> Draft:
    draft = pool.draft()
    return draft._replace(certificate=altered(draft.certificate, signature=signature))


def test_a_message_waits_until_there_is_stake_and_a_bad_file_is_said() -> None:
    node = host()
    node.kept.clear()
    node.computes = False
    node.crash()
    signer = node.connect()
    assert signer.submit(wire()) is None and node.ask("status")["stake"]["pools"] == 0
    node.stake, stake = None, node.stake
    node.compute()
    assert node.events("dmq_rejected")[-1].reason == reasons.STAKE_MISSING
    assert node.ask("status")["stake"]["problem"] == "it is half a file"
    node.pass_time(10)
    assert node.warnings == ["it is half a file; until it can be read, every message is refused"]  # once
    node.stake, node.computes = stake, True
    node.pass_time(10)
    assert node.ask("status")["stake"] | {"age_s": 0} == {"age_s": 0, "pools": 3, "is_of_epoch": True, "problem": ""}
    assert node.mended == node.warnings, "`router status` shows it no longer"
    assert node.connect().submit(wire()) == ACCEPTED
    for _ in range(2):
        node.pass_time(6 * 86400)
        node.pass_time(10)
        node.pass_time(10)
    late = node.warnings[1:]
    assert [one.split(": ")[0] for one in late] == [
        f"the stake file {SETTINGS.stake_file} is of another epoch, {days} days old" for days in ("6.0", "12.0")
    ], "once in each epoch"


def test_a_node_says_how_much_stake_it_has_once_and_warns_without_any() -> None:
    node = host()
    node.pass_time(10)
    assert (node.informed, node.warnings) == (["the stake distribution holds 3 pools, and is 0 s old"], [])
    without = Host(Settings(), has_stake=False)
    [warning] = without.warnings
    assert warning.startswith("no stake is named: every message is rejected (NotInitialized)") and "--stake" in warning
    assert without.connect().submit(wire()) == MsgRejectMessage(
        RejectKind.INVALID, Rejected(Fault.NOT_INITIALIZED).text
    )
    node.settings = Settings(consumers=SETTINGS.consumers)
    node.crash()
    assert node.warnings[0].startswith("no stake is named: the stake that was read before, 10 s old, stays, and ages")


def test_what_is_printed_at_the_start() -> None:
    settings = Settings(
        network="preview", local_socket="unix:/run/dmq?mode=660", consumers=("a=unix:a.sock",), stake_command=("x", "y")
    )
    assert dict(settings.at_start(Path("/home"))) == {
        "network": "preview (magic 2147483650)", "socket": "/run/dmq", "consumer a": "/home/a.sock", "stake": "x y",
    }  # fmt: skip
    assert dict(Settings().at_start(Path("/home")))["stake"] == "from nowhere: every message is rejected"


def test_what_why_shows_of_an_event() -> None:
    shown = load_shown("services.dmq")
    assert shown["pool"](POOLS[0].id.hex()) == POOLS[0].id.text
    assert shown["due"](EXPIRES_AT) == datetime.fromtimestamp(EXPIRES_AT, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def test_why_is_told_who_has_still_to_read_a_message_and_until_when_it_is_kept() -> None:
    node, own_id = host(), Dmq05().read(wire()).id.hex()
    assert node.ask("why", own_id) == {"error": "no live message has this id"}
    node.connect().submit(wire())
    held = {"set_aside_for": None, "kept_until_it_expires": EXPIRES_AT}
    assert node.ask("why", own_id) == {"to_be_read_by": "a and b", **held}
    reader = node.connect("consumer a")
    assert reader.request() == (wire(),) and reader.request() is None, "acknowledged"
    while not node.events("dmq_set_aside"):
        breaks = node.connect("consumer b")
        breaks.request()
        breaks.hang_up()
    assert node.ask("why", own_id.upper()) == {"to_be_read_by": "nobody", **held, "set_aside_for": "b"}
    assert node.ask("again", "b") and node.ask("why", own_id)["to_be_read_by"] == "b"
    assert "knows status, mempool" in node.ask("why", "00")["error"]


def test_without_room_on_its_disk_a_message_is_refused_and_consumers_read_on() -> None:
    node = host()
    assert node.connect().submit(wire()) == ACCEPTED
    node.kept.has_room = False
    refused = [node.connect().submit(wire(1, b"%d" % number)) for number in range(2)]
    assert [(one.kind, one.text.split(":")[0]) for one in refused] == [(RejectKind.OTHER, "DiskFull")] * 2
    assert node.connect("consumer a").request() == (wire(),)
    assert node.warnings == [DISK_FULL], "once"
    node.kept.has_room = True
    node.pass_time(1)
    assert node.connect().submit(wire(1)) == ACCEPTED


def test_a_message_expires_to_the_second_and_leaves_nothing_but_its_events() -> None:
    node = host()
    node.connect().submit(wire())
    node.pass_time(EXPIRES_AT - node.now.wall_s - 1)
    assert len(node.ask("mempool")["messages"]) == 1
    node.pass_time(1)
    assert not node.ask("mempool")["messages"] and len(node.events("dmq_expired")) == 1
    assert not [key for key in node.kept if key[:2] in (b"m ", b"r ")]


def test_an_early_message_is_taken_and_marked_or_refused() -> None:
    paced, strict = host(), host(rate="reject")
    for node in (paced, strict):
        assert node.connect().submit(wire()) == ACCEPTED
    assert paced.connect().submit(wire(0, b"again")) == ACCEPTED
    first, second = paced.ask("mempool")["messages"]
    assert second["peers_at"] - first["peers_at"] == 60
    heads, rows = mempool_table([first, second], node.now.wall_s)
    later = datetime.fromtimestamp(NOW.wall_s + 60, UTC).strftime("%H:%M:%S")
    assert heads[5:] == ["FOR PEERS FROM (UTC)"] and [row[5:] for row in rows] == [[""], [later]]
    heads, rows = mempool_table([first, second], node.now.wall_s + 60)
    assert [len(row) for row in (heads, *rows)] == [5] * 3, "then peers may hear of all"
    strict.crash()
    assert strict.connect().submit(wire(0, b"again")).text.startswith("SigTooFrequent"), "also after a restart"


def test_the_record_of_a_pool_is_kept_for_a_new_certificate_and_for_each_message_only_if_there_is_a_pause() -> None:
    def records(node: Host) -> set[bytes]:
        return {value for key, value in node.kept.items() if key.startswith(b"p ")}

    for rate, is_kept in (("pace", False), ("reject", True)):
        node = host(rate=rate)
        assert node.connect().submit(wire(0)) == ACCEPTED
        first = records(node)
        node.pass_time(61)
        assert node.connect().submit(wire(0, b"again")) == ACCEPTED
        assert (records(node) != first) is is_kept
        later = Dmq05().write(Pool(0, issue_number=4).draft(b"later" + BODY))
        node.pass_time(61)
        assert node.connect().submit(later) == ACCEPTED and records(node) != first
        node.crash()
        node.pass_time(61)
        assert node.connect().submit(wire(0, b"earlier")).text.startswith("InvalidOCertCounter")


def test_wrong_bytes_close_their_connection_and_no_other() -> None:
    node = host()
    other = node.connect("consumer a")
    assert other.request() is None
    for bad in (HEAD.pack(0, 14, 0), HEAD.pack(0, 99, 1) + b"\0", HEAD.pack(0, 0x800E, 1) + b"\0", b"\xff" * 64):
        client = node.connect()
        client.send(bad)
        assert client.is_closed
    node.connect().submit(wire())
    assert other.messages() == (wire(),)


def test_another_network_is_refused_at_the_handshake_and_in_the_directory() -> None:
    node = host()
    client = node.connect(greets=False)
    client.say(h.NUMBER, h.propose(h.MAGICS["preview"]))
    assert isinstance(client.heard[0], h.MsgRefuse) and client.is_closed
    node.settings = msgspec.structs.replace(SETTINGS, network="preview")
    with pytest.raises(OtherNode, match=r"made for the network mainnet in .*, and is to serve preview in "):
        node.crash()


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=40)), max_size=12))
def test_any_bytes_harm_nobody_else(pieces: list[tuple[bool, bytes]]) -> None:
    """Whole SDUs of any payload, and any bytes: the client is answered or closed, and the next one is served."""
    node = host()
    client = node.connect("consumer a")
    for is_framed, data in pieces:
        if not client.is_closed and data:
            client.send(HEAD.pack(0, 14 + len(data) % 2, len(data)) + data if is_framed else data)
    assert node.connect().submit(wire()) == ACCEPTED and node.connect("consumer b").request() == (wire(),)


def test_the_genesis_is_read_again_if_only_what_read_it_has_died() -> None:
    """A service manager's signal may hit the worker before it can hold it off."""
    key, settings = SigningKey(bytes(32)).public, msgspec.structs.replace(SETTINGS, genesis="/genesis.json")
    rules = DmqNode(c.Setup("dmq", key, settings, {}, Random(1)))
    now = c.Now(NOW.wall_s, NOW.mono_s)
    died = c.Computed("genesis", error="its process died with -15; it is started again for the next job")
    reads = [one for one in rules.hear(c.Started(key), now) if isinstance(one, c.Compute) and one.tag == "genesis"]
    assert len(reads) == 1 and reads == rules.hear(died, now)
    with pytest.raises(BadSource, match=r"^the genesis /genesis.json: its process died with -15"):
        rules.hear(died, now)
    other = DmqNode(c.Setup("dmq", key, settings, {}, Random(1)))
    with pytest.raises(BadSource, match=r"^the genesis /genesis.json: it cannot be read"):
        other.hear(c.Computed("genesis", error="BadGenesis: it cannot be read"), now)


def problems(**given: object) -> list[str]:
    return [name for name, _ in msgspec.structs.replace(SETTINGS, **given).problems()]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"network": "mainet"}, "network"),
        ({"network": str(1 << 32)}, "network"),
        ({"network": "42"}, "genesis"),
        ({"consumers": ("a=unix:x", "a=unix:y")}, "consumers"),
        ({"consumers": ("a=unix:x", "b=unix:x?mode=660")}, "consumers"),
        ({"consumers": ("a=unix:x?mode=660",), "local_socket": "unix:x"}, "consumers"),
        ({"consumers": tuple(f"c{at}=unix:{at}" for at in range(17))}, "consumers"),
        ({"stake_command": ("cardano-cli",)}, "stake_command"),
    ],
)
def test_settings_that_no_form_can_judge_are_judged(wrong: dict[str, object], named: str) -> None:
    assert problems(**wrong) == [named] and problems() == []
    assert not list(SETTINGS.warnings("dmq", is_public=False, has_neighbours=False))
    assert list(Settings().warnings("dmq", is_public=False, has_neighbours=False))


def test_what_is_turned_away_in_masses_is_summed() -> None:
    node = host()
    signer = node.connect()
    assert signer.submit(wire()) == ACCEPTED
    for _ in range(500):
        signer.submit(wire())
    alone = len(node.events("dmq_rejected"))
    node.pass_time(60)
    [summed] = node.events("dmq_turned_away")
    assert alone + int(summed.fields["count"]) == 500 and alone < 300


def test_a_message_that_comes_a_byte_an_sdu_has_an_end() -> None:
    node = host()
    patient, slow = node.connect(), node.connect()
    framed = [sdu((NUMBER, Agency.INITIATOR), bytes((one,)), 0) for one in array_of(b"\0", wire())]
    took_s = 0
    while not slow.is_closed:
        slow.send(framed[took_s])
        node.pass_time(1)
        took_s += 1
    assert MESSAGE_S <= took_s <= MESSAGE_S + 2 and not patient.is_closed
    for one in framed:
        patient.send(one)
    assert node.ask("status")["accepted"] == 1
