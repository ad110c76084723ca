"""The seeds' tables and CDDL (`tests/vectors/dmq_seeds.json`) compared with ours: equal, or a reading says why not."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from rigs.corruption import corrupted
from samples.core import value_of
from samples.dmq import POOLS, VECTORS, raw
from samples.dmq_messages import NOTIFICATION, SUBMISSION, WIRES

from router.core.link.machine import Agency, Table
from router.core.wire.codec import Malformed, encode
from services.dmq.core.messages.signed_message import SEEDS as BODY
from services.dmq.core.messages.signed_message import Cip29ffe0e
from services.dmq.core.protocols import notification, submission
from services.dmq.core.protocols.notification import REVISIONS

SEEDS: dict[str, Any] = json.loads((Path(__file__).parents[3] / "vectors" / "dmq_seeds.json").read_text())
STORED = {one["name"]: one["hex"] for one in VECTORS["seed_revision"]}
TABLES = {
    "submission": (SEEDS["000"]["submission"], submission.TABLE),
    "notification": (SEEDS["000"]["notification"], REVISIONS["cip-29ffe0e"].table),
}
MENDED = {
    "word16": "uint .size 2",  # Used and not defined.
    "word32": "uint .size 4",
    "messages = [* message]": "messages = [* any]",  # Messages are looked at by themselves.
    "ackedMessages = * messageId": "ackedMessages = (* messageId)",  # F6: they stand inline.
}
"""Parts of the seeds that are not CDDL, and their replacements here."""


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_those_of_the_seed(name: str) -> None:
    seed, table = TABLES[name]
    steps = {(state.value, kind.__name__, to.value) for state, row in table.items() for kind, to in row.on.items()}
    assert steps == {tuple(step) for step in seed["steps"]}
    assert {state.value for state in speaking(table, Agency.INITIATOR)} == set(seed["client"])
    # The seed gives StDone to the server, which may not say anything in it; here it is nobody's.
    assert {state.value for state in speaking(table, Agency.RESPONDER, Agency.NOBODY)} == set(seed["server"])


def speaking(table: Table, *sides: Agency) -> set[Any]:
    return {state for state, row in table.items() if row.agency in sides}


def mended(seed: str, protocol: str, path: Path) -> Validator:
    text = "\n".join(SEEDS[seed][protocol]["cddl"])
    for wrong, right in MENDED.items():
        text = text.replace(wrong, right)
    path.write_text(text)
    return Validator(path)


CIP = Cip29ffe0e()


def read_submission(wire: bytes) -> object:
    """Read a submission together with its message, which the seeds' CDDL describes too."""
    message = submission.decode_message(wire)
    return CIP.read(message.message) if isinstance(message, submission.MsgSubmitMessage) else message


SUBMITTED = [one for one in SUBMISSION if not isinstance(one, submission.MsgSubmitMessage)]
CASES = [
    *(
        (seed, "submission", read_submission, [submission.encode_message(one) for one in SUBMITTED])
        for seed in ("000", "001")
    ),
    *(
        (seed, "notification", REVISIONS[name].decode, [REVISIONS[name].encode(one) for one in NOTIFICATION[name]])
        for seed, name in (("000", "cip-29ffe0e"), ("001", "overview-2025-04"))
    ),
]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("seed", "protocol", "read", "wires"), CASES)
def test_the_cddl_of_the_seed(
    seed: str, protocol: str, read: Any, wires: list[bytes], step: int, tmp_path: Path
) -> None:
    """Everything we write is valid by it; of bytes with one thing wrong we accept only valid ones, and those that
    gouroboros writes. Quickly: each fifth of the corrupted values."""
    validator = mended(seed, protocol, tmp_path / "seed.cddl")
    root = f"localMessage{protocol.capitalize()}Message"
    for wire in wires:
        assert validator.validate(wire, root).valid, wire.hex()
        for changed in map(encode, islice(corrupted(value_of(wire)), 0, None, step)):
            is_valid = validator.validate(changed, root).valid
            try:
                read(changed)
            except Malformed as error:
                assert not is_valid or "longer than" in str(error) or "instead of" in str(error), (changed.hex(), error)
            else:
                assert is_valid or with_text_too_many(changed), changed.hex()


def with_text_too_many(wire: bytes) -> bool:
    value = value_of(wire)
    return value[0] == 2 and len(value) == 2 and value[1][0] in (1, 2) and len(value[1]) == 2


@pytest.mark.parametrize("wire", WIRES["cip-29ffe0e"])
def test_the_messages_of_the_seed(wire: bytes, tmp_path: Path) -> None:
    """The message handed in has a ttl; the one that consumers get has none (both seeds agree)."""
    for seed in ("000", "001"):
        handed_in = mended(seed, "submission", tmp_path / "submission.cddl")
        notified = mended(seed, "notification", tmp_path / "notification.cddl")
        assert handed_in.validate(wire, "message").valid
        assert notified.validate(CIP.notified(CIP.read(wire)), "message").valid
        assert not notified.validate(wire, "message").valid


def test_the_sizes_of_the_seed() -> None:
    """F1: a certificate with its cold key has 138 to 156 bytes, not the 304 of the table, which stays the bound."""
    sizes = SEEDS["sizes"]
    message = CIP.read(CIP.write(POOLS[0].draft(bytes(BODY.least))))
    assert tuple(BODY) == tuple(sizes["messageBody"])
    assert len(message.id) == sizes["messageId"][0] and len(message.kes_signature) == sizes["kesSignature"][0]
    assert len(message.certificate.encoded()) <= sizes["operationalCertificate"][1]
    assert len(message.wire) <= sum(least for least, _ in sizes.values()) == 1150
    longest = CIP.write(POOLS[0].draft(bytes(BODY.most), ttl_s=65_535))
    assert len(longest) <= sum(most for _, most in sizes.values()) == 2790


def test_stored_messages_of_the_seeds() -> None:
    message = CIP.read(raw(STORED["message n2n and local submission"]))
    notified = CIP.notified(message)
    assert notified.hex() == STORED["message in local notification (no ttl)"]
    assert CIP.read_notified(notified).body == message.body and CIP.read_notified(notified).ttl_s is None
    encoded = {
        "msgSubmitMessage": submission.encode_message(submission.MsgSubmitMessage(message.wire)),
        "msgRejectMessage ttlTooLarge": submission.encode_message(
            submission.MsgRejectMessage(submission.RejectKind.TTL_TOO_LARGE)
        ),
        "msgNextMessages": cip(notification.MsgNextMessages()),
        "msgHasMessages": cip(notification.MsgHasMessages((notified,))),
        "msgNoMessages": cip(notification.MsgNoMessages()),
        "msgDone": cip(notification.MsgDone()),
        "seed 001 msgRequestMessages blocking, nothing acknowledged": overview(
            notification.MsgRequestMessagesBlocking()
        ),
        "seed 001 msgRequestMessages non-blocking, one acknowledged": overview(
            notification.MsgRequestMessagesNonBlocking((message.id,))
        ),
        "seed 001 msgReplyMessages": overview(notification.MsgReplyMessages((notified,))),
        "seed 001 msgClientDone": overview(notification.MsgClientDone()),
        "seed 001 msgServerDone": overview(notification.MsgServerDone()),
    }
    assert {name: wire.hex() for name, wire in encoded.items()} == {
        name: STORED[name] for name in STORED if not name.startswith(("n2n", "message "))
    }


def cip(message: notification.Message) -> bytes:
    return REVISIONS["cip-29ffe0e"].encode(message)


def overview(message: notification.Message) -> bytes:
    return REVISIONS["overview-2025-04"].encode(message)
