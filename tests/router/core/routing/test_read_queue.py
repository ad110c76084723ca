"""The reads that wait for a transaction, by value: turns of those who bring them, order within a link, and how many
requests to the router one transaction takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.neighbours.directory import STRANGERS
from router.core.routing.effects import Settle
from router.core.routing.job import Job
from router.core.routing.read_queue import REQUEST_BYTES_MAX, REQUEST_BYTES_OF_TURN, ReadQueue
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

CEM = SigningKey(b"c" * 32)
EXPIRY = expiry_min(WALL_S + 3600)
MANY = 1000


def news(number: int = 0) -> bytes:
    return seal_multicast(GROUP, str(number).encode(), ttl_s=60, expiry_min=EXPIRY)


def join(of: SigningKey, number: int = 0) -> bytes:
    group = SigningKey(number.to_bytes(32, "big")).public if number else GROUP.public
    return seal_unicast(of, ME.public, encode_control(Join(group, False)), ttl_s=0, expiry_min=EXPIRY)


JOINS = [join(ALICE, number) for number in range(1, MANY + 1)]


def router_with_apps(*, strangers: bool = False) -> tuple[OneRouter, int, int, int]:
    """Return a router and three apps: Alice, Bob, who is in the group, and Cem."""
    one = OneRouter(strangers=strangers)
    alice, bob, cem = (app(one, of) for of in (ALICE, BOB, CEM))
    one.bring(bob, join(BOB))
    one.cycle()
    one.done.clear()
    return one, alice, bob, cem


def app(one: OneRouter, of: SigningKey, *, owner: bool = True) -> int:
    return one.link(of.public, owner=owner, messages=4 * MANY, size=1 << 20)


def queue_of(*jobs: Job, messages_max: int = 4096, bytes_max: int = 1 << 24) -> ReadQueue:
    queue = ReadQueue(messages_max, bytes_max)
    queue.add(jobs)
    return queue


def taken_from(queue: ReadQueue) -> Iterator[list[Job]]:
    while queue:
        yield queue.take()


def test_a_message_does_not_wait_for_a_thousand_requests_of_another_app() -> None:
    one, alice, _, cem = router_with_apps()
    asked = [one.bring(alice, *JOINS[at : at + 500]) for at in (0, 500)]
    in_order = [row.id for job in asked for row in job.fresh]
    said = one.bring(cem, news())
    first, *others = taken_from(queue_of(*one.jobs))
    assert said in first
    sizes = [sum(job.request_bytes for job in jobs) for jobs in (first, *others)]
    assert all(0 < size <= REQUEST_BYTES_MAX + REQUEST_BYTES_OF_TURN for size in sizes) and len(sizes) < 16
    taken = [row.id for jobs in (first, *others) for job in jobs for row in job.fresh if job is not said]
    assert taken == in_order, "a link keeps its order"


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_read_that_is_cut_is_settled_and_refused_like_a_whole_one(is_cut: bool) -> None:
    """Of each message, whatever became of it, the sender hears under its number, and all bytes are given back once."""
    one, alice, bob, _ = router_with_apps()
    forged = news(2)[:-1] + bytes([news(2)[-1] ^ 1])
    wires = [news(1), *JOINS[:80], forged, b"\x00", *JOINS[80:200], news(1), news(3), *JOINS[200:300]]
    read = one.bring(alice, *wires)
    size, of_requests = read.arrived.size, read.request_bytes
    transactions, one.jobs = list(taken_from(queue_of(read))) if is_cut else [[read]], []
    assert (len(transactions) > 3) is is_cut
    assert sum(job.request_bytes for jobs in transactions for job in jobs) == of_requests
    settled, refused = [], []
    for one.jobs in transactions:
        one.cycle()
        effects = [effect for effect in one.done if isinstance(effect, Settle)]
        size -= sum(effect.size for effect in effects)
        settled += [effect.n for effect in effects]
        refused += [(k, reason) for effect in effects for k, reason, _ in effect.refusals]
        one.settled()
    assert size == 0 and settled == sorted(settled) and settled[-1] == len(wires)
    assert refused == [(82, Reason.BAD_SIGNATURE), (83, Reason.MALFORMED)]
    assert one.handed(bob) == [news(1), news(3)] and len(one.router.groups.joined_by(ALICE.public)) == 300


def test_links_have_turns_and_all_strangers_one() -> None:
    one, *_ = router_with_apps(strangers=True)
    known, unknown = ([SigningKey(bytes([n]) * 32) for n in numbers] for numbers in (range(1, 13), range(20, 60)))
    links = {app(one, of): of for of in known} | {one.link(of.public, owner=False): of for of in unknown}
    for number, of in links.items():
        one.bring(number, *(join(of, at) for at in range(1, 80 if of in known else 3)))
    queue = queue_of(*one.jobs)
    turns = Counter(job.link.charged for _ in range(10) for job in queue.take())
    assert set(turns) == {*(of.public for of in known), STRANGERS}
    assert max(turns.values()) - min(turns.values()) <= 1, "whoever had no room in one transaction is next in another"


def test_a_transaction_ends_with_its_messages_or_bytes() -> None:
    one, alice, _, cem = router_with_apps()
    first, second = one.bring(alice, *map(news, range(20))), one.bring(alice, *map(news, range(20, 40)))
    third = one.bring(cem, news(41))
    assert queue_of(first, second, third, messages_max=20).take() == [first, third]
    assert list(taken_from(queue_of(first, second, third, bytes_max=1))) == [[first], [third], [second]]


def test_a_large_request_is_taken_whole_and_others_wait_but_no_messages() -> None:
    one = OneRouter(services={ALICE.public: "pubsub", BOB.public: "discovery"})
    text = "x" * (REQUEST_BYTES_MAX + 1)
    first, second = (
        one.bring(
            app(one, of), seal_unicast(of, ME.public, encode_inquiry(Inquiry(word, text)), ttl_s=0, expiry_min=EXPIRY)
        )
        for of, word in ((ALICE, "one"), (BOB, "other"))
    )
    said = one.bring(app(one, CEM), news(1))
    assert list(taken_from(queue_of(first, second, said))) == [[first, said], [second]]
