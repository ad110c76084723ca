"""Operational certificates: published ones of four tools and of real blocks, their pools, and invalid ones."""

from __future__ import annotations

from typing import Any

import pytest
from samples.dmq import POOLS, VECTORS, altered, certificate_of, raw

from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import SigningKey
from services.dmq.core.cbor import Reader
from services.dmq.core.messages.certificate import PoolId, issue, read_certificate, read_inner

PUBLISHED = [*VECTORS["certificates"], *VECTORS["headers"]]


@pytest.mark.parametrize("vector", PUBLISHED, ids=lambda one: one.get("name") or f"slot {one['slot']}")
def test_published_certificates(vector: dict[str, Any]) -> None:
    certificate = certificate_of(vector)
    assert (certificate.pool.hex(), certificate.pool.text) == (vector["pool"], vector["pool_text"])
    assert certificate.is_signed()
    assert not altered(certificate, issue_number=certificate.issue_number + 1).is_signed()
    assert not altered(certificate, start_period=certificate.start_period + 1).is_signed()


@pytest.mark.parametrize("vector", [one for one in VECTORS["certificates"] if one["file"]], ids=lambda one: one["name"])
def test_the_file_of_cardano_cli(vector: dict[str, Any]) -> None:
    assert read_certificate(raw(vector["file"])) == certificate_of(vector)
    assert certificate_of(vector).encoded().hex() == vector["file"]


def test_the_form_on_the_wire() -> None:
    [vector] = [one for one in VECTORS["certificates"] if one["inner"]]
    expected = certificate_of(vector)
    assert encode(expected.inner).hex() == vector["inner"]
    assert read_inner(Reader(raw(vector["inner"]))) == (
        expected.kes_key, expected.issue_number, expected.start_period, expected.signature,
    )  # fmt: skip


def test_what_is_issued_is_signed_by_the_cold_key_alone() -> None:
    pool = POOLS[0]
    assert pool.certificate.is_signed()
    other = SigningKey(bytes(32))
    assert not altered(pool.certificate, cold_key=other.public).is_signed()
    assert issue(other, pool.kes.public, 0, 1430).pool != pool.id
    assert repr(pool.id) == f"PoolId({pool.id.hex()[:12]}…)"


WHOLE = POOLS[0].certificate.encoded()
INNER, COLD = POOLS[0].certificate.inner, bytes(POOLS[0].cold.public)


@pytest.mark.parametrize(
    ("data", "cause"),
    (
        (WHOLE + b"\0", "1 byte follows the certificate"),
        (encode([INNER, COLD[:31]]), "the cold key has 31 bytes instead of 32"),
        (encode([INNER[:3], COLD]), "the operational certificate has 3 items instead of 4"),
        (encode([[INNER[0], -1, *INNER[2:]], COLD]), "the issue number is not an unsigned number"),
        (encode([[*INNER[:3], INNER[0]], COLD]), "the cold signature has 32 bytes instead of 64"),
        (encode([INNER]), "the certificate has 1 item instead of 2"),
        (b"\x9f" + WHOLE[1:] + b"\xff", "the certificate is of indefinite length"),
        (b"", "it ends before the item does"),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_certificate(data: bytes, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        read_certificate(data)


def test_cut_anywhere_it_is_no_certificate() -> None:
    for end in range(len(WHOLE)):
        with pytest.raises(Malformed):
            read_certificate(WHOLE[:end])


def test_a_pool_id_has_28_bytes() -> None:
    with pytest.raises(ValueError, match="28 bytes, not 32"):
        PoolId(bytes(32))
