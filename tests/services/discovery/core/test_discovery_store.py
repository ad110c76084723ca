"""The service's kept rows match cddl/discovery-store.cddl, row by row, and nothing else is accepted at a start."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from samples.core import ADVERTISEMENTS

from router.core.service.adverts import verified
from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError
from router.service import contract as c
from router.service.kept_rows import STATE
from router.service.roles.discovery import Interfaces
from services.discovery.core import exchanges, shared_groups
from services.discovery.core import sampling as s
from services.discovery.core.kept import FORMS
from services.discovery.core.known import Known
from services.discovery.core.lan import part
from services.discovery.rules import Discovery
from services.discovery.settings import Settings

ME, ROUTER, OTHER = (PublicKey(bytes((one,)) * 32) for one in (1, 2, 3))
NOW = c.Now(1_800_000_000.5, 1_000.25)
RULES = {
    STATE: "state",
    part.KEPT: "lan",
    shared_groups.KEPT: "agreed",
    exchanges.KEPT: "advert",
    exchanges.SEED: "seed",
}


@cache
def validator(stem: str) -> Validator:
    return Validator(Path(__file__).parents[4] / "cddl" / f"{stem}.cddl")


def is_valid(prefix: bytes, row: bytes) -> bool:
    if prefix == part.KEPT:
        try:
            row = cbor2.dumps(json.loads(row))
        except ValueError:
            return False
    elif prefix == exchanges.KEPT and not validator("advert").validate(row, "message").valid:
        return False
    data = row if prefix in (STATE, part.KEPT) else cbor2.dumps(row)
    return bool(validator("discovery-store").validate(data, RULES[prefix]).valid)


def setup(kept: dict[bytes, bytes]) -> c.Setup:
    return c.Setup("discovery", ME, Settings(sampling=True), kept, Random(1))


def written() -> dict[bytes, bytes]:
    """Return a row of each kind, as the parts of the service write it."""
    kept: dict[bytes, bytes] = {}
    own, known, advert = setup(kept), Known(), ADVERTISEMENTS[0]
    known.router = ROUTER
    lan, common = part.OnLan(own, known), shared_groups.InCommon(own, known)
    asking = exchanges.Exchanges(own, known, [advert], s.SamplingLimits())
    asking._sampling = s.Sampling(verified(advert, int(NOW.wall_s)), (), bytes(16), Random(1), s.SamplingLimits())
    for deeds in (
        Discovery(setup({})).hear(c.Started(ROUTER), NOW),
        lan.hear(c.Started(ROUTER), NOW),
        lan.hear(Interfaces(part.DOOR, ()), NOW),
        lan.hear(c.Asked(1, "lan", "everywhere"), NOW),
        common._note_agreed(ROUTER, is_agreed=True),
        common._note_agreed(OTHER, is_agreed=True),
        asking._name_seeds(NOW),
        asking._keep([verified(advert, int(NOW.wall_s))]),
    ):
        kept |= {deed.key: deed.value for deed in deeds if isinstance(deed, c.Put) and deed.value is not None}
    return kept


def prefix_of(key: bytes) -> bytes:
    return key[: key.find(b"/") + 1] or key


def test_every_row_is_valid_and_taken_again() -> None:
    kept = written()
    assert {prefix_of(key) for key in kept} == RULES.keys() == {STATE, *FORMS}
    for key, row in kept.items():
        assert is_valid(prefix_of(key), row), key
    assert not [one for one in Discovery(setup(kept)).hear(c.Started(ROUTER), NOW) if getattr(one, "key", "") == STATE]


@pytest.mark.parametrize("prefix", FORMS)
def test_a_row_that_is_not_ours_stops_the_service_with_a_remedy(prefix: bytes) -> None:
    """CDDL cannot express multiples of a length: only the program checks the number of routers' keys."""
    kept = written()
    key = next(one for one in kept if prefix_of(one) == prefix)
    row = kept[key]
    for changed in (row[:-1], row + b"\0", b'{"mode":"on"}', b'{"networks":[1]}', b"[]", b"\xff", row * 2_000):
        if changed == row:  # of an empty row nothing can be cut
            continue
        is_taken = True
        try:
            Discovery(setup(kept | {key: changed}))
        except RouterError as error:
            is_taken = False
            assert "move it away" in str(error), error
        if prefix != shared_groups.KEPT:
            assert is_valid(prefix, changed) is is_taken, changed[:99]
        assert not is_taken, changed[:99]
    if prefix.endswith(b"/"):
        with pytest.raises(RouterError, match="under a key of"):
            Discovery(setup(kept | {key + b"x": row}))


def test_a_state_without_a_version_is_the_first_ones_and_another_version_stops_the_service() -> None:
    kept = {key: row for key, row in written().items() if key != STATE}
    assert c.Put(STATE, bytes.fromhex("8101")) in Discovery(setup(kept)).hear(c.Started(ROUTER), NOW)
    wrong: Any
    for wrong in ([2], [1, 2], "1", []):
        row = cbor2.dumps(wrong)
        assert not is_valid(STATE, row), wrong
        with pytest.raises(RouterError, match="this program knows version 1; start the program that wrote it, or"):
            Discovery(setup(kept | {STATE: row}))
