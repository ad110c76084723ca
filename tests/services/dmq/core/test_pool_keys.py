"""The keys of a test pool: made, read, and used; a node with their stake file accepts their messages."""

from __future__ import annotations

import pytest
from samples.dmq import BODY, EXPIRES_AT, NOW, POOLS, VECTORS

from services.dmq.core.messages import pool_keys as k
from services.dmq.core.messages.authentication import Authentication, Topic
from services.dmq.core.messages.envelope import write_certificate, write_kes_key
from services.dmq.core.messages.fault import Fault
from services.dmq.core.messages.pool_keys import BadKeys
from services.dmq.core.messages.signatures import SignatureChecker
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.distribution import read_stake

PERIOD = Topic().chain.kes_period_at(NOW.wall_s)
FILES = k.generate(b"c" * 32, b"k" * 32, PERIOD - 3)
KEYS = k.read_keys(FILES[k.KES_SECRET], FILES[k.CERTIFICATE])


@pytest.mark.parametrize("name", REVISIONS)
def test_what_is_signed_with_generated_keys_passes_all_checks(name: str) -> None:
    encoding = REVISIONS[name].encoding
    node = Authentication(Topic(), encoding, read_stake(FILES[k.STAKE], NOW.wall_s))
    message = encoding.read(encoding.write(KEYS.draft(BODY, PERIOD, expires_at=EXPIRES_AT, ttl_s=900)))
    assert node.judge(message, NOW, is_known=False) is None
    assert SignatureChecker().fault(node.signature_check(message, NOW)) is None


def test_the_published_keys_sign_as_well() -> None:
    files = VECTORS["envelopes"][0]["files"]
    keys = k.read_keys(files["kes.skey"].encode(), files["opcert.cert"].encode())
    assert keys.draft(BODY, 62).kes_period == 62
    assert keys.certificate.pool.hex() == next(
        one["pool"] for one in VECTORS["certificates"] if one["name"] == "dingo_devnet"
    )


@pytest.mark.parametrize("period", [PERIOD - 4, PERIOD - 3 + 64])
def test_a_period_that_the_key_does_not_have(period: int) -> None:
    with pytest.raises(BadKeys, match=f"signs in the periods {PERIOD - 3} to {PERIOD + 60}, not in {period}; keep"):
        KEYS.draft(BODY, period)


def test_an_evolved_key_signs_from_its_period_on() -> None:
    later = k.read_keys(write_kes_key(KEYS.kes.evolved_to(3)), FILES[k.CERTIFICATE])
    assert later.draft(BODY, PERIOD).key.sign(b"m") == KEYS.draft(BODY, PERIOD).key.sign(b"m")
    with pytest.raises(BadKeys, match=f"signs in the periods {PERIOD} to"):
        later.draft(BODY, PERIOD - 1)


def test_keys_that_do_not_belong_together() -> None:
    with pytest.raises(BadKeys, match="for another KES key; name the two that were made together"):
        k.read_keys(FILES[k.KES_SECRET], write_certificate(POOLS[0].certificate))


def test_a_pool_without_a_place_in_the_stake_file_is_refused() -> None:
    encoding = REVISIONS["dmq-0.5"].encoding
    node = Authentication(Topic(), encoding, read_stake(k.stake_file(POOLS[0].id, POOLS[1].id), NOW.wall_s))
    message = encoding.read(encoding.write(KEYS.draft(BODY, PERIOD, expires_at=EXPIRES_AT)))
    rejected = node.judge(message, NOW, is_known=False)
    assert rejected is not None and rejected.fault is Fault.UNKNOWN_POOL


def test_no_repr_holds_a_secret() -> None:
    assert KEYS.kes.secret[:8].hex() not in repr(KEYS) and "PoolKeys of PoolId(" in repr(KEYS)
