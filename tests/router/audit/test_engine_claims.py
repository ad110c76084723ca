"""The audit reports lines that contradict the rest of their log, or another router's, and nothing that only looks so.

The logs of all cases are audited at once: a case is a router of its own, or two of them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from samples.audit_logs import APP, LATE, OTHER_APP, Log, audited, message_id, name
from samples.one_log import between, claimed, down, joined, linked, then
from samples.two_logs import (
    Case,
    G,
    Pair,
    asked_of_another,
    begun,
    clock_moved,
    copied_on,
    handed,
    history,
    refused_all,
    said,
    unread,
)

from router.core.wire.crypto import SigningKey

# -- left out ---------------------------------------------------------------------------------------------


def present(log: Log) -> None:
    begun(log)
    linked(log)
    joined(log)


def sent(log: Log, at: float = 5, first: int = 1, **columns: Any) -> None:
    """Accept two messages for another app."""
    log.state("link_up", at, peer=OTHER_APP, link=2, standing="local")
    log.accepted(
        first, [f"{log.key.public.hex()} {first}", f"{log.key.public.hex()} again"], [OTHER_APP], at, **columns
    )
    log.outward("forwarded", [(first, 2)], at, recipient=OTHER_APP, parcel=first)
    log.outward("delivered", [(first, 2)], at, recipient=OTHER_APP, parcel=first)


def left(log: Log) -> None:
    log.state("leave", 2, subscriber=APP, group=G)


def by_service(log: Log) -> None:
    begun(log)
    linked(log)
    joined(log, service="pubsub")


def as_service(log: Log) -> None:
    present(log)
    log.state("join", 2, subscriber=OTHER_APP, group=G, service="pubsub")


def without_mark(log: Log) -> None:
    log.state("start")
    linked(log)
    joined(log)


def hole(log: Log) -> None:
    present(log)
    log.state("log_gap", 2, missing=1)


def gap(log: Log) -> None:
    log.state("log_gap", 9, missing=1)


def from_router(log: Log) -> None:
    log.state("link_up", 3, peer=message_id("router"), link=9, standing="peer")
    sent(log, peer=message_id("router"))


STRANGER = message_id("stranger")


def came(peer: str, at: float = 2) -> Case:
    return said("link_up", at, peer=peer, link=12, standing="peer")


LEFT_OUT: dict[str, Case] = {
    "told": then(present, sent),
    "told of a client": then(begun, lambda log: linked(log, standing="client"), joined, sent),
    "told after a start": then(present, lambda log: begun(log, 2), lambda log: linked(log, 3), sent),
    "to a service alone, by an app": then(
        as_service,
        said("link_up", peer=message_id("publisher"), link=9, standing="local"),
        lambda log: sent(log, peer=message_id("publisher")),
    ),
    "to a service alone, of which no history was asked": history(),
    "to a service alone, before history is asked for": history(0, 1, at=9),
    "to a service alone, half of it asked for": history(0, 0),
    "to a service alone, asked of a stranger": history(0, 1, of=STRANGER),
    "to a service alone, asked of whoever came later": then(history(0, 1, of=STRANGER), came(STRANGER, LATE)),
    "before a hole": then(present, sent, gap),
    "though its rights changed later": then(present, sent, said("config", 9, peer=APP, revoked="join")),
    "though it was renewed later": then(present, sent, said("renewal", 9, old=APP, new=OTHER_APP, service="router")),
    "though strangers left": then(present, said("leave", standing="stranger", times=3), sent),
    "though leaves of a later run are counted": then(
        present, sent, lambda log: begun(log, 9), said("leave", 10, standing="local", times=3)
    ),
    "though leaves of an earlier run are counted": then(
        begun, said("leave", 1, standing="local", times=3), lambda log: begun(log, 2), linked, joined, sent
    ),
    "told though a link before went": then(present, said("link_up", peer=APP, link=8, standing="local"), down, sent),
}
NOT_LEFT_OUT: dict[str, Case] = {
    "before it joined": then(begun, linked, sent, lambda log: joined(log, 9)),
    "after it left": then(present, left, sent),
    "after it went away": then(present, down, sent),
    "before it came": then(begun, joined, sent, lambda log: linked(log, 9)),
    "before it came again": then(present, lambda log: begun(log, 2), sent),
    "its own message": then(present, lambda log: sent(log, peer=APP)),
    "another group": then(present, lambda log: sent(log, group=message_id("other"))),
    "a copy": then(as_service, lambda log: sent(log, kind="copy", peer=OTHER_APP)),
    "a stranger": then(begun, lambda log: linked(log, standing="stranger"), joined, sent),
    "a service": then(by_service, sent),
    "history of an older log": then(as_service, from_router),
    "history of a log that begins later": then(said("config", 0, history_open_max=4096), as_service, from_router),
    "history that was asked for": history(0, 1),
    "history that was asked for again": history(0, 1, 0),
    "history that was asked of a neighbour before": history(0, 1, of=STRANGER, steps=[came(STRANGER)]),
    "history that was asked of a link that is only counted": history(
        0, 1, of=STRANGER, steps=[said("link_up", standing="peer", times=3)]
    ),
    "history that was asked of a renewed neighbour": history(
        0, 1, of=STRANGER, steps=[said("renewal", old=message_id("router"), new=STRANGER, service="router")]
    ),
    "an uplink": then(present, said("config", peer=APP, uplink=True), sent),
    "without a right": then(present, said("config", peer=APP, revoked="join"), sent),
    "renewed": then(present, said("renewal", old=APP, new=OTHER_APP, service="router"), sent),
    "some leaves counted": then(present, said("leave", standing="local", times=3), sent),
    "leaves counted later": then(present, sent, said("leave", 9, standing="local", times=3)),
    "leaves counted in the run after it joined": then(
        present,
        lambda log: begun(log, 2),
        lambda log: linked(log, 3),
        sent,
        said("leave", 9, standing="local", times=3),
    ),
    "an older log": then(without_mark, sent),
    "a hole": then(hole, sent),
    "before a hole, leaves counted behind it": then(present, sent, gap, said("leave", 9, standing="local", times=3)),
}


def test_a_subscriber_that_is_left_out_is_told(tmp_path: Path) -> None:
    found = claimed({**LEFT_OUT, **NOT_LEFT_OUT}, tmp_path)
    pruned = {"history of a log that begins later": [("not-begun", 1)]}
    assert found == {**{case: [("left-out", 2)] for case in LEFT_OUT}, **{case: [] for case in NOT_LEFT_OUT}, **pruned}


def test_where_nobody_is_judged_to_be_left_out_is_among_the_limits(tmp_path: Path) -> None:
    cases = {
        "older": then(without_mark, sent),
        "late": then(without_mark, begun, sent),
        "counted": then(present, said("leave", standing="local", times=3), sent),
        "rights": then(present, said("config", peer=APP, revoked="join"), sent),
        "holed": then(present, sent, gap),
        "asked": history(0, 1),
        "sound": then(present, said("leave", standing="stranger", times=3), sent),
    }
    logs = {case: Log(SigningKey(case.encode().ljust(32)[:32])) for case in cases}
    for case, write in cases.items():
        write(logs[case])
        logs[case].write(tmp_path / case)
    limits = audited(tmp_path)["limits"]
    told = {case: [text for text in limits if name(logs[case].key) in text and "left out" in text] for case in cases}
    older, late, counted, rights = (name(logs[case].key) for case in ("older", "late", "counted", "rights"))
    holed, asked = (name(logs[case].key) for case in ("holed", "asked"))
    assert told["sound"] == []
    assert any(f"The log of {asked} tells, first in event 8, that it asked other routers" in text for text in limits)
    assert any(f"The log of {holed} has a hole from event 10 on" in text for text in limits)
    [text] = told["older"]
    assert f"in the log of {older}: no `config` line tells `clock_moves_s_max` in it" in text
    [text] = told["late"]
    assert f"in the log of {late} before event 5: no" in text
    [text] = told["counted"]
    assert f"The log of {counted} only counts some of those who left groups, first in event 5" in text
    [text] = told["rights"]
    assert f"the log of {rights} tells" in text and text.endswith(f"{APP} (5).")


def dropped(*between: Case, mark: bool = True, before: Case = present, group: str = G) -> Case:
    """Drop two of three messages at 8 because the recipient had left, after what lies `between`."""

    def write(log: Log) -> None:
        if mark:
            log.state("start")
            log.state("config", 0, history_open_max=4096)
        before(log)
        log.accepted(1, [f"{log.key.public.hex()} {one}" for one in range(3)], [APP], 3, group=group)
        then(*between)(log)
        log.outward("dropped", [(1, 2)], 8, reason="left")
        log.outward("dropped", [(3, 1)], 9, reason="store-damaged")

    return write


def test_messages_dropped_for_whoever_had_not_left_are_told(tmp_path: Path) -> None:
    told = {
        "dropped": dropped(),
        "its queue was dropped before": dropped(before=then(present, said("queue_dropped", 2, peer=APP))),
        "another queue was dropped": dropped(said("queue_dropped", 4, peer=OTHER_APP)),
        "it left another group": dropped(said("leave", 4, subscriber=APP, group=message_id("other"))),
        "of two links": dropped(before=then(present, said("link_up", 2, peer=APP, link=8, standing="local"))),
    }
    joined_again = (said("leave", 4, subscriber=APP, group=G), said("join", 4, subscriber=APP, group=G))
    quiet = {
        "it left": dropped(said("leave", 4, subscriber=APP, group=G, because="left")),
        "it left and joined again": dropped(*joined_again),
        "its queue was dropped": dropped(said("queue_dropped", 4, peer=APP)),
        "it went away": dropped(said("link_down", 4, peer=APP, link=7, standing="local")),
        "the router was started": dropped(said("start", 4), lambda log: linked(log, 4)),
        "its rights were taken": dropped(said("config", 4, peer=APP, revoked="join")),
        "it was renewed": dropped(said("renewal", 4, old=APP, new=OTHER_APP, service="router")),
        "an older log": dropped(mark=False),
        "another group": dropped(group=message_id("other")),
        "a hole": dropped(before=hole),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("not-left", 2)] for case in told}, **{case: [] for case in quiet}}


COPIER = SigningKey(b"r" * 32).public.hex()


def copied(*before: Case, peer: str | None = COPIER) -> Case:
    """Accept two copies that `peer` brought."""
    return then(begun, *before, lambda log: sent(log, kind="copy", peer=peer))


def test_copies_that_no_service_sent_are_told(tmp_path: Path) -> None:
    local = said("link_up", peer=COPIER, link=8, standing="local")
    by_router = said("link_up", peer=COPIER, link=8, standing="peer")
    by_service = said("join", subscriber=COPIER, group=G, service="pubsub")
    counted = said("join", standing="local", times=3)
    told = {
        "a router": copied(by_router),
        "an app": copied(local, said("join", subscriber=COPIER, group=G)),
        "a router, joins counted": copied(by_router, counted),
        "another service": copied(local, said("join", subscriber=APP, group=G, service="pubsub")),
    }
    quiet = {
        "a service": copied(local, by_service),
        "a service that is named later": then(
            copied(local), said("join", 9, subscriber=COPIER, group=G, service="pubsub")
        ),
        "a local key, joins counted": copied(local, counted),
        "a service's next key": copied(local, said("renewal", old=APP, new=COPIER, service="router")),
        "older": then(without_mark, lambda log: sent(log, kind="copy", peer=COPIER)),
        "with a hole": then(hole, lambda log: sent(log, kind="copy", peer=COPIER)),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("copied-by-nobody", 2)] for case in told}, **{case: [] for case in quiet}}


# -- the log itself ---------------------------------------------------------------------------------------


def ended(*events: str, seqs: bool = True, ttl: int = 60) -> Case:
    def write(log: Log) -> None:
        begun(log)
        log.state("link_up", 0, peer=APP, link=2, standing="local")
        if not seqs:
            log.outward("forwarded", [(1, 3)], 2)
            log.outward("delivered", [(1, 2)], 2)
        log.accepted(1, [f"{log.key.public.hex()} {one}" for one in range(3)], at=2, ttl=ttl)
        for event in events:
            log.outward(event, [(1, 2)], 2)
        log.outward("dropped", [(3, 1)], 2)
        log.state("stop", 9)

    return write


def missing_between(log: Log) -> None:
    begun(log)
    log.accepted(1, [f"{log.key.public.hex()} {one}" for one in range(3)])
    log.state("log_gap", 1, 7, missing=7)
    log.outward("delivered", [(1, 3)], 2)


def test_ends_of_messages_that_cannot_be_by_their_other_lines_are_told(tmp_path: Path) -> None:
    cases: dict[str, tuple[Case, list[tuple[str, int]]]] = {
        "delivered": (ended("delivered"), [("never-written", 2)]),
        "written and delivered": (ended("forwarded", "delivered"), []),
        "dropped": (ended("dropped"), []),
        "missing lines between": (missing_between, []),
        "before its place": (ended(seqs=False), [("before-accepted", 2)]),
        "no answer wanted": (ended("forwarded", "unconfirmed", ttl=0), []),
        "an answer wanted": (ended("forwarded", "unconfirmed"), [("answer-owed", 2)]),
    }
    found = claimed({case: write for case, (write, _) in cases.items()}, tmp_path)
    assert found == {case: claims for case, (_, claims) in cases.items()}


# -- two logs ---------------------------------------------------------------------------------------------


def test_a_neighbour_that_accepted_what_it_is_said_to_have_refused_is_told(tmp_path: Path) -> None:
    def stepped(here: Log, there: Log) -> None:
        handed(here, there, steps=[(LATE, said("clock_step", LATE, by_s=0, doubted=False))])

    cases: dict[str, tuple[Pair, list[tuple[str, int]]]] = {
        "refused": (handed, [("refused-there", 1)]),
        "no right any more": (lambda here, there: handed(here, there, "not-authorised"), []),
        "too large": (lambda here, there: handed(here, there, "too-large"), []),
        "accepted later": (lambda here, there: handed(here, there, at=60), []),
        "brought by another": (lambda here, there: handed(here, there, peer=APP), []),
        "a clock was set": (stepped, []),
        "expired": (lambda here, there: handed(here, there, "ttl-expired", event="expired"), []),
        "all": (refused_all, [("refused-there", 1)]),
        "a copy": (copied_on("refused"), [("refused-there", 1)]),
        "all copies": (copied_on("refused", "refused"), [("refused-there", 1)]),
        "one copy of two": (copied_on("acked", "refused"), []),
        "nobody for a copy": (copied_on("refused", joined=True), [("joined-there", 1), ("refused-there", 1)]),
    }
    found, summary = between({case: write for case, (write, _) in cases.items()}, tmp_path)
    assert {case: sorted(one for one in rows if one[0] != "never-linked") for case, rows in found.items()} == {
        case: rows for case, (_, rows) in cases.items()
    }
    refused = len(cases) - 3
    assert Counter(row["event"] for row in summary["went_on"]) == {"expired": 1, "refused": refused}
    assert {row["count"] for row in summary["went_on"]} == {1}
    assert sum("went on: the log of" in one["text"] for one in summary["findings"]) == refused + 1


def test_nobody_had_joined_at_a_neighbour_where_somebody_had_is_told(tmp_path: Path) -> None:
    cases = {"joined": unread(2), "joined later": unread(55), "left meanwhile": unread(2, 30)}
    found, _ = between(cases, tmp_path)
    assert {case: [one for one in rows if one[0] == "joined-there"] for case, rows in found.items()} == {
        "joined": [("joined-there", 1)],
        "joined later": [],
        "left meanwhile": [],
    }


def test_history_that_the_router_asked_for_it_accepted_later_is_told(tmp_path: Path) -> None:
    step, gone = said("clock_step", 5, by_s=0, doubted=False), said("leave", 9, subscriber=APP, group=G)
    cases: dict[str, tuple[Pair, int]] = {
        "before it was there": (asked_of_another(50, 60), 1),
        "before it was there for certain": (asked_of_another(50, 51.9), 0),
        "after it was there": (asked_of_another(50, 40), 0),
        "before a clock was set": (asked_of_another(50, 60, None, (5, step)), 0),
        "after an app had joined": (asked_of_another(2000, 1990, 8), 1),
        "soon after an app had joined": (asked_of_another(2000, 500, 8), 0),
        "after an app had left": (asked_of_another(2000, 1990, 8, (9, gone)), 0),
        "while the service was in no group": (
            asked_of_another(2000, 1990, 8, (9, said("leave", 9, subscriber=OTHER_APP, group=G))), 0
        ),
        "after an app had joined later": (asked_of_another(2000, 1990, 1980), 0),
    }  # fmt: skip
    found, summary = between({case: write for case, (write, _) in cases.items()}, tmp_path)
    assert {case: [one for one in rows if one[0] == "no-history"] for case, rows in found.items()} == {
        case: [("no-history", 1)] * number for case, (_, number) in cases.items()
    }
    [first, *_] = [one for one in summary["findings"] if "as history" in one["text"]]
    assert first["level"] == "bad" and "for 1 message as history" in first["text"]


def test_what_a_clock_shows_that_moved_a_little_names_nobody(tmp_path: Path) -> None:
    def late(here: Log, there: Log) -> None:
        handed(here, there, at=60)

    told = {"refused, by a clock that is off": (clock_moved(handed, 0, -30), "refused-there")}
    quiet = {
        "accepted later, by a clock set back": (clock_moved(late, 55, -30), "refused-there"),
        "joined later, by a clock set back": (clock_moved(unread(55), 53, -50), "joined-there"),
        "history, by a clock set ahead": (clock_moved(asked_of_another(50, 40), 20, 30), "no-history"),
        "history, by its own clock set back": (
            clock_moved(asked_of_another(50, 40), 45, -30, here=True), "no-history"
        ),
    }  # fmt: skip
    cases = {**told, **quiet}
    found, _ = between({case: write for case, (write, _) in cases.items()}, tmp_path)
    counts = {case: dict(found[case]).get(claim, 0) for case, (_, claim) in cases.items()}
    assert counts == {**dict.fromkeys(told, 1), **dict.fromkeys(quiet, 0)}


# -- links --------------------------------------------------------------------------------------------------


def over(
    *links: tuple[int, int, str], start: bool = True, end: str = "acked", down: int | None = None, names: bool = True
) -> Case:
    """Let a message reach APP over the link 2 at 6, by this `end`; `links`: when, under which number and in which run
    other links with it came up; `down`: when the link 2 went down; `names`: whether a link of another is named."""

    def write(log: Log) -> None:
        if start:
            begun(log)
        if names:
            log.state("link_up", 1, peer=OTHER_APP, link=1, standing="peer")
        log.accepted(1, range(1), [APP], 2)
        lines = [(at, "link_up", link, boot) for at, link, boot in links]
        if down is not None:
            lines.append((down, "link_down", 2, "0" * 32))
        for at, event, link, boot in sorted([*lines, (6, end, 2, "0" * 32)]):
            if event == end:
                log.outward("forwarded", [(1, 1)], at)
                log.outward(end, [(1, 1)], at)
            else:
                if boot != "0" * 32:
                    log._add("start", at, boot=boot, fields={})
                log._add(event, at, boot=boot, fields={"peer": APP, "link": link, "standing": "peer"})

    return write


def test_what_arrived_over_a_link_that_was_not_up_is_told(tmp_path: Path) -> None:
    here, other = "0" * 32, "1" * 32
    cases = {
        "up": (over((3, 2, here)), 0),
        "up before, and again": (over((3, 2, here), (9, 4, here)), 0),
        "no start is kept from the first event on": (over((3, 2, here), start=False), 0),
        "another number": (over((3, 4, here)), 1),
        "only later": (over((8, 2, here)), 1),
        "in another run": (over((3, 2, other)), 1),
        "delivered": (over((3, 2, here), end="delivered"), 0),
        "delivered over no link": (over(end="delivered"), 1),
        "no link at all": (over(names=False), 1),
        "no link at all, as of old": (over(names=False, start=False), 0),
        "down after it": (over((3, 2, here), down=7), 0),
        "down before it": (over((3, 2, here), down=5), 1),
        "down, and up again": (over((3, 2, here), (5, 2, here), down=4), 0),
        "delivered after it went down": (over((3, 2, here), end="delivered", down=5), 1),
    }
    found = claimed({case: write for case, (write, _) in cases.items()}, tmp_path)
    assert {case: dict(rows).get("never-linked", 0) for case, rows in found.items()} == {
        case: count for case, (_, count) in cases.items()
    }


# -- a neighbour's key that another one followed ----------------------------------------------------------


@pytest.mark.parametrize(("old", "count"), [(APP, 0), (message_id("another"), 1)])
def test_what_was_owed_to_a_key_that_another_followed_is_acknowledged_by_its_link(
    old: str, count: int, tmp_path: Path
) -> None:
    """The end of what was owed to a neighbour's old key names that key, though the link is one with the newest."""
    log, middle, new = Log(), message_id("middle"), message_id("new")
    begun(log)
    log.accepted(1, range(1), [APP])
    log.state("link_up", 2, peer=message_id("somebody"), link=1, standing="peer")
    log.state("renewal", 3, service="router", old=old, new=middle)
    log.state("renewal", 4, service="router", old=middle, new=new)
    log.state("link_up", 5, peer=new, link=2, standing="peer")
    log.outward("forwarded", [(1, 1)], 6)
    log.outward("acked", [(1, 1)], 6)
    found = audited(log.write(tmp_path))
    assert [row["claim"] for row in found["claims"]] == ["never-linked"] * count
