"""Any bytes give a value or `Malformed`: for every reader of the core, on noise and on damaged samples."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import (
    ABOUT_PLACES,
    ADVERTISEMENTS,
    APPLICATIONS,
    BOB,
    CONTENT_KEYS,
    CONTROLS,
    GROUP,
    HINTS,
    ITEMS,
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
    value_of,
)
from samples.discovery import MESSAGES

from router.core.wire.advert import decode_advertisement, decode_datagram
from router.core.wire.application import SealError, decode_application, unseal, unseal_unicast
from router.core.wire.codec import Malformed, frame, split_frames, unframe
from router.core.wire.control import decode_control, encode_control
from router.core.wire.hint import decode_hint
from router.core.wire.link_items import decode_item, encode_item
from router.core.wire.message import open_message, read_header, verify_message
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
from router.core.wire.unicast_seal import read_body, read_plain
from router.core.wire.whereabouts import decode_about_places, encode_about_places
from services.discovery.core.messages import decode_message, encode_message

Reader = Callable[[bytes], object]
READERS: dict[str, Reader] = {
    "decode": value_of,
    "split_frames": split_frames,
    "unframe": unframe,
    "read_header": lambda data: read_header(data, 0, len(data)),
    "open_message": open_message,
    "verify_message": verify_message,
    "decode_control": decode_control,
    "decode_wanted": decode_wanted,
    "decode_message": decode_message,
    "decode_redemption": decode_redemption,
    "decode_hint": decode_hint,
    "decode_item": decode_item,
    "decode_prekey": decode_prekey,
    "decode_renewal": decode_renewal,
    "decode_succession": decode_succession,
    "decode_renewal_notice": decode_renewal_notice,
    "decode_about_places": decode_about_places,
    "decode_advertisement": decode_advertisement,
    "decode_datagram and verify": lambda data: decode_datagram(data).verify(),
    "decode_application": lambda data: decode_application(data, GROUP.public),
    "unseal": lambda data: unseal(data, GROUP.public, CONTENT_KEYS),
    "read_body": read_body,
    "read_plain": read_plain,
    "decode_answer": decode_answer,
    "unseal_unicast": lambda data: unseal_unicast(data, BOB.public, PREKEY_SEEDS),
}
SAMPLES = (
    *WIRES,
    *map(encode_control, CONTROLS),
    *map(encode_wanted, WANTED),
    *map(encode_item, ITEMS),
    *APPLICATIONS,
    SEALED,
    SEALED_TO_BOB,
    encode_prekey(PREKEY),
    encode_renewal(RENEWAL),
    encode_succession(SUCCESSION),
    encode_renewal_notice(RENEWAL),
    *map(encode_about_places, ABOUT_PLACES),
    *SEALED_BODIES,
    *SEALED_PLAINS,
    *PREKEY_ANSWERS,
    *map(encode_message, MESSAGES),
    *map(encode_redemption, REDEMPTIONS),
    *HINTS,
    *(one.message for one in ADVERTISEMENTS),
    frame(WIRES[0]),
)


def read(reader: Reader, data: bytes) -> None:
    try:
        reader(data)
    except Malformed as error:
        assert 5 < len(str(error)) < 250
    except SealError as error:
        assert str(error)


@pytest.mark.parametrize("name", READERS)
@given(data=st.binary(max_size=200))
def test_noise(name: str, data: bytes) -> None:
    read(READERS[name], data)


# Bytes that steer a CBOR reader into its corners: heads of every kind, with every width of argument.
HEADS = st.sampled_from([bytes((major << 5 | info,)) for major in range(8) for info in (0, 1, 4, 22, *range(24, 32))])


@pytest.mark.parametrize("name", READERS)
@given(data=st.lists(HEADS | st.binary(max_size=9), max_size=20).map(b"".join))
def test_cbor_like_noise(name: str, data: bytes) -> None:
    read(READERS[name], data)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_damaged_samples(name: str, data: st.DataObject) -> None:
    wire = bytearray(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(wire)))
        wire[at : at + data.draw(st.integers(0, 4))] = data.draw(HEADS | st.binary(max_size=6))
    read(READERS[name], bytes(wire))


@pytest.mark.parametrize("name", READERS)
def test_every_prefix_of_every_sample(name: str) -> None:
    for sample in SAMPLES:
        for end in range(min(len(sample), 400)):
            read(READERS[name], sample[:end])
