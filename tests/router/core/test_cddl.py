"""The CDDL files as an oracle (R-A8): everything that our encoders write or our decoders accept is valid by them.

Only the decoders check what CDDL cannot express: points, signatures, seals, and the causes in `BEYOND_CDDL`.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from rigs.corruption import corrupted
from samples import pubsub
from samples.core import (
    ABOUT_PLACES,
    ADVERTISEMENTS,
    ALICE,
    APPLICATIONS,
    BARE,
    BOB,
    CONTENT_KEYS,
    CONTROLS,
    DATED_PREKEY,
    GROUP,
    HINTS,
    INVITATIONS,
    ITEMS,
    LINKS,
    PREKEY,
    PREKEY_ANSWERS,
    PREKEY_SEEDS,
    REDEMPTIONS,
    RENEWAL,
    SEALED,
    SEALED_BODIES,
    SEALED_PLAINS,
    SEALED_TO_BOB,
    SUCCESSION,
    WANTED,
    WIRES,
    X25519_SEED,
    value_of,
)
from samples.discovery import MESSAGES

from router.core.wire.advert import decode_advertisement
from router.core.wire.application import SealError, decode_application, unseal, unseal_unicast
from router.core.wire.codec import Malformed, encode, frame
from router.core.wire.control import decode_control, encode_control
from router.core.wire.grouplink import parse_link
from router.core.wire.hint import decode_hint
from router.core.wire.invitation import parse_peer_link
from router.core.wire.link_items import decode_item, encode_item
from router.core.wire.link_text import SCHEME
from router.core.wire.message import open_message
from router.core.wire.prekey import decode_prekey, encode_prekey
from router.core.wire.prekey_exchange import decode_answer
from router.core.wire.pubsub import decode_wanted, encode_wanted
from router.core.wire.redemption import decode_redemption, encode_redemption
from router.core.wire.renewal import (
    decode_renewal,
    decode_renewal_notice,
    encode_renewal,
    encode_renewal_notice,
)
from router.core.wire.succession import decode_succession, encode_succession
from router.core.wire.text import BadText
from router.core.wire.unicast_seal import open_body, opening_key, read_body, read_plain
from router.core.wire.whereabouts import decode_about_places, encode_about_places
from services.discovery.core.messages import decode_message, encode_message
from services.pubsub.core import messages as pubsub_messages

CDDL = Path(__file__).parents[3] / "cddl"
STREAM = b"".join(map(frame, (*WIRES, *map(encode_item, ITEMS))))


@cache
def validator(stem: str) -> Validator:
    return Validator(CDDL / f"{stem}.cddl")


def fits(data: bytes, stem: str, rule: str) -> bool:
    return bool(validator(stem).validate(data, rule, require_deterministic=True).valid)


def link_bytes(text: str) -> bytes:
    raw = text.removeprefix(SCHEME)
    return urlsafe_b64decode(raw + "=" * (-len(raw) % 4))


def _open_group(plain: bytes) -> object:
    return decode_application(plain, GROUP.public)


def _unseal(body: bytes) -> object:
    return unseal(body, GROUP.public, CONTENT_KEYS)


def _unseal_unicast(body: bytes) -> object:
    return unseal_unicast(body, PREKEY.owner, PREKEY_SEEDS)


def _open_body(body: bytes) -> object:
    sealed = read_body(body)
    return open_body(sealed, opening_key(X25519_SEED, sealed.ephemeral), ALICE.public, BOB.public)


def _link_of(data: bytes) -> str:
    return SCHEME + urlsafe_b64encode(data).rstrip(b"=").decode()


def _parse_link(data: bytes) -> object:
    return parse_link(_link_of(data))


def _parse_invitation(data: bytes) -> object:
    return parse_peer_link(_link_of(data))


def _decode_discovery(body: bytes) -> object:
    """Decode a message of discovery; its type 1 is described in advert.cddl."""
    if body[:2] == b"\x82\x01":
        raise Malformed("not of discovery.cddl")
    return decode_message(body)


Decoder = Callable[[bytes], object]
NOUNS: tuple[tuple[str, str, Decoder, tuple[bytes, ...]], ...] = (
    ("message", "message", open_message, WIRES),
    ("control", "control", decode_control, tuple(map(encode_control, CONTROLS))),
    ("pubsub", "wanted", decode_wanted, tuple(map(encode_wanted, WANTED))),
    ("pubsub", "between", pubsub_messages.decode_message, tuple(map(pubsub_messages.encode_message, pubsub.MESSAGES))),
    ("link", "link-item", decode_item, tuple(map(encode_item, ITEMS))),
    ("application", "message", _open_group, APPLICATIONS),
    ("application", "sealed-body", _unseal, (SEALED,)),
    ("application", "sealed-body", _unseal_unicast, (SEALED_TO_BOB,)),
    ("application", "sealed-body", _open_body, SEALED_BODIES),
    ("application", "prekey", decode_prekey, (encode_prekey(PREKEY), encode_prekey(DATED_PREKEY))),
    ("application", "sealed-plain", read_plain, SEALED_PLAINS),
    ("application", "prekey-answer", decode_answer, PREKEY_ANSWERS),
    ("renewal", "renewal", decode_renewal, (encode_renewal(RENEWAL),)),
    ("succession", "succession", decode_succession, (encode_succession(SUCCESSION),)),
    ("renewal", "notice", decode_renewal_notice, (encode_renewal_notice(RENEWAL),)),
    ("whereabouts", "about-places", decode_about_places, tuple(map(encode_about_places, ABOUT_PLACES))),
    ("grouplink", "grouplink", _parse_link, tuple(link_bytes(one.text()) for one in LINKS)),
    ("hint", "hint", decode_hint, HINTS),
    ("advert", "message", decode_advertisement, tuple(one.message for one in ADVERTISEMENTS)),
    ("discovery", "message", _decode_discovery, tuple(map(encode_message, MESSAGES))),
    ("invitation", "redemption", decode_redemption, tuple(map(encode_redemption, REDEMPTIONS))),
    ("invitation", "invitation", _parse_invitation, tuple(link_bytes(one.text()) for one in INVITATIONS)),
)
BEYOND_CDDL = (
    "an id stands twice in the list of seen ids",
    "an ACK acknowledges exactly one message",
    "the seal does not fit",
    "a point of small order",
    "addr is not a name that DNS knows",
    "at is not a name that DNS knows",
    "a topic stands twice among the rings",
    "an index points beyond the advertisements",
    "the old address would be read for",
    "the old address would be answered for",
    "found has a ",
    "sums has ",
)
CASES = [
    pytest.param(stem, rule, decoder, data, id=f"{stem}-{rule}-{at}")
    for stem, rule, decoder, samples in NOUNS
    for at, data in enumerate(samples)
]


@pytest.mark.parametrize(("stem", "rule", "decoder", "data"), CASES)
def test_what_we_write_is_valid(stem: str, rule: str, decoder: Decoder, data: bytes) -> None:
    result = validator(stem).validate(data, rule, require_deterministic=True)
    assert result.valid, [str(one) for one in result.diagnostics]
    decoder(data)


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("stem", "rule", "decoder", "data"), CASES)
def test_we_accept_what_is_valid_and_nothing_else(
    stem: str, rule: str, decoder: Decoder, data: bytes, share: int
) -> None:
    """Quickly: one in eight of the changes, others for each sample."""
    refused = 0
    for changed in map(_written, islice(corrupted(value_of(data)), len(data) % share, None, share)):
        try:
            decoder(changed)
        except (Malformed, SealError, BadText) as error:
            refused += 1
            cause = str(error).partition("letters of it are changed (")[2] or str(error)
            assert not fits(changed, stem, rule) or cause.startswith(BEYOND_CDDL), changed.hex()
        else:
            assert fits(changed, stem, rule), changed.hex()
    assert refused > 10 // share


def _written(value: Any) -> bytes:
    """Encode the value again; application messages and invitations are signed again, so that a wrong signature hides no
    wrong shape."""
    match value:
        case [3, {"inv": _, "sig": bytes() as signature} as fields] if len(signature) == 64:
            rest = {key: one for key, one in fields.items() if key != "sig"}
            return encode([3, rest | {"sig": ALICE.sign(b"upsycle invitation 1" + encode(rest))}])
        case [{"sig": _, "from": _, "to": _} as header, body]:
            header = {key: one for key, one in header.items() if key != "sig"}
            return encode([header | {"sig": ALICE.sign(encode([header, body]))}, body])
    return encode(value)


def test_a_stream_is_a_sequence_of_frames() -> None:
    assert fits(encode(STREAM), "frame", "stream")
    assert fits(encode(b""), "frame", "stream")
    for broken in (
        STREAM + b"\x00",
        STREAM[:-1],
        frame(encode([14, 0])),
        frame(encode({})),
        frame(b""),
        BARE[0],
    ):
        assert not fits(encode(broken), "frame", "stream")


@pytest.mark.parametrize("path", sorted(CDDL.glob("*.cddl")), ids=lambda path: path.stem)
def test_every_file_is_sound(path: Path) -> None:
    assert not Validator(path).warnings
