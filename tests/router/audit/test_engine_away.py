"""The audit judges who had joined and was away, as far as a log is bound to name whoever leaves.

The logs of all cases are audited at once: a case is a router of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samples.audit_logs import APP, LATE, OTHER_APP, Log, audited, message_id, name
from samples.one_log import claimed, down, joined, linked, then
from samples.two_logs import Case, G, begun, said

from router.core.wire.crypto import SigningKey

MARK = {"history_open_max": 4096, "groups_per_client_max": 1000}


def marked(log: Log, at: float = 0) -> None:
    begun(log, at, **MARK)


def older(log: Log, at: float = 0) -> None:
    begun(log, at, history_open_max=4096)


def again(log: Log) -> None:
    marked(log, 3)


def once_older(log: Log) -> None:
    older(log, 3)


def member(log: Log) -> None:
    """Let an app join, and go away at 2."""
    marked(log)
    linked(log)
    joined(log)
    down(log)


def client(log: Log) -> None:
    marked(log)
    linked(log, standing="client")
    joined(log)
    log.state("link_down", 2, peer=APP, link=7, standing="client")


def sent(log: Log, at: float = 5, **columns: Any) -> None:
    """Accept two messages for another app."""
    log.state("link_up", at, peer=OTHER_APP, link=2, standing="local")
    log.accepted(1, [f"{name(log.key)} {one}" for one in range(2)], [OTHER_APP], at, **columns)
    log.outward("forwarded", [(1, 2)], at, recipient=OTHER_APP)
    log.outward("delivered", [(1, 2)], at, recipient=OTHER_APP)


left = said("leave", 3, subscriber=APP, group=G)
counted = said("leave", 9, standing="local", times=3)

LEFT_OUT: dict[str, Case] = {
    "an app": then(member, sent),
    "a client": then(client, sent),
    "of which no link is told": then(marked, joined, sent),
    "of which a link is told later": then(marked, joined, sent, lambda log: linked(log, 9)),
    "an app, after a start": then(member, again, sent),
    "an app that was there at the start": then(marked, linked, joined, again, sent),
    "an app, before a start without the mark": then(member, sent, lambda log: older(log, 9)),
    "an app, leaves counted": then(member, sent, counted),
    "an app that left and joined again": then(member, left, lambda log: joined(log, 4), sent),
    "an app that left later": then(member, sent, said("leave", 9, subscriber=APP, group=G)),
    "a client that comes again": then(
        client, again, said("link_up", 4, peer=APP, link=3, standing="client"),
        said("link_down", 4, peer=APP, link=3, standing="client"), sent,
    ),
}  # fmt: skip
NOT_LEFT_OUT: dict[str, Case] = {
    "after it left": then(member, left, sent),
    "another group": then(member, lambda log: sent(log, group=message_id("other"))),
    "its own message": then(member, lambda log: sent(log, peer=APP)),
    "an older log": then(older, linked, joined, down, sent),
    "joined before the mark": then(older, linked, joined, down, lambda log: log.state("config", 3, **MARK), sent),
    "after a start without the mark": then(member, once_older, sent),
    "after a later mark": then(member, once_older, lambda log: marked(log, 4), sent),
    "an uplink": then(member, said("config", 3, peer=APP, uplink=True), sent),
    "renewed": then(member, said("renewal", 3, old=APP, new=OTHER_APP, service="router"), sent),
    "a stranger": then(marked, lambda log: linked(log, standing="stranger"), joined, sent),
    "a LAN neighbour": then(marked, lambda log: linked(log, standing="met"), joined, sent),
    "a service": then(marked, linked, lambda log: joined(log, service="pubsub"), down, sent),
    "a client, after a start": then(client, again, sent),
    "of which no link is told, in a later run": then(marked, joined, again, sent),
    "links counted": then(marked, joined, sent, said("link_up", 9, standing="client", times=1)),
    "a key that another followed": then(
        marked, joined, sent, said("renewal", 9, old=message_id("old"), new=APP, service="router")
    ),
    "declined": then(marked, lambda log: log.state("join", 1, subscriber=name(log.key), group=G), sent),
    "a hole": then(member, said("log_gap", 3, missing=1), sent),
}


def test_a_subscriber_that_is_away_and_left_out_is_told(tmp_path: Path) -> None:
    found = claimed({**LEFT_OUT, **NOT_LEFT_OUT}, tmp_path)
    assert found == {**{case: [("left-out", 2)] for case in LEFT_OUT}, **{case: [] for case in NOT_LEFT_OUT}}


def dropped(*between: Case, before: Case = member) -> Case:
    """Accept two messages at 5 for an app, and drop them at 8 because it had left, after what lies `between`."""

    def write(log: Log) -> None:
        before(log)
        log.accepted(1, [f"{name(log.key)} {one}" for one in range(2)], [APP], 5)
        then(*between)(log)
        log.outward("dropped", [(1, 2)], 8, reason="left")

    return write


def test_messages_dropped_for_whoever_is_away_and_had_not_left_are_told(tmp_path: Path) -> None:
    told = {
        "away": dropped(),
        "a client": dropped(before=client),
        "no link": dropped(before=then(marked, joined)),
        "since a start": dropped(before=then(member, again)),
        "it came and is there": dropped(lambda log: linked(log, 6)),
        "its queue was dropped before": dropped(before=then(member, said("queue_dropped", 3, peer=APP))),
    }
    quiet = {
        "it left": dropped(said("leave", 6, subscriber=APP, group=G, because="left")),
        "it left and joined again": dropped(said("leave", 6, subscriber=APP, group=G), lambda log: joined(log, 7)),
        "its queue was dropped": dropped(said("queue_dropped", 6, peer=APP)),
        "it went away since": dropped(lambda log: linked(log, 6), said("link_down", 7, peer=APP, link=7)),
        "a start since": dropped(lambda log: marked(log, 6)),
        "an older log": dropped(before=then(older, linked, joined, down)),
        "its rights were taken": dropped(said("config", 6, peer=APP, revoked="store")),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("not-left", 2)] for case in told}, **{case: [] for case in quiet}}


def test_where_those_who_are_away_are_not_judged_is_among_the_limits(tmp_path: Path) -> None:
    cases = {
        "sound": then(member, sent, counted),
        "older": then(older, linked, joined, sent),
        "late": then(older, linked, joined, lambda log: marked(log, 4)),
        "back": then(member, once_older),
    }
    logs = {case: Log(SigningKey(case.encode().ljust(32)[:32])) for case in cases}
    for case, write in cases.items():
        write(logs[case])
        logs[case].state("stop", LATE)
        logs[case].write(tmp_path / case)
    limits = audited(tmp_path)["limits"]
    told = {case: [one for one in limits if name(log.key) in one and "away" in one] for case, log in logs.items()}
    assert told["sound"] == []
    [text] = told["older"]
    assert text.endswith(f"the log of {name(logs['older'].key)}: no `config` line tells `groups_per_client_max` in it.")
    [text] = told["late"]
    assert "away were owed messages is not judged" in text and "before event 6: no `config`" in text
    [text] = told["back"]
    assert text.startswith("From event 7 on, whether those who had joined and were away")
