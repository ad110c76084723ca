"""The checks of what became of the messages of the network's demo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from router.cli.conditions import Condition
from router.core.wire.reasons import Reason
from services.dmq import reasons
from services.dmq.core.topic_group import source_text
from services.dmq.demo.network_script import NetworkScript
from services.dmq.demo.network_stage import GROUP, IN_GROUP, NetworkPlayed


def network_checks(script: NetworkScript, played: NetworkPlayed) -> Iterator[Condition]:
    """Yield what must hold of a played network."""
    handed_in = (*script.first, *script.meanwhile, *script.after, script.by_unicast)
    accepted = len(played.accepted)
    yield Condition(
        "messages handed in, one of them by a unicast, all answered [1]", accepted, accepted == len(handed_in)
    )
    for name, read in played.read.items():
        counted = Counter(one for one in read if one != script.forged)
        missing, doubled = set(handed_in) - counted.keys(), sum(counted.values()) - len(counted)
        whose = f"the consumer of {name}" if name in played.statuses else "router sub --raw, without a DMQ node"
        yield Condition(f"read by {whose}", len(counted), not missing and len(counted) == len(handed_in))
        yield Condition(f"read twice by {whose}", doubled, not doubled)
    taken = {name: status["accepted"] for name, status in played.statuses.items()}
    yield Condition("taken by each DMQ node", min(taken.values()), set(taken.values()) == {len(handed_in)})
    heard = sum(played.statuses[name]["group"]["heard"] for name in IN_GROUP)
    yield Condition("brought by the group, at all nodes", heard, heard > 0)
    forged = [played.statuses[name]["group"]["rejected"].get(reasons.BAD_SIGNATURE.word, 0) for name in IN_GROUP]
    yield Condition("of the group's DMQ nodes have refused a forged one", sum(forged), set(forged) == {1})
    unpublished = sum(
        one["count"]
        for one in played.audit["service_ends"]
        if one["recipient"] == source_text(GROUP) and one["reason"] != Reason.NOT_AUTHORISED.word
    )
    yield Condition("owed to the group and not published there by who may", unpublished, not unpublished)
    rows = [one for one in played.audit["services"] if one["service"] == "dmq"]
    lost = sum(one["unaccounted"] + one["doubled"] for one in rows) + played.audit["unaccounted"]
    yield Condition("unaccounted for by router audit", lost, bool(rows) and not lost)
