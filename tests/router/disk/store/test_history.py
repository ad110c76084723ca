"""History: messages owed to the pub/sub service stay until they expire, within limits, and are found by group
(R-C31)."""

from __future__ import annotations

import tracemalloc
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from samples.stores import KEYS, LIMITS, PUBSUB, WALL_S, apply, opened, parcel

from router.core.routing.effects import Changes, Finished
from router.core.routing.parcel import Parcel
from router.core.wire.lifetime import expiry_min, expiry_s
from router.core.wire.message import MULTICAST
from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from router.node.questions.held import PAGE_MAX

GROUP, APP = KEYS[4], KEYS[1]
MINUTE = expiry_min(WALL_S) + 100
PLENTY = replace(LIMITS, keep_s=0, history_bytes_max=1 << 30)


def carried(
    random: Random, first: int, *, minute: int = MINUTE, count: int = 3, recipients: tuple[bytes, ...] = (PUBSUB,)
) -> Parcel:
    one = parcel(random, first, WALL_S, count=count)
    one.kind, one.signer, one.destination, one.recipients = MULTICAST, GROUP, None, recipients
    one.expiries[:] = type(one.expiries)("I", [minute] * count)
    return one


def finished(one: Parcel, *recipients: bytes) -> Changes:
    ends = [Finished(key, one.first, 0, one.count, len(one.blob)) for key in recipients or one.recipients]
    return Changes(finished=ends)


def kept(path: Path, limits: StoreLimits = PLENTY) -> Store:
    store = opened(path, limits)
    store.keep_history_for(PUBSUB)
    return store


def ids(store: Store, after: int = 0, most: int = 1000, since_s: int = 0) -> list[bytes]:
    keys = store.records.held(GROUP, after, most, since_s).keys
    return [keys[at + 4 : at + 36] for at in range(0, len(keys), 36)]


def of(*parcels: Parcel) -> list[bytes]:
    return [one.id(at) for one in parcels for at in range(one.count)]


def test_it_stays_where_the_service_is_only_told_the_ids(tmp_path: Path) -> None:
    one, other = carried(Random(1), 1, recipients=(APP,)), carried(Random(2), 10, recipients=(APP,))
    one.recorded = True
    with closing(kept(tmp_path)) as store:
        apply(store, Changes(parcels=[one, other]))
        apply(store, finished(one))
        apply(store, finished(other))
        assert ids(store) == of(one)


def test_it_stays_until_it_expires(tmp_path: Path) -> None:
    """A message is found by its id while it waits and afterwards, with its bytes, also after a restart."""
    one = carried(Random(1), 1, recipients=(PUBSUB, APP))
    with closing(kept(tmp_path)) as store:
        apply(store, Changes(parcels=[one]))
        assert ids(store) == of(one)
        apply(store, finished(one))
    with closing(kept(tmp_path)) as store:
        assert ids(store) == of(one)
        found = store.message(one.id(2))
        assert found is not None and found[1] == 2 and bytes(found[0].blob) == bytes(one.blob)
        end_s = expiry_s(MINUTE)
        assert not store.has_dead_rows(end_s - 1)
        apply(store, Changes(), end_s - 1)
        assert ids(store) == of(one)
        assert store.has_dead_rows(end_s)
        apply(store, Changes(), end_s)
        assert ids(store) == [] and store.message(one.id(0)) is None
        assert store.records.held(GROUP, 0, 1).gone == 0


@pytest.mark.parametrize(
    "limits",
    [replace(PLENTY, history_s=0), replace(PLENTY, history_bytes_max=0), None],
    ids=["no time", "no room", "no service"],
)
def test_nothing_stays(limits: StoreLimits | None, tmp_path: Path) -> None:
    one = carried(Random(1), 1)
    with closing(kept(tmp_path, limits or PLENTY)) as store:
        if limits is None:
            store.keep_history_for(None)
        apply(store, Changes(parcels=[one]))
        assert ids(store) == []
        apply(store, finished(one))
        assert store.message(one.id(0)) is None


def test_what_the_service_is_not_owed_is_no_history(tmp_path: Path) -> None:
    """The messages are a unicast to the service, one of a group that it is not in, and one kept for `keep_s` alone."""
    random = Random(1)
    unicast = carried(random, 1)
    unicast.kind, unicast.destination = 0, PUBSUB
    other = carried(random, 10, recipients=(APP,))
    with closing(kept(tmp_path, replace(PLENTY, keep_s=100))) as store:
        apply(store, Changes(parcels=[unicast, other]))
        assert ids(store) == []
        apply(store, finished(unicast))
        apply(store, finished(other))
        assert store.message(other.id(0)) is not None
        apply(store, Changes(), WALL_S + 100)
        assert store.message(other.id(0)) is None and store.message(unicast.id(0)) is None


def test_the_oldest_goes_first(tmp_path: Path) -> None:
    """The oldest goes first whenever they were settled; a message still owed to somebody stays in its queue, but is no
    longer history."""
    random = Random(1)
    parcels = [carried(random, 1 + at * 10, minute=MINUTE - at, recipients=(PUBSUB, APP)) for at in range(4)]
    room = sum(len(one.blob) for one in parcels[2:])
    with closing(kept(tmp_path, replace(PLENTY, history_bytes_max=room))) as store:
        apply(store, Changes(parcels=parcels[:2]))
        apply(store, finished(parcels[1]))
        apply(store, finished(parcels[0], PUBSUB))
        apply(store, Changes(parcels=parcels[2:]))
        assert ids(store) == of(*parcels[2:])
        assert store.message(parcels[1].id(0)) is None
        assert store.message(parcels[0].id(0)) is not None
        assert store.records.held(GROUP, 0, 1).gone == 2
        apply(store, finished(parcels[0], APP))
        assert store.message(parcels[0].id(0)) is None


def test_it_ends_after_history_s(tmp_path: Path) -> None:
    one = carried(Random(1), 1)
    with closing(kept(tmp_path, replace(PLENTY, history_s=50))) as store:
        apply(store, Changes(parcels=[one]))
        apply(store, finished(one))
        apply(store, Changes(), WALL_S + 49)
        assert ids(store) == of(one)
        apply(store, Changes(), WALL_S + 50)
        assert ids(store) == []


def test_pages(tmp_path: Path) -> None:
    random = Random(1)
    parcels = [carried(random, 1 + at * 10) for at in range(5)]
    parcels[4].at_s += 7
    with closing(kept(tmp_path)) as store:
        apply(store, Changes(parcels=parcels))
        page = store.records.held(GROUP, 0, 4)
        assert page[1:] == (11, True, 0, ((WALL_S, 6),)) and len(page.keys) == 6 * 36
        assert page.keys[:4] == MINUTE.to_bytes(4, "big")
        assert ids(store, page.upto) == of(*parcels[2:])
        assert store.records.held(GROUP, 21, 100)[1:] == (41, False, 0, ((WALL_S, 3), (WALL_S + 7, 3)))
        assert store.records.held(GROUP, 41, 100) == (b"", 41, False, 0, ())
        assert ids(store, since_s=WALL_S + 7) == of(parcels[4])


def test_many_parcels_of_other_times_make_a_page_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.disk.store.history.PAGE_ROWS_MAX", 2)
    random = Random(1)
    parcels = [carried(random, 1 + at * 10) for at in range(5)]
    with closing(kept(tmp_path)) as store:
        apply(store, Changes(parcels=parcels))
        assert store.records.held(GROUP, 0, 100, WALL_S + 1) == (b"", 11, True, 0, ())
        assert store.records.held(GROUP, 41, 100, WALL_S + 1) == (b"", 41, False, 0, ())


def test_a_page_holds_thousands_of_messages_that_came_one_by_one(tmp_path: Path) -> None:
    """A service that starts asks for all ids of its groups, and each page takes a turn of a busy node."""
    random = Random(1)
    parcels = [carried(random, first, count=1) for first in range(1, 2_501)]
    with closing(kept(tmp_path)) as store:
        apply(store, Changes(parcels=parcels))
        page = store.records.held(GROUP, 0, PAGE_MAX)
        assert page.more and ids(store, most=PAGE_MAX) == of(*parcels[:PAGE_MAX])
        assert ids(store, page.upto, PAGE_MAX) == of(*parcels[PAGE_MAX:])
        assert PAGE_MAX == 2_048


def test_a_page_takes_little_memory(tmp_path: Path) -> None:
    """Some of what a page takes for a moment stays with the process, in arenas of which other objects keep a part."""
    random = Random(1)
    parcels = [carried(random, 1 + at, count=1) for at in range(PAGE_MAX + 1)]
    for at, one in enumerate(parcels):
        one.at_s += at
    with closing(kept(tmp_path)) as store:
        apply(store, Changes(parcels=parcels))
        store.records.held(GROUP, 0, PAGE_MAX)
        tracemalloc.start()
        try:
            page = store.records.held(GROUP, 0, PAGE_MAX)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(page.times) == PAGE_MAX and most / PAGE_MAX < 256, "bytes a message"
