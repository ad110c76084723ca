"""The inquiry `log`: the events that no segment holds yet, as lines, in parts that fit an answer, each line once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import lmdb
import pytest
from samples.logs import outward
from samples.stores import KEYS, WALL_S, accepted, parcel

from router.core.log.events import encode_events
from router.core.log.line import lines
from router.core.neighbours.successors import Successors
from router.core.routing.effects import Changes
from router.core.wire.admin import Inquiry
from router.core.wire.list_page import ANSWER_BYTES_MAX
from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from router.node.admin import Inquiries
from router.node.questions.log import LOG_BYTES_MAX, LOG_VALUES, LogQuestions


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path, StoreLimits(synced=False), bytes(16))
    found.recover(KEYS[0])
    yield found
    found.close()


def apply(store: Store, changes: Changes) -> None:
    store.apply(changes, WALL_S)
    store.commit()


def asked(store: Store, after: int, sealed: int = 0) -> dict[str, Any]:
    inquiries = Inquiries([LogQuestions(lambda: sealed)])
    me = SimpleNamespace(directory=SimpleNamespace(me=KEYS[0], successors=Successors()))
    view: Any = SimpleNamespace(store=store, router=me)
    text = inquiries.answer(view, Inquiry("log", str(after)))
    assert len(text) <= ANSWER_BYTES_MAX
    return dict(json.loads(text))


def all_lines(store: Store) -> list[str]:
    return [one.decode() for _, value in store.log_values(0, 9999) for one in lines(value, KEYS[0])]


def test_page_after_page_every_line_once(store: Store) -> None:
    first = 1
    for number in range(40):
        one = parcel(Random(number), first, WALL_S, count=200 if number % 3 else 1)
        first += one.count
        apply(store, Changes(parcels=[one], events=[accepted(one), *(outward(9) for _ in range(300))]))
    told, after, pages = list[str](), 0, 0
    while True:
        page = asked(store, after)
        assert sum(len(json.dumps(line)) for line in page["lines"]) <= LOG_BYTES_MAX
        told += page["lines"]
        after, pages = page["next_seq"] - 1, pages + 1
        if not page["more"]:
            break
    assert told == all_lines(store) and pages > 2 and after == store.next_seq - 1
    assert asked(store, after) == {"lines": [], "next_seq": after + 1, "sealed_seq": 0, "more": False}


def test_what_segments_hold_is_not_told(store: Store) -> None:
    for _ in range(3):
        apply(store, Changes(events=[outward(9), outward(9)]))
    found = asked(store, 0, sealed=3)
    assert [json.loads(line)["seq"] for line in found["lines"]] == [4, 5, 6]
    assert (found["next_seq"], found["sealed_seq"]) == (7, 3)
    assert asked(store, 5, sealed=3)["lines"] == all_lines(store)[5:]
    assert asked(store, 99)["lines"] == []


def test_what_cannot_be_read_is_the_gap_that_the_log_will_show(tmp_path: Path) -> None:
    """There are more damaged values than are read at a time, between two good ones and after the last."""
    first, *spoilt, last = [encode_events([outward(9)], seq, bytes(16)) for seq in range(1, LOG_VALUES + 4)]
    values = [first, *(b"rubbish" for _ in spoilt), last, b"rubbish"]
    with lmdb.open(str(tmp_path), max_dbs=1, lock=False) as env, env.begin(write=True, db=env.open_db(b"log")) as txn:
        for seq, value in enumerate(values, 1):
            txn.put(seq.to_bytes(8, "big"), value)
    with closing(Store(tmp_path, StoreLimits(), bytes(16))) as store:
        found = asked(store, 0)
    told = [json.loads(line) for line in found.pop("lines")]
    assert [(one["event"], one["seq"], one["n"]) for one in told] == [
        ("delivered", 1, 1), ("log_gap", 2, len(spoilt)), ("delivered", len(spoilt) + 2, 1),
    ]  # fmt: skip
    assert told[1]["fields"] == {"missing": len(spoilt)}
    assert found == {"next_seq": len(spoilt) + 3, "sealed_seq": 0, "more": False}


def test_no_sequence_number(store: Store) -> None:
    inquiries = Inquiries([LogQuestions(lambda: 0)])
    view: Any = SimpleNamespace(store=store)
    answer = json.loads(inquiries.answer(view, Inquiry("log", "-1")))
    assert answer == {"error": "'-1' is not a sequence number"}
