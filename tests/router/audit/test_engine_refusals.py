"""The audit reports refusals and other ends that the rest of the same log contradicts, and nothing that only looks so.

The logs of all cases of a test are audited at once: each is of a router of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samples.audit_logs import APP, LATE, OTHER_APP, Log, message_id, name
from samples.one_log import claimed, down, joined, linked
from samples.two_logs import Case, begun, said


def test_events_that_do_not_go_with_their_reasons_are_told(tmp_path: Path) -> None:
    told = [
        ("expired", "left"), ("expired", "queue-full-recipient"), ("dropped", "ttl-expired"), ("evicted", "internal"),
        ("evicted", "left"), ("refused", "queue-full-node"), ("refused", "disk-full"), ("refused", "rate-limited"),
        ("refused", "clock-doubted"), ("refused", "index-full"), ("refused", "shutdown"),
    ]  # fmt: skip
    quiet = [
        ("expired", "expiry-passed"), ("dropped", "left"), ("dropped", "store-damaged"), ("refused", "no-route"),
        ("refused", "peer-refused"), ("refused", "too-large"), ("refused", "reason-70"), ("deferred", "disk-full"),
        ("dropped", "reason-70"), ("expired", "foo:bar"),
    ]  # fmt: skip

    def ending(event: str, reason: str) -> Case:
        def write(log: Log) -> None:
            begun(log)
            log.accepted(1, [f"{name(log.key)} {one}" for one in range(3)])
            log.outward("forwarded", [(1, 3)])
            log.outward(event, [(1, 2)], LATE, reason=reason)
            log.turned("refused", 5, "queue-full-node")
            log.state("stop", LATE + 1)

        return write

    found = claimed({" ".join(end): ending(*end) for end in (*told, *quiet)}, tmp_path)
    assert found == {
        **{" ".join(end): [("no-such-end", 2)] for end in told}, **{" ".join(end): [] for end in quiet}
    }  # fmt: skip


def filled(owed: int, sizes: int = 9, *, then_: Case = lambda log: None, **limits: int) -> Case:
    """Let so many messages wait, and leave a recipient out of one more."""

    def write(log: Log) -> None:
        begun(log, **limits)
        then_(log)
        ids = [f"{log.key.public.hex()} {one}" for one in range(owed + 1)]
        log.accepted(1, ids[:owed], ttl=LATE * 9, sizes=[sizes] * owed)
        log.accepted(owed + 1, ids[owed:], [APP, OTHER_APP], ttl=LATE * 9)
        log.outward("refused", [(owed + 1, 1)], 0, parcel=owed + 1, reason="queue-full-recipient")
        log.state("stop", 9)

    return write


def drained(log: Log) -> None:
    begun(log)
    log.state("link_up", 0, peer=APP, link=2, standing="local")
    ids = [f"{log.key.public.hex()} {one}" for one in range(91)]
    log.accepted(1, ids[:90])
    log.outward("forwarded", [(1, 90)])
    log.outward("delivered", [(1, 80)])
    log.accepted(91, ids[90:], [APP, OTHER_APP], 1)
    log.outward("refused", [(91, 1)], 1, parcel=91, reason="queue-full-recipient")
    log.outward("delivered", [(81, 10)])


def test_a_queue_that_is_said_to_be_full_and_was_not_is_told(tmp_path: Path) -> None:
    another = said("renewal", 0, old=message_id("old"), new=OTHER_APP, service="router")
    told = {"one waits": filled(1), "half are gone": drained, "another key was renewed": filled(1, then_=another)}
    quiet = {
        "many wait": filled(60),
        "large ones wait": filled(9, 1000, queue_bytes_max=9000),
        "what a renewed key was owed": filled(
            1, then_=said("renewal", 0, old=message_id("old"), new=APP, service="router")
        ),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("not-full", 1)] for case in told}, **{case: [] for case in quiet}}


H, PEER, OTHER_PEER = message_id("other group"), message_id("peer"), message_id("other peer")
ROOM = {
    "group_percent": 50, "group_messages_max": 200, "group_bytes_max": 1 << 30,
    "neighbour_messages_max": 200, "neighbour_bytes_max": 1 << 30,
}  # fmt: skip


OF_OTHERS = ROOM | {"met_percent": 20, "strangers_percent": 10, "node_messages_max": 300, "node_bytes_max": 1 << 30}


def crowded(
    count: int = 0,
    *steps: Case,
    standing: str = "peer",
    limits: Mapping[str, int] = ROOM,
    waiting_for: Sequence[str] = (APP,),
    **columns: Any,
) -> Case:
    """Let so many messages wait, and leave a recipient out of one more, as its group has no more room there."""

    def write(log: Log) -> None:
        begun(log, **limits)
        for link, peer in enumerate((PEER, OTHER_PEER), 1):
            log.state("link_up", 0, peer=peer, link=link, standing=standing)
        for step in steps:
            step(log)
        ids = [f"{log.key.public.hex()} {one}" for one in range(count + 1)]
        if count:
            log.accepted(1, ids[:count], waiting_for, ttl=LATE * 9, **columns)
        log.accepted(count + 1, ids[count:], [APP, OTHER_APP], ttl=LATE * 9)
        log.outward("refused", [(count + 1, 1)], 0, parcel=count + 1, reason="queue-full-group")
        log.state("stop", 9)

    return write


def test_a_share_that_is_said_to_be_full_and_was_not_is_told(tmp_path: Path) -> None:
    elsewhere = (OTHER_APP,)
    told = {
        "nobody waits": crowded(),
        "few of the group wait": crowded(20),
        "others wait": crowded(90, group=H, peer=OTHER_PEER),
        "others wait elsewhere": crowded(190, group=H, peer=OTHER_PEER, waiting_for=elsewhere),
        "a stranger's": crowded(4, standing="stranger", limits=OF_OTHERS),
        "a router's that is known by meetings": crowded(4, standing="met", limits=OF_OTHERS),
        "somebody's who is not known": crowded(standing="local", limits=OF_OTHERS, peer=H),
        "its rights changed": crowded(
            4, said("config", 0, peer=PEER, removed=False, **OF_OTHERS), limits=OF_OTHERS, peer=OTHER_PEER
        ),
        "it came to be known before": crowded(0, said("config", 0, peer=message_id("third"), removed=False, **ROOM)),
    }
    quiet = {
        "many of the group wait": crowded(40, peer=OTHER_PEER),
        "many that it brought wait": crowded(40, group=H),
        "many of the group wait elsewhere": crowded(150, peer=OTHER_PEER, waiting_for=elsewhere),
        "many that it brought wait elsewhere": crowded(150, group=H, waiting_for=elsewhere),
        "large ones wait": crowded(20, limits=ROOM | {"queue_bytes_max": 20_000}, sizes=[1000] * 20),
        "a stranger's, and no limit": crowded(standing="stranger"),
        "of a router known by meetings, and no limit": crowded(standing="met"),
        "its rights changed, and no limit": crowded(0, said("config", 0, peer=PEER, removed=False, **ROOM)),
        "many of other strangers wait": crowded(
            16, group=H, peer=OTHER_PEER, standing="stranger", limits=OF_OTHERS, waiting_for=elsewhere
        ),
        "many wait that a met router brought": crowded(
            12, group=H, standing="met", limits=OF_OTHERS | {"strangers_percent": 90}
        ),
        "a key was renewed": crowded(0, said("renewal", 0, old=OTHER_APP, new=H, service="router")),
        "no such limits are told": crowded(limits={}),
        "no such limits are told once": crowded(0, said("config", 0)),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("not-crowded", 1)] for case in told}, **{case: [] for case in quiet}}


def declined(
    reason: str,
    at: float = 2,
    *steps: Case,
    whom: Sequence[str] = (APP,),
    written: bool = False,
    ttls: Sequence[int] = (LATE * 9, LATE * 9),
) -> Case:
    """Accept two messages for two apps at 2, and say of these that they were refused for `reason`."""

    def write(log: Log) -> None:
        begun(log, queue_messages_max=1, group_messages_max=1)
        for step in steps:
            step(log)
        log.accepted(1, [f"{log.key.public.hex()} {one}" for one in range(2)], [APP, OTHER_APP], 2, ttls=[*ttls])
        for one in whom:
            if written:
                log.outward("forwarded", [(1, 1)], at, one)
            log.outward("refused", [(1, 2)], at, one, reason=reason)
        log.state("stop", 9)

    return write


def test_who_is_left_out_of_what_is_accepted_only_if_somebody_is_not(tmp_path: Path) -> None:
    told = {
        "for want of room, later": declined("queue-full-recipient", 3),
        "for a share, later": declined("queue-full-group", 3, written=True),
        "nobody has room": declined("queue-full-recipient", whom=(APP, OTHER_APP)),
        "nobody is there": declined("not-kept", whom=(APP, OTHER_APP)),
    }
    quiet = {
        "for want of room": declined("queue-full-recipient"),
        "for a share": declined("queue-full-group"),
        "away": declined("not-kept"),
        "an app says so": declined("not-kept", 3, whom=(APP, OTHER_APP), written=True),
    }
    found = claimed({**told, **quiet}, tmp_path)
    both = ("nobody has room", "nobody is there")
    assert found == {
        **{case: [("no-room", 2)] * (1 + (case in both)) for case in told}, **{case: [] for case in quiet}
    }  # fmt: skip


def test_who_is_said_to_be_away_and_was_connected_is_told(tmp_path: Path) -> None:
    there: tuple[Case, ...] = (linked, joined)
    told = {"connected": declined("not-kept", 2, *there)}
    quiet = {
        "away": declined("not-kept", 2, *there, down),
        "not joined": declined("not-kept", 2, linked),
        "for want of room": declined("queue-full-recipient", 2, *there),
        "it says so itself": declined("not-kept", 3, *there, written=True),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("not-away", 2)] for case in told}, **{case: [] for case in quiet}}


def test_a_refusal_of_what_was_never_written_is_told(tmp_path: Path) -> None:
    told = {
        "by a recipient": declined("peer-refused", 3),
        "for a route": declined("no-route", 3),
        "as it was away, later": declined("recipient-offline-ttl0", 3),
        "as nothing is kept, later": declined("not-kept", 3),
    }
    quiet = {
        "of what was written": declined("peer-refused", 3, written=True),
        "too large for its link": declined("too-large", 3),
        "as it was away": declined("recipient-offline-ttl0", ttls=(0, 0)),
        "a hole": declined("peer-refused", 3, said("log_gap", missing=1)),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("refused-unwritten", 2)] for case in told}, **{case: [] for case in quiet}}


def test_who_is_left_out_of_what_may_wait_as_if_its_ttl_were_0_is_told(tmp_path: Path) -> None:
    reason = "recipient-offline-ttl0"

    def apart(log: Log) -> None:
        begun(log)
        log.accepted(
            1, [f"{log.key.public.hex()} {one}" for one in range(5)], [APP, OTHER_APP], 2, ttls=[0, 9, 0, 9, 9]
        )
        log.outward("refused", [(1, 2), (4, 1)], 2, APP, reason=reason)
        log.state("stop", 9)

    told = {"their ttl is longer": 2, "of one it is": 1, "of some that the line names": 2}
    found = claimed(
        {
            "their ttl is longer": declined(reason),
            "of one it is": declined(reason, ttls=(0, 9)),
            "of some that the line names": apart,
            "their ttl is 0": declined(reason, ttls=(0, 0)),
            "the recipient says so": declined(reason, 3, written=True),
            "nothing is kept": declined("not-kept"),
        },
        tmp_path,
    )
    assert found == {
        **{case: [("may-wait", count)] for case, count in told.items()},
        "their ttl is 0": [], "the recipient says so": [], "nothing is kept": [],
    }  # fmt: skip


def refused_as_too_large(
    size: int = 900, settled: int = 1000, *, link: int = 7, settled_over: int = 7, written: bool = False
) -> Case:
    """Deliver a message and say of another one, with these sizes, that it is too large for its link."""

    def write(log: Log) -> None:
        begun(log)
        for one in (7, 8):
            log.state("link_up", 0, peer=APP, link=one, standing="local")
        for first, its_size in ((1, settled), (2, size)):
            log.accepted(first, [f"{log.key.public.hex()} {first}"], sizes=[its_size])
        log.outward("forwarded", [(1, 1)], 1, parcel=1, link=settled_over)
        log.outward("delivered", [(1, 1)], 2, parcel=1, link=settled_over)
        if written:
            log.outward("forwarded", [(2, 1)], 3, parcel=2, link=link)
        log.outward("refused", [(2, 1)], 4, parcel=2, reason="too-large", link=link)
        log.state("stop", 9)

    return write


def test_a_message_that_is_said_to_be_too_large_beside_one_as_large_is_told(tmp_path: Path) -> None:
    told = {
        "a larger one was settled": refused_as_too_large(),
        "one as large was settled": refused_as_too_large(1000),
        "no link is named": refused_as_too_large(link=0),
    }
    quiet = {
        "a smaller one was settled": refused_as_too_large(1001),
        "a larger one was settled over another link": refused_as_too_large(settled_over=8),
        "no link is named, and it is larger": refused_as_too_large(1001, link=0),
        "the recipient says so": refused_as_too_large(written=True),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("not-too-large", 1)] for case in told}, **{case: [] for case in quiet}}
