"""Records in the store of messages that the log does not know any more, also in a store that was only opened for
reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from samples.stores import KEYS, WALL_S, parcel

from router.core.routing.effects import Changes, Finished
from router.core.routing.parcel import Parcel
from router.core.why.id_prefix import IdPrefix, parse_prefix
from router.core.wire.message import MULTICAST, UNICAST
from router.disk.limits import StoreLimits
from router.disk.store.store import Store

ROUTER = KEYS[0]
LIMITS = StoreLimits(synced=False, keep_s=0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path, LIMITS, bytes(16))) as one:
        one.recover(ROUTER)
        yield one


def put(store: Store, changes: Changes) -> None:
    store.apply(changes, WALL_S)
    store.commit()


def whole(one: Parcel, index: int) -> IdPrefix:
    return IdPrefix(one.id(index), 256)


@pytest.mark.parametrize("kind", [UNICAST, MULTICAST])
def test_an_acceptance_as_the_log_had_it(store: Store, kind: int) -> None:
    destination = None if kind else KEYS[4]
    one = replace(parcel(Random(1), 7, WALL_S, count=3, recipients=2), kind=kind, destination=destination)
    put(store, Changes(parcels=[one]))
    [(identity, line)] = store.records.accepted(whole(one, 1), ROUTER, 9)
    assert (identity, line.ids, line.first, line.seq) == (one.id(1), one.ids.hex(), 7, 0)
    assert (line.kind, line.t, line.router) == (("unicast", "multicast")[kind], WALL_S * 10**9, ROUTER.hex())
    assert (line.source, line.group)[kind] == one.signer.hex() and (line.source, line.group)[not kind] is None
    assert line.destination == (None if kind else KEYS[4].hex()) and line.peer == one.neighbour.hex()
    assert (line.ttls, line.expiries) == (list(one.ttls), list(one.expiries))
    assert line.recipients == [key.hex() for key in one.recipients]


def test_so_many_that_begin_so(store: Store) -> None:
    """The prefix may also have half a byte."""
    random, first, ids = Random(2), 1, list[bytes]()
    for _ in range(600):
        one = parcel(random, first, WALL_S, count=8, size=9)
        put(store, Changes(parcels=[one]))
        ids += [one.id(at) for at in range(8)]
        first += 8
    begin = next(one.hex()[:4] for one in ids if sum(other.hex()[:4] == one.hex()[:4] for other in ids) > 1)
    wanted = {one for one in ids if one.hex()[:4] == begin}
    assert {one.identity for one in store.records.accepted(parse_prefix(begin), ROUTER, 99)} == wanted
    assert len(store.records.accepted(parse_prefix(begin), ROUTER, 1)) == 1
    [only] = store.records.accepted(parse_prefix(ids[0].hex()[:15]), ROUTER, 99)
    assert only.identity == ids[0]


def test_what_is_not_held_is_not_told(store: Store) -> None:
    """One message ended and is not kept, one was never stored, one was never here."""
    ended, passing = (replace(parcel(Random(seed), 1, WALL_S, count=1, recipients=1)) for seed in (3, 4))
    passing = replace(passing, first=2, stored=False)
    put(store, Changes(parcels=[ended, passing]))
    assert len(store.records.accepted(whole(ended, 0), ROUTER, 9)) == 1
    put(store, Changes(finished=[Finished(ended.recipients[0], 1, 0, 1, ended.size(0, 1))]))
    for one in (ended, passing, parcel(Random(5), 9, WALL_S)):
        assert store.records.accepted(whole(one, 0), ROUTER, 9) == []


def test_a_store_that_is_opened_to_be_asked(tmp_path: Path, store: Store) -> None:
    """Ids that have not been moved to their places are known as well."""
    one = parcel(Random(6), 1, WALL_S)
    put(store, Changes(parcels=[one]))
    seq = store.next_seq
    store.close()
    with closing(Store(tmp_path, LIMITS, bytes(16))) as other:
        assert other.records.load() == seq
        assert [row.identity for row in other.records.accepted(whole(one, 0), ROUTER, 9)] == [one.id(0)]


def test_an_id_is_known_whole_and_whatever_its_expiry(store: Store) -> None:
    one = parcel(Random(5), 1, WALL_S, count=3)
    put(store, Changes(parcels=[one]))
    assert all(store.records.knows(one.id(index)) for index in range(3))
    assert not store.records.knows(bytes(32)) and not store.records.knows(one.id(0)[:-1] + bytes([one.id(0)[-1] ^ 1]))
