"""Text envelopes: published files of cardano-cli are read, and written identically; nothing else is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from samples.dmq import POOLS, VECTORS, altered, certificate_of

from services.dmq.core.messages import envelope as e
from services.dmq.core.messages.envelope import BadEnvelope
from services.dmq.core.messages.kes import PERIODS, KesSigningKey

DINGO, KES_AGENT = (one["files"] for one in VECTORS["envelopes"])
CERTIFICATES = {one["name"]: certificate_of(one) for one in VECTORS["certificates"]}
POOL = POOLS[0]
KES = e.write_kes_key(POOL.kes)


def test_published_files_are_read_and_written_to_the_byte() -> None:
    certificate = e.read_certificate_file(KES_AGENT["opcert.cert"].encode())
    assert certificate == CERTIFICATES["kes_agent_fixture"]
    key = e.read_kes_key(DINGO["kes.skey"].encode())
    assert key.public == CERTIFICATES["dingo_devnet"].kes_key and key.period == 0
    for text, written in (
        (KES_AGENT["opcert.cert"], e.write_certificate(certificate)),
        (KES_AGENT["cold.vkey"], e.write_cold_public(certificate.cold_key)),
        (KES_AGENT["kes.vkey"], e.write_kes_public(certificate.kes_key)),
        (DINGO["kes.skey"], e.write_kes_key(key)),
    ):
        assert written.decode() == text + "\n"


def test_a_kes_key_is_read_in_the_period_in_which_it_was_written() -> None:
    key = POOL.kes
    for period in range(PERIODS):
        key = key.evolved_to(period)
        found = e.read_kes_key(e.write_kes_key(key))
        assert (found.period, found.public, found.sign(b"m")) == (period, key.public, key.sign(b"m"))


def test_a_cold_key_is_the_same_again() -> None:
    assert e.read_cold_key(e.write_cold_key(POOL.cold)).public == POOL.cold.public


def changed(data: bytes, **fields: Any) -> bytes:
    return json.dumps(json.loads(data) | fields).encode()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (e.write_kes_public(POOL.kes.public), "of type 'KesVerificationKey_ed25519_kes_2^6'"),
        (b"{", "not JSON"),
        (b"[" * 10_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "lacks type or cborHex"),
        (changed(KES, cborHex=None), "lacks type or cborHex"),
        (changed(KES, cborHex="zz"), "not hexadecimal"),
        (changed(KES, cborHex="5820" + "00" * 32), "its content has 32 bytes instead of 608"),
        (changed(KES, cborHex=json.loads(KES)["cborHex"] + "00"), "1 byte follows"),
        (changed(KES, cborHex="590260" + "11" * 608), "its parts do not belong together"),
        (changed(KES, description="x" * e.ENVELOPE_BYTES_MAX), "longer than 16384 bytes"),
    ],
)
def test_a_wrong_file_is_refused_with_cause_and_remedy(data: bytes, cause: str) -> None:
    with pytest.raises(BadEnvelope) as refused:
        e.read_kes_key(data)
    assert cause in str(refused.value) and str(refused.value).endswith("name the file as cardano-cli wrote it")
    assert POOL.kes.secret[:32].hex() not in str(refused.value)


def test_a_certificate_that_nobody_signed_is_refused() -> None:
    with pytest.raises(BadEnvelope, match="its cold key has not signed it"):
        e.read_certificate_file(e.write_certificate(altered(POOL.certificate, issue_number=1)))
    with pytest.raises(BadEnvelope, match="the certificate is not a list"):
        e.read_certificate_file(changed(e.write_certificate(POOL.certificate), cborHex="00"))


def test_a_restored_key_cannot_go_back() -> None:
    """The seeds of past periods are replaced by zeros, which tell its period."""
    later = KesSigningKey.restored(POOL.kes.evolved_to(37).secret)
    with pytest.raises(ValueError, match="is in period 37"):
        later.evolved_to(36)
