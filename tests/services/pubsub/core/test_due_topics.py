"""When topics are due, against a plain dictionary; what a change leaves behind is bounded."""

from __future__ import annotations

from math import inf
from random import Random

from router.core.wire.crypto import PublicKey
from services.pubsub.core.comparison.due_topics import SPARE_MIN, DueTopics


def test_it_is_as_a_plain_dictionary_is() -> None:
    chance, due, plain = Random(1), DueTopics(), dict[PublicKey, float]()
    groups = [PublicKey(bytes((n,)) * 32) for n in range(20)]
    for now_s in range(3_000):
        group = chance.choice(groups)
        at_s = chance.choice((now_s + chance.randrange(50), inf))
        due.put(group, at_s)
        plain.pop(group, None)
        plain |= {group: at_s} if at_s < inf else {}
        if chance.random() < 0.2:
            due.end(group)
            plain.pop(group, None)
        assert due.due_s == min(plain.values(), default=inf)
        if chance.random() < 0.5:
            assert set(due.take(now_s)) == {one for one, at_s in plain.items() if at_s <= now_s}
            plain = {one: at_s for one, at_s in plain.items() if at_s > now_s}
        assert len(due._heap) <= SPARE_MIN + 2 * len(plain) + 1
    assert repr(due).startswith("<")
