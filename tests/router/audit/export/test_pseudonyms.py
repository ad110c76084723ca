"""Pseudonyms join across logs, sign as routers do, and reveal nothing about the originals."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.audit.export.pseudonyms import WITHHELD, Pseudonyms
from router.core.log.line import Line
from router.core.wire.crypto import verify

SECRET = bytes(range(32))
KEY, OTHER, ID = "11" * 32, "22" * 32, "33" * 32
NAMES = Pseudonyms(SECRET)
LINE = Line(
    1, "accepted", 7, 2, 5, 6, KEY, "44" * 16, source=OTHER, group=OTHER, signer=OTHER, destination=OTHER, peer=OTHER,
    ids=ID + ID[::-1], sizes=[9, 9], recipients=[OTHER, KEY], recipient=OTHER, reason="left",
    fields={"peer": OTHER, "standing": "local", "link": 3, "url": f"tls://{OTHER}@host:1", "head_digest": ID},
)  # fmt: skip


def test_one_secret_gives_one_name_and_another_secret_another() -> None:
    assert NAMES.key(KEY) == Pseudonyms(SECRET).key(KEY) != Pseudonyms(bytes(32)).key(KEY)
    assert NAMES.id(ID) == Pseudonyms(SECRET).id(ID) != Pseudonyms(bytes(32)).id(ID)
    assert NAMES.boot("44" * 16) == Pseudonyms(SECRET).boot("44" * 16) != Pseudonyms(bytes(32)).boot("44" * 16)
    assert NAMES.boot("44" * 16) not in ("44" * 16, NAMES.boot("45" * 16)) and len(NAMES.boot("44" * 16)) == 32
    assert NAMES.key(ID) != NAMES.id(ID), "a key and a message of the same bytes have names of their own"


def test_the_name_of_a_router_verifies_what_is_signed_for_it() -> None:
    signature = NAMES.signing_key(KEY).sign(b"footer")
    assert verify(bytes.fromhex(NAMES.key(KEY)), b"footer", signature)


def test_a_line_keeps_what_is_counted_and_renames_the_rest() -> None:
    line, a, b = NAMES.line(LINE), NAMES.key(KEY), NAMES.key(OTHER)
    assert (line.seq, line.n, line.t, line.sizes, line.reason, line.boot) == (
        7,
        2,
        5,
        [9, 9],
        "left",
        NAMES.boot("44" * 16),
    )
    assert (line.router, line.recipients) == (a, [b, a])
    assert {line.source, line.group, line.signer, line.destination, line.peer, line.recipient} == {b}
    assert line.ids == NAMES.id(ID) + NAMES.id(ID[::-1])


def test_text_of_a_state_event_is_withheld() -> None:
    assert NAMES.line(LINE).fields == {"peer": NAMES.key(OTHER), "standing": "local", "link": 3, "url": WITHHELD}


def test_the_network_that_an_abuse_is_counted_for_is_withheld() -> None:
    noted = Line(1, "discovery_refused", fields={"service": "discovery", "prefix": "192.0.2.0/24", "times": 9})
    assert NAMES.line(noted).fields == {"service": WITHHELD, "prefix": WITHHELD, "times": 9}


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=4))
def test_no_key_and_no_id_is_left(keys: list[bytes]) -> None:
    names = [key.hex() for key in keys]
    fields = {f"f{at}": one for at, one in enumerate([*names, ", ".join([*names, ""])])}
    line = Line(1, "join", router=names[0], peer=names[-1], recipients=names, ids="".join(names), fields=fields)
    text = msgspec.json.encode(NAMES.line(line)).decode()
    assert not [one for one in names if one in text]
    assert len(re.findall(r"[0-9a-f]{64}", text)) == 2 + 3 * len(names)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 3"):
        Pseudonyms(b"abc")


@pytest.mark.parametrize("text", ["bob", "ab", KEY.replace("1", "A"), KEY + "11", f"{KEY}\n"])
def test_what_is_no_key_has_no_name(text: str) -> None:
    for name in (NAMES.key, NAMES.id):
        with pytest.raises(ValueError, match="where a key or an id of 64 hex digits should be"):
            name(text)
