"""Random batches of changes for stores, and the comparison of two stores that took the same ones."""

from __future__ import annotations

from array import array
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rigs.plain_store import Disk, PlainStore

from router.core.log import events as ev
from router.core.routing.effects import Changes, Finished
from router.core.routing.groups import Subscription
from router.core.routing.owed import Due, Owed
from router.core.routing.parcel import U32, Parcel
from router.core.routing.recovered import Recovered
from router.core.routing.routes import Route
from router.core.wire.codec import frame
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import EPOCH_S, expiry_min, expiry_s
from router.core.wire.link_items import Missed
from router.core.wire.message import MULTICAST, UNICAST, message_id
from router.core.wire.reasons import Reason
from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from router.disk.store.terms import MapFull

WALL_S = 1_800_000_000
KEYS = [bytes((n,)) * 32 for n in range(1, 7)]
BOOT = b"b" * 16
LIMITS = StoreLimits(synced=False, map_bytes_initial=1 << 20, keep_s=100, keep_bytes_max=5000, cache_bytes_max=2000)
PUBSUB = KEYS[2]


def apply(store: Store, changes: Changes, wall_s: int = WALL_S) -> tuple[Any, ...]:
    """Apply and commit changes, retrying while the map is full, as the message router does."""
    while True:
        try:
            applied = store.apply(changes, wall_s)
            store.commit()
        except MapFull:
            continue
        return tuple(applied)


def opened(path: Path, limits: StoreLimits = LIMITS, owner: bytes = KEYS[0]) -> Store:
    store = Store(path, limits, BOOT)
    store.recover(owner)
    return store


class Batch(NamedTuple):
    """One transaction and its time."""

    changes: Changes
    wall_s: int


def parcel(
    random: Random,
    first: int,
    wall_s: int,
    *,
    count: int = 0,
    size: int = 0,
    recipients: int = 0,
    stored: bool = True,
    indexed: bool = True,
) -> Parcel:
    """Make a parcel whose frames hold random bytes (`size` bytes each, if given): the store uses nothing but their
    ids."""
    count = count or random.randrange(1, 9)
    wires = [b"\x84" + random.randbytes((size or random.randrange(5, 400)) - 4) for _ in range(count)]
    frames = [frame(wire) for wire in wires]
    kind = random.choice((UNICAST, MULTICAST))
    expiries = [expiry_min(wall_s + random.choice((30, 100, 1000, 9000))) for _ in range(count)]
    ttls = [random.choice((5, 60, 5000)) for _ in range(count)]
    return Parcel(
        first=first, kind=kind, signer=random.choice(KEYS), destination=None if kind else random.choice(KEYS),
        neighbour=random.choice(KEYS), via=random.choice([None, *KEYS]),
        recipients=tuple(random.sample(KEYS, recipients or random.randrange(1, 5))), at_s=wall_s,
        blob=b"".join(frames), ends=array(U32, accumulate(map(len, frames))),
        ids=b"".join(map(message_id, wires)),
        ttls=array(U32, ttls), expiries=array(U32, expiries),
        deadlines=array(U32, [min(wall_s + ttl, expiry_s(exp)) for ttl, exp in zip(ttls, expiries, strict=True)]),
        stored=stored, indexed=indexed,
    )  # fmt: skip


def accepted(one: Parcel) -> ev.Accepted:
    words = array(U32, [0]).tobytes() * one.count
    return ev.Accepted(
        one.at_s * 10**9, 1, one.first, one.kind, one.signer, one.destination, one.neighbour, 1, one.recipients,
        one.ids, words, words, words,
    )  # fmt: skip


def batch(random: Random, plain: PlainStore, wall_s: int) -> Batch:
    """Make a batch as one cycle may bring it: new parcels, ended runs, changed subscriptions, routes and keys."""
    changes = Changes()
    first = plain.disk.next_arrival + random.choice((0, 0, 0, 3))
    for _ in range(random.randrange(4)):
        stored = random.random() < 0.85
        one = parcel(random, first, wall_s, stored=stored, indexed=random.random() < 0.9 or not stored)
        changes.parcels.append(one)
        changes.events.append(accepted(one))
        first += one.count
    for recipient, parcel_first in random.sample(
        sorted(plain.disk.owed), min(len(plain.disk.owed), random.randrange(8))
    ):
        count, left = plain.disk.parcels[parcel_first].count, plain.disk.owed[recipient, parcel_first]
        start = random.randrange(count)
        whole = random.random() < 0.5
        stop = count if whole else random.randrange(start, count) + 1
        start = 0 if whole else start
        size = sum(plain.disk.parcels[parcel_first].size(at, at + 1) for at in left & set(range(start, stop)))
        changes.finished.append(Finished(recipient, parcel_first, start, stop, size))
    _small(random, changes, plain)
    return Batch(changes, wall_s)


def _small(random: Random, changes: Changes, plain: PlainStore) -> None:
    for _ in range(random.randrange(3)):
        group, key = random.choice(KEYS), random.choice(KEYS)
        one = Subscription(group, key, random.random() < 0.5, random.random() < 0.5)
        changes.members[group, key] = one if random.random() < 0.7 else None
    for _ in range(random.randrange(2)):
        destination = random.choice(KEYS)
        route = Route(destination, random.choice(KEYS), random.randrange(1 << 40))
        changes.routes[destination] = random.choice([None, route])
        changes.locals.append(random.choice(KEYS))
        changes.locals_gone.append(random.choice(KEYS))
        changes.away.append((random.choice(KEYS), random.choice((0, WALL_S))))
        ended = random.choice(KEYS), random.choice([None, *KEYS])
        changes.purges[ended] = random.choice([None, random.randrange(1, 99)])
        missed_of, ends = random.choice([None, PublicKey(random.choice(KEYS))]), MessageId(random.randbytes(32))
        item = Missed(missed_of, random.randrange(1, 9), ends, ends, Reason.TTL_EXPIRED)
        changes.missed[random.choice(KEYS), missed_of, item.reason] = random.choice([None, item])
    if random.random() < 0.5:
        changes.events.append(ev.RouterChange(1, 1, "join", (("group", random.choice(KEYS)),)))


def defer(random: Random, changes: Changes, due: list[Due], wall_s: int) -> None:
    """Defer parcels that were due, as expiry does: each is due again later or never."""
    for one in due:
        again = one.parcel is not None and one.owed and random.random() < 0.5
        changes.defer.append((one.first, wall_s + random.randrange(1, 100) if again else 0))


# -- comparing ---------------------------------------------------------------------------------------------------


def shape(one: Parcel, *, frames: bool = True) -> tuple[Any, ...]:
    """Return the fields that are kept on disk."""
    return (
        one.first, one.kind, one.signer, one.destination, one.neighbour, one.via, one.recipients, one.at_s,
        bytes(one.blob) if frames else None, one.ends, one.ids, one.ttls, one.expiries, one.deadlines,
    )  # fmt: skip


def owed_shape(found: tuple[list[Owed], bool], *, frames: bool = True) -> tuple[Any, ...]:
    return [(shape(one, frames=frames), start, stop) for one, start, stop in found[0]], found[1]


def due_shape(found: list[Due]) -> list[Any]:
    return [(one and shape(one, frames=False), first, sorted(owed)) for one, first, owed in found]


def recovered_shape(found: Recovered) -> tuple[Any, ...]:
    return (
        found.epoch, found.next_arrival, found.index_entries, found.index_shares, set(found.held),
        set(found.subscriptions), set(found.routes), set(found.locals), set(found.backlog), found.away,
        set(found.purges), set(found.missed),
    )  # fmt: skip


def check_same(random: Random, store: Store, plain: PlainStore, wall_s: int) -> None:
    """Ask both stores the same questions, and check that the answers are equal."""
    arrival = plain.disk.next_arrival
    for recipient in KEYS:
        question = (
            recipient, random.randrange(arrival + 2), random.randrange(12), random.randrange(2000),
            random.choice([None, None, *KEYS]), random.choice([None, None, random.randrange(arrival + 2)]),
        )  # fmt: skip
        frames = question[-1] is None  # a range to be dropped comes without frames
        mine, yours = (owed_shape(one.fetch(*question), frames=frames) for one in (store, plain))
        assert mine == yours, question
        assert owed_shape(store.fetch(recipient, 0, 1 << 30, 1 << 30)) == owed_shape(
            plain.fetch(recipient, 0, 1 << 30, 1 << 30)
        )
        assert store.oldest_s(recipient, wall_s) == plain.oldest_s(recipient, wall_s)
    ids = [*random.sample(sorted(plain.disk.ids), min(5, len(plain.disk.ids))), (EPOCH_S % 1000, random.randbytes(32))]
    assert store.known(ids) == plain.known(ids)
    for _, identity in ids:
        for prefix in (identity, identity[: random.randrange(4, 8)]):
            got, expected = store.message(prefix), plain.message(prefix)
            assert (got and (shape(got[0]), got[1])) == (expected and (shape(expected[0]), expected[1]))
    for group in KEYS:
        page = (
            group,
            random.randrange(arrival + 2),
            random.choice((1, 20, 1 << 30)),
            wall_s - random.choice((0, 20, 999)),
        )
        listed, of_plain = store.records.held(*page), plain.records.held(*page)
        assert listed._replace(gone=0) == of_plain._replace(gone=0)
    assert store.log_values(0, 1 << 30) == plain.log_values(0, 1 << 30)
    assert store.next_seq == plain.next_seq
    assert store.take_damaged() == []


def batches(count: int) -> list[tuple[Changes, int]]:
    """Return random batches, the same in every process."""
    random, plain, found = Random(77), PlainStore(Disk(), LIMITS, BOOT), []
    plain.recover(KEYS[0])
    for number in range(count):
        changes, wall_s = batch(random, plain, WALL_S + number)
        plain.apply(changes, wall_s)
        plain.commit()
        found.append((changes, wall_s))
    return found
