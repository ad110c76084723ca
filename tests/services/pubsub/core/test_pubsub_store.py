"""The service's kept rows match cddl/pubsub-store.cddl, row by row, and nothing else is accepted at a start."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from samples.core import ADVERTISEMENTS, GROUP, IDS

from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError
from router.service import contract as c
from router.service.kept_rows import STATE, judge
from services.pubsub.core.comparison import begun, caught_up
from services.pubsub.core.conduct import clock_steps
from services.pubsub.core.kept import FORMS, VERSION
from services.pubsub.core.known import Known
from services.pubsub.core.meetings import interests, partners
from services.pubsub.core.others import Others
from services.pubsub.core.sending import dissemination, own_rows
from services.pubsub.core.sending import forwarding as f
from services.pubsub.core.sending.untaken import Own
from services.pubsub.rules import PubSub
from services.pubsub.settings import Settings

ME, ROUTER, APP = (PublicKey(bytes((one,)) * 32) for one in (1, 2, 3))
NOW = c.Now(1_800_000_000.5, 1_000.25)
RULES = {
    STATE: "state",
    clock_steps.KEPT: "clock",
    interests.SECRET: "secret",
    partners.KEPT: "partner",
    own_rows.OWN: "own",
    own_rows.RUN: "own-run",
    begun.KEPT: "since",
    caught_up.MISSED: "missed",
    caught_up.CAUGHT_UP: "caught-up",
}


@cache
def validator() -> Validator:
    return Validator(Path(__file__).parents[4] / "cddl" / "pubsub-store.cddl")


def is_valid(prefix: bytes, row: bytes) -> bool:
    data = row if prefix == STATE else cbor2.dumps(row)
    return bool(validator().validate(data, RULES[prefix]).valid)


def setup(kept: dict[bytes, bytes]) -> c.Setup:
    return c.Setup("pubsub", ME, Settings(mode="overlay"), kept, Random(1))


def written() -> dict[bytes, bytes]:
    """Return a row of each kind, as the parts of the service write it."""
    kept: dict[bytes, bytes] = {}
    parts = setup(kept)
    figures, others = caught_up.Figures(kept), Others()
    advert = ADVERTISEMENTS[0]
    others.adverts.remember(advert)
    meeting = partners.Partners(parts, Known(ME), others, None)
    spreading = dissemination.Dissemination(parts, Known(ME), others)
    for deeds in (
        clock_steps.ClockSteps(kept).look(NOW),
        begun.Begun(kept, clock_steps.ClockSteps(kept)).begin(GROUP.public, NOW),
        [figures.missed(GROUP.public, 7, 3)],
        figures.new(GROUP.public, 5, 3, 20_000),
        interests.Interests(parts, Known(ME), others).hear(c.Started(ROUTER), NOW),
        meeting.keep(advert.router),
        spreading._forward([f.Remember(IDS[0], Own(GROUP.public, NOW.wall_s))]),
        spreading._forward([f.RememberRun(IDS[1:2], Own(GROUP.public, NOW.wall_s))]),
        judge({}, "pubsub", VERSION, FORMS),
    ):
        kept |= {deed.key: deed.value for deed in deeds if isinstance(deed, c.Put) and deed.value is not None}
    for deed in figures.heard(GROUP.public, 5, APP):
        assert isinstance(deed, c.Put) and deed.value is not None
        kept[deed.key] = deed.value
    return kept


def prefix_of(key: bytes) -> bytes:
    return key[: key.find(b"/") + 1] or key


def test_every_row_is_valid_and_taken_again() -> None:
    kept = written()
    assert {prefix_of(key) for key in kept} == RULES.keys()
    for key, row in kept.items():
        assert is_valid(prefix_of(key), row), key
    assert not [one for one in PubSub(setup(kept)).hear(c.Started(ROUTER), NOW) if getattr(one, "key", None) == STATE]


@pytest.mark.parametrize("prefix", FORMS)
def test_a_row_of_another_length_stops_the_service_with_a_remedy(prefix: bytes) -> None:
    """CDDL cannot express multiples of a length: only the program checks the numbers of keys and ids."""
    kept = written()
    key = next(one for one in kept if prefix_of(one) == prefix)
    row = kept[key]
    for changed in (b"", row[:-1], row + b"\0", row * 999):
        is_taken = True
        try:
            PubSub(setup(kept | {key: changed}))
        except RouterError as error:
            is_taken = False
            assert "move it away" in str(error), error
        assert is_valid(prefix, changed) is is_taken or prefix in (caught_up.CAUGHT_UP, own_rows.RUN), len(changed)
    if FORMS[prefix].key_bytes:
        with pytest.raises(RouterError, match="under a key of"):
            PubSub(setup(kept | {key + b"x": row}))


def test_a_state_without_a_version_is_the_first_ones_and_another_version_stops_the_service() -> None:
    kept = {key: row for key, row in written().items() if key != STATE}
    assert c.Put(STATE, bytes.fromhex("8101")) in PubSub(setup(kept)).hear(c.Started(ROUTER), NOW)
    wrong: Any
    for wrong in ([2], [0], [1, 2], "1", [], [1 << 40]):
        row = cbor2.dumps(wrong)
        assert not is_valid(STATE, row), wrong
        with pytest.raises(RouterError, match="this program knows version 1; start the program that wrote it, or"):
            PubSub(setup(kept | {STATE: row}))
