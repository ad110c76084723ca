"""Messages of this node that nobody has taken: found by group as in a plain list, and retried when due."""

from __future__ import annotations

from math import inf
from random import Random

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.sending.untaken import Own, Untaken, UntakenLimits

GROUPS = [PublicKey(bytes((n,)) * 32) for n in range(8)]


def test_they_are_found_by_group_whatever_was_added_taken_and_retried() -> None:
    chance, plain = Random(3), dict[MessageId, Own]()
    kept = Untaken(lambda group: group != GROUPS[0], UntakenLimits(own_max=50, own_at_once=4))
    fetched = list[MessageId]()
    for now_s in range(600):
        group, id = chance.choice(GROUPS), MessageId(now_s.to_bytes(32, "big"))
        if kept.add(id, own := Own(group, now_s + 200.0)):
            plain[id] = own
            kept.rest(id, now_s)
        assert len(plain) <= 50
        due, expired = kept.due(now_s, now_s)
        fetched += [one for one, _ in due]
        for one, _ in expired:
            del plain[one]
        if fetched and chance.random() < 0.5:
            taken = fetched.pop()
            assert kept.end(taken) is (plain.pop(taken, None) is not None)
        elif fetched and kept.fetched(one := fetched.pop()) is not None:
            kept.rest(one, now_s)
        for group in GROUPS:
            of = [one for one, own in plain.items() if own.group == group]
            assert kept.of(group) == of and kept.oldest(group) == ((of[0], plain[of[0]]) if of else None)
        kept.hurry(chance.choice(GROUPS), now_s)
    assert len(kept) == len(plain)
    for id in list(plain):
        kept.end(id)
    assert kept.due_s == inf and not len(kept)
