"""Keys as text: published bech32m vectors, detection of every single mistake, and helpful error texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ALICE, GROUP, IDS

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.text import (
    KINDS,
    BadText,
    Kind,
    age_text,
    bech32m_decode,
    bech32m_encode,
    clean,
    key_text,
    parse_key,
    short,
    span_text,
)

ADDRESS = key_text("addr", ALICE.public)


@pytest.mark.parametrize(
    "text",
    (
        "A1LQFN3A",
        "a1lqfn3a",
        "an83characterlonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber11sg7hg6",
        "abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx",
        "11" + "l" * 83 + "udsr8",
        "split1checkupstagehandshakeupstreamerranterredcaperredlc445v",
        "?1v759aa",
    ),
)
def test_bip_350_valid_checksums(text: str) -> None:
    try:
        prefix, data = bech32m_decode(text)
    except ValueError as error:
        # One of the vectors carries bits that make up no whole byte: its checksum is fine.
        assert "stray bits" in str(error)
    else:
        assert bech32m_encode(prefix, data) == text.lower()


@pytest.mark.parametrize(
    "text",
    (
        "\x201xj0phk",
        "\x7f1g6xzxy",
        "\x801vctc34",
        "an84characterslonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber11d6pts4",
        "qyrz8wqd2c9m",
        "1qyrz8wqd2c9m",
        "y1b0jsk6g",
        "lt1igcx5c0",
        "in1muywd",
        "mm1crxm3i",
        "au1s5cgom",
        "M1VUXWEZ",
        "16plkw9",
        "1p2gdwpf",
        "a12uel5l",  # valid in bech32, not in bech32m
    ),
)
def test_bip_350_invalid(text: str) -> None:
    with pytest.raises(ValueError):
        bech32m_decode(text)


def test_length_of_the_text_forms() -> None:
    assert [len(key_text(kind, bytes(32))) for kind in KINDS] == [63, 64, 62]
    assert ADDRESS.startswith("addr1")


@given(st.sampled_from(KINDS), st.binary(min_size=32, max_size=32))
def test_round_trip_of_any_32_bytes(kind: Kind, raw: bytes) -> None:
    assert bech32m_decode(key_text(kind, raw)) == (kind, raw)
    assert parse_key(key_text("msg", raw), "msg") == raw
    assert parse_key(raw.hex()) == raw


def test_types() -> None:
    assert type(parse_key(ADDRESS, "addr")) is PublicKey
    assert type(parse_key(ADDRESS)) is PublicKey
    assert type(parse_key(key_text("msg", IDS[0]))) is MessageId
    assert type(parse_key(IDS[0].hex(), "msg")) is MessageId
    assert type(parse_key(IDS[0].hex())) is bytes


def test_accepted_spellings() -> None:
    for text in (ADDRESS, ADDRESS.upper(), f" {ADDRESS}\n", ALICE.public.hex(), ALICE.public.hex().upper()):
        assert parse_key(text, "addr") == ALICE.public


@given(st.integers(0, 62), st.sampled_from("qpzry9x8gf2tvdw0s3jn54khce6mua7l1b "))
def test_one_wrong_character_is_always_noticed(at: int, other: str) -> None:
    wrong = ADDRESS[:at] + other + ADDRESS[at + 1 :]
    if wrong != ADDRESS:
        with pytest.raises(BadText):
            parse_key(wrong, "addr")


@given(st.integers(5, 61), st.data())
def test_swapped_lost_and_doubled_characters_are_noticed(at: int, data: st.DataObject) -> None:
    swapped = ADDRESS[:at] + ADDRESS[at + 1] + ADDRESS[at] + ADDRESS[at + 2 :]
    lost = ADDRESS[:at] + ADDRESS[at + 1 :]
    doubled = ADDRESS[:at] + ADDRESS[at] + ADDRESS[at:]
    for wrong in (swapped, lost, doubled, ADDRESS[: data.draw(st.integers(0, 62))]):
        if wrong != ADDRESS:
            with pytest.raises(BadText):
                parse_key(wrong)


def test_errors_say_what_why_and_what_to_do() -> None:
    kind: Kind | None
    with pytest.raises(BadText) as caught:
        parse_key(key_text("group", GROUP.public), "addr")
    group_text = key_text("group", GROUP.public)
    assert str(caught.value) == (
        f'"{group_text}" is not an address: it is a group. Copy it again, whole: addr1…, or 64 hex digits.'
    )
    for text, kind, cause in (
        (ADDRESS[:-1] + ("q" if ADDRESS[-1] != "q" else "p"), "addr", "its checksum does not fit"),
        (ADDRESS[:20] + "b" + ADDRESS[21:], "addr", 'the character "b" never stands in a key'),
        (ADDRESS[:20].upper() + ADDRESS[20:], "addr", "it mixes upper and lower case"),
        ("bakery", "group", "it has no prefix and checksum"),
        ("", None, "it has no prefix and checksum"),
        ("ab" * 31, None, "it has no prefix and checksum"),
        ("ab" * 33, "msg", "it has no prefix and checksum"),
        (short(ADDRESS), "addr", "never stands in a key"),
        (bech32m_encode("addr", bytes(31)), "addr", "it holds 31 bytes instead of 32"),
        (bech32m_encode("npub", bytes(32)), None, 'its prefix "npub" is unknown; keys begin with addr1'),
        (key_text("addr", bytes(32)), "addr", "its 32 bytes are not a valid Ed25519 public key"),
        (key_text("group", bytes(32)), None, "its 32 bytes are not a valid Ed25519 public key"),
        (bytes(32).hex(), "addr", "its 32 bytes are not a valid Ed25519 public key"),
        (ADDRESS * 2, "addr", "it is 126 characters long, longer than any key"),
    ):
        with pytest.raises(BadText) as caught:
            parse_key(text, kind)
        assert cause in str(caught.value), str(caught.value)
        assert clean(text, 100) in str(caught.value)
        assert str(caught.value).endswith("or 64 hex digits.")


def test_errors_do_not_carry_control_characters_or_long_texts() -> None:
    with pytest.raises(BadText) as caught:
        parse_key("\x1b[31maddr1" + "q" * 100_000)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 300


@given(st.text(max_size=80))
def test_any_text_gives_bytes_or_bad_text(text: str) -> None:
    for kind in (*KINDS, None):
        try:
            assert len(parse_key(text, kind)) == 32
        except BadText:
            continue


def test_key_text_takes_32_bytes_only() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        key_text("addr", bytes(31))


def test_short_forms_are_for_looking_up_only() -> None:
    assert short(ADDRESS) == ADDRESS[:13] + "…"
    assert short(key_text("group", GROUP.public))[:6] == "group1"
    assert short(ALICE.public) == ALICE.public.hex()[:8] + "…"
    assert short("bakery") == "bakery"
    for form in (short(ADDRESS), short(ALICE.public), short(ADDRESS)[:-1]):
        with pytest.raises(BadText):
            parse_key(form)


@pytest.mark.parametrize(
    ("seconds", "text"),
    ((190.0, "3 min old"), (0.0, "0 s old"), (-0.9, "0 s old"), (-2557.0, "from 42 min ahead of this clock")),
)
def test_age_text_says_of_a_time_to_come_that_it_is_ahead(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


def test_clean() -> None:
    assert clean("grüß dich, 世界") == "grüß dich, 世界"
    assert clean("a\x00b\x1b[31m\r\nc\x7f\x9b") == "ab[31mc"
    assert clean("\u202eevil\u200b\u2066\u2028\u2029\ud800") == "evil"
    assert clean("世" * 100) == "世" * 66
    assert clean("abc", 2) == "ab" and clean("", 10) == ""


@given(st.text(), st.integers(0, 50))
def test_clean_bounds_and_repeats(text: str, bytes_max: int) -> None:
    cleaned = clean(text, bytes_max)
    assert len(cleaned.encode()) <= bytes_max
    assert clean(cleaned, bytes_max) == cleaned


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "-"), (59, "59 s"), (60, "1 min"), (3600, "1 h"), (3659, "1 h"), (3660, "1 h 1 min"),
        (86_399, "23 h 59 min"), (86_400, "1 d"), (90_000, "1 d 1 h"), (7 * 86_400, "7 d"), (7 * 86_400 + 3599, "7 d"),
    ],
)  # fmt: skip
def test_a_span_names_its_smaller_unit_only_if_there_is_some(seconds: float | None, said: str) -> None:
    assert span_text(seconds) == said
