"""The sentence, level and remedy of each finding, and the verdict that follows."""

from typing import Any

import pytest
from test_summary import AS_OF, DAY, START, WHOLE, A, B, C, evidence, summary, totals

from spark_analytics.judgement.evidence import DISPUTED, REWRITTEN, File, Hole
from spark_analytics.judgement.lives import RESTORED, UNTRUE
from spark_analytics.judgement.log_files import Problem
from spark_analytics.report.finding import utc
from spark_analytics.report.headline import balanced, headline

ID = "1d" * 32
CUSTODY = {"router": A, "recipient": B, "acked": 9, "followed": 9, "broken": 0, "unknown": 0, "lower_ns": None,
           "upper_ns": None}  # fmt: skip
BROKEN_LOG = WHOLE._replace(whole=False)


def hole(why: str = "no file given holds them") -> Hole:
    return Hole(A, 3, 4, why)


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "residual": (
        {"totals": [totals(A, owed=5, delivered=3)]}, "bad",
        "The books do not balance: 2 more deliveries are owed than are in any state.",
    ),
    "loss": (
        {"totals": [totals(A, owed=5, unaccounted=1, delivered=4)]}, "bad",
        f"Lost without a trace: 1 delivery owed by the router {A}. Its log is whole and the time is over, but it "
        "records no outcome of them.",
    ),
    "an alarm about a recipient": (
        {"alarms": [{"router": A, "alarm": "unaccounted", "peer": B, "seq": 7,
                     "fields": {"number": "1200", "since_s": "1800000000"}}]}, "bad",
        f"The router {A} itself says since 2027-01-15T08:00:00+00:00: deliveries for {B} that must still wait by its "
        "log (1,200) are not in its store.",
    ),
    "an alarm of a later version": (
        {"alarms": [{"router": A, "alarm": "too-hot", "peer": None, "seq": 7, "fields": {}}]}, "warning",
        f"The router {A} itself says: it has raised the alarm too-hot.",
    ),
    "broken custody": (
        {"custody": [CUSTODY | {"broken": 2}]}, "bad",
        f"The router {A} says that {B} took 2 messages over that the log of {B}, which is whole up to then, does not "
        "hold. One of the two logs is wrong.",
    ),
    "broken custody with an example": (
        {"custody": [CUSTODY | {"broken": 2}], "broken": [{"router": A, "recipient": B, "id": "2e" * 32, "seq": 9}]},
        "bad",
        f"The router {A} says that {B} took 2 messages over that the log of {B}, which is whole up to then, does not "
        f"hold: the first is {'2e' * 32}, accepted in event 9. One of the two logs is wrong.",
    ),
    "contradiction": (
        {"totals": [totals(A, owed=5, delivered=5, contradictions=1)]}, "bad",
        f"1 delivery of the router {A} ended in two different ways; each counts under the first of them.",
    ),
    "a bad file": (
        {"found": evidence(BROKEN_LOG, files=(File("a/2", A, "bad", 3, 4, 9),))}, "bad",
        f"1 file of the log of the router {A} cannot be believed: a/2. Nothing in them counts.",
    ),
    "a file that cannot be read": (
        {"found": evidence(BROKEN_LOG, files=(File("a/2", A, "bad", 3, 4, 0), File("a/3", A, "bad", 5, 6, 0)),
                           problems=(Problem("a/2", 7, "odd"), Problem("a/3", 0, "cannot be read: it is locked")))},
        "bad",
        f"1 file of the log of the router {A} cannot be read: a/3. Nothing in them counts.",
    ),
    "a fork": (
        {"found": evidence(BROKEN_LOG, files=(File("a/3", A, "fork", 5, 6, 9), File("a/2", A, "fork", 3, 4, 9)))},
        "bad",
        f"The log of the router {A} has two histories from event 3 on: two nodes use its key, or a log was copied and "
        "both went on, or it was rewritten, or its store was deleted and its log began anew at event 1. Nothing counts "
        "from there.",
    ),
    "a log begun anew": (
        {"found": evidence(BROKEN_LOG, files=(File("a/1", A, "fork", 1, 6, 9), File("b/1", A, "fork", 1, 4, 9)))},
        "bad",
        f"The log of the router {A} has two histories from event 1 on, as where a node's store is deleted and its log "
        "begins anew under the same key; or two nodes use its key, or a log was copied and both went on, or it was "
        "rewritten. Nothing counts from there.",
    ),
    "rewritten": (
        {"found": evidence(BROKEN_LOG, holes=(hole(f"a neighbour says: {REWRITTEN}"),))}, "bad",
        f"The log of the router {A} is not what its neighbours saw: a neighbour says: {REWRITTEN} (events 3 to 4).",
    ),
    "rewritten, as a single neighbour says": (
        {"found": evidence(WHOLE._replace(problems=(f"a/1: of the log of {A}, the neighbour B says: {DISPUTED}",)))},
        "warning", f"Of the log of the router {A}, the neighbour B says: {DISPUTED}.",
    ),
    "a restore that a neighbour contradicts": (
        {"found": evidence(BROKEN_LOG, holes=(hole(f"a neighbour was told otherwise: {UNTRUE}"),
                                              hole(f"restored on X from a snapshot of Y; {RESTORED}")))}, "bad",
        f"The log of the router {A} names a restore that a neighbour contradicts: a neighbour was told otherwise: "
        f"{UNTRUE} (events 3 to 4).",
    ),
    "no log": ({"found": evidence()}, "warning", "No router's log is among the files: there is nothing to judge."),
    "a hole": (
        {"found": evidence(BROKEN_LOG, holes=(hole(),)), "totals": [totals(A, owed=2, unknown=2)]}, "warning",
        f"The log of the router {A} is not whole: it lacks events 3 to 4 (no file given holds them); 2 deliveries "
        "cannot be judged, and what was accepted in them is not counted at all.",
    ),
    "holes that matter to nothing": (
        {"found": evidence(BROKEN_LOG, holes=(hole(), hole("x")))}, "warning",
        f"The log of the router {A} is not whole: it lacks events 3 to 4 (no file given holds them) and 1 more span; "
        "no other delivery depends on them, and what was accepted in them is not counted at all.",
    ),
    "dropped": (
        {"totals": [totals(A, owed=3, dropped=3)],
         "reasons": [{"router": A, "event": "dropped", "reason": one, "at_door": False, "count": n}
                     for one, n in (("x", 1), ("y", 2))]},
        "warning", f"The router {A} dropped 3 deliveries (y 2, x 1).",
    ),
    "evicted": (
        {"totals": [totals(A, owed=3, evicted=3)]}, "warning", f"The router {A} evicted 3 deliveries.",
    ),
    "duplicates": (
        {"totals": [totals(A, owed=3, delivered=3, duplicates=2)]}, "warning",
        f"The router {A} delivered 2 messages once more than it should.",
    ),
    "the future": (
        {"future": [{"router": A, "lines": 1, "latest_t": 77}]}, "warning",
        f"The router {A} wrote 1 line from the future: its clock went up to 1970-01-01T00:00:00+00:00, and the audit's "
        f"now is {utc(AS_OF)}. These lines count as written at the audit's now, and the watermark ignores them.",
    ),
    "a clock ahead": (
        {"custody": [CUSTODY | {"lower_ns": 2_500_000_000, "upper_ns": 3_000_000_000}]}, "warning",
        f"The clocks of the routers {A} and {B} are apart: the latter is at least 2 s ahead.",
    ),
    "a clock ahead, seen from both sides": (
        {"custody": [CUSTODY | {"lower_ns": 2_500_000_000, "upper_ns": 3_000_000_000},
                     CUSTODY | {"router": B, "recipient": A, "lower_ns": None, "upper_ns": -2_400_000_000}]}, "warning",
        f"The clocks of the routers {A} and {B} are apart: the latter is at least 2 s ahead.",
    ),
    "a clock ahead, seen from the other side only": (
        {"custody": [CUSTODY | {"lower_ns": None, "upper_ns": 3_000_000_000},
                     CUSTODY | {"router": B, "recipient": A, "lower_ns": None, "upper_ns": -2_400_000_000}]}, "warning",
        f"The clocks of the routers {B} and {A} are apart: the latter is at least 2 s behind.",
    ),
    "a clock behind": (
        {"custody": [CUSTODY | {"lower_ns": None, "upper_ns": -3_000_000_000}]}, "warning",
        f"The clocks of the routers {A} and {B} are apart: the latter is at least 3 s behind.",
    ),
    "a router that drops": (
        {"barred": [{"router": A, "peer": C, "count": 2, "lost": 5, "withheld": 3, "seq": 9}]}, "warning",
        f"The router {A} says that {C} takes messages of groups and passes none on, by 5 messages that it had "
        "acknowledged and did not hold and 3 messages that it held and sent only when asked: first in event 9. It is "
        "sent none for a while.",
    ),
    "a clock that was set": (
        {"custody": [CUSTODY | {"lower_ns": 2_500_000_000, "upper_ns": -3_000_000_000}]}, "warning",
        f"The clocks of the routers {A} and {B} contradict each other: their difference changed by at least 5.500 s, "
        "so one of them was set meanwhile (neither log tells of a `clock_step`).",
    ),
    "a clock that was set, and whose router said so": (
        {"custody": [CUSTODY | {"lower_ns": 2_500_000_000, "upper_ns": 2_499_000_000}],
         "events": [{"router": B, "event": "clock_step", "lines": 2, "count": 2},
                    {"router": C, "event": "clock_step", "lines": 9, "count": 9}]}, "warning",
        f"The clocks of the routers {A} and {B} contradict each other: their difference changed by at least 0.001 s, "
        f"so one of them was set meanwhile (the log of {B} tells of it: `clock_step`, 2 times).",
    ),
    "not followed for a day": (
        {"custody": [CUSTODY | {"unknown": 4}], "found": evidence(WHOLE, WHOLE._replace(router=B)),
         "span": [{"min_minute": START, "max_minute": START + 2 * DAY}],
         "queues": [{"router": A, "recipient": one, "window": START // 30 * 30 + at, "added": 2, "ended": 2,
                     "open": 0, "depth_max": None} for one, at in ((B, 0), (B, DAY), (C, DAY + 60))]},
        "warning",
        f"4 messages that {A} handed to {B} (acknowledged) are not in the log of {B}, which ends before: its end is "
        "missing or has not been given.",
    ),
    "a queue that fills": (
        {"span": [{"min_minute": START - 9, "max_minute": START}],
         "configs": [{"router": A, "fields": {"queue_messages_max": "1000"}}],
         "due": [{"router": A, "recipient": C, "due_ns": AS_OF + 720 * 10**9}],
         "queues": [{"router": A, "recipient": C, "window": START, "added": 80, "ended": 0, "open": 80}]},
        "warning",
        f"Where the log of the router {A} ends, the queue of {C} is full 57 minutes later at the rate of then: 80 of "
        "1,000 messages wait; its oldest message expires in 12 minutes.",
    ),
    "a queue with one message": (
        {"span": [{"min_minute": START, "max_minute": START}],
         "configs": [{"router": A, "fields": {"queue_messages_max": "1"}}],
         "queues": [{"router": A, "recipient": C, "window": START, "added": 1, "ended": 0, "open": 1}]},
        "warning",
        f"Where the log of the router {A} ends, the queue of {C} is full: 1 of 1 messages waits.",
    ),
    "a queue whose messages are overdue": (
        {"span": [{"min_minute": START, "max_minute": START}],
         "configs": [{"router": A, "fields": {"queue_messages_max": "10"}}],
         "due": [{"router": A, "recipient": C, "due_ns": AS_OF - 1}],
         "queues": [{"router": A, "recipient": C, "window": START, "added": 9, "ended": 0, "open": 10}]},
        "warning",
        f"Where the log of the router {A} ends, the queue of {C} is full: 10 of 10 messages wait; its oldest message "
        "is past its time.",
    ),
    "messages that clocks disagree about": (
        {"reasons": [{"router": A, "event": event, "reason": "clock-doubted", "at_door": event == "refused", "count": 2}
                     for event in ("refused", "deferred")],
         "events": [{"router": A, "event": "clock_step", "lines": 1, "count": 1}]}, "warning",
        f"At the router {A} 4 messages had to be sent again because clocks disagree (clock-doubted); its log tells "
        "of it: `clock_step`, 1 time.",
    ),
    "another problem": (
        {"found": evidence(WHOLE, files=(File("a/2", A, "copy", 3, 4, 9),), problems=(Problem("a/2", 1, "renamed"),))},
        "warning", "Problems with the files: a/2:1: renamed.",
    ),
    "expired": (
        {"totals": [totals(A, owed=3, expired=3)],
         "reasons": [{"router": A, "event": "expired", "reason": "ttl-expired", "at_door": False, "count": 3}]},
        "info", f"3 deliveries of the router {A} ended as expired (ttl-expired 3).",
    ),
    "reasons of what was accepted at another time than was asked for": (
        {"totals": [totals(A, owed=1, expired=1)],
         "reasons": [{"router": A, "event": "expired", "reason": "ttl-expired", "at_door": False, "count": 3}]},
        "info", f"1 delivery of the router {A} ended as expired (in all of its log: ttl-expired 3).",
    ),
    "strays": (
        {"totals": [totals(A, strays=3)]}, "info",
        f"The log of the router {A} tells of 3 ends of deliveries whose acceptance is not in these logs (pruned, "
        "missing, or before the time asked for); none of it counts.",
    ),
    "turned away": (
        {"totals": [totals(A, owed=2, refused=2)],
         "reasons": [{"router": A, "event": "refused", "reason": reason, "at_door": at_door, "count": n}
                     for reason, at_door, n in (("bad-signature", True, 5), ("left", True, 0), ("left", False, 2))]},
        "info", "5 messages were refused on arrival: bad-signature 5.",
    ),
    "one turned away": (
        {"totals": [totals(A, owed=2, refused=2)],
         "reasons": [{"router": A, "event": "refused", "reason": "malformed", "at_door": True, "count": 1}]},
        "info", "1 message was refused on arrival: malformed 1.",
    ),
    "flapping": (
        {"flaps": [{"router": A, "subject": C, "changes": 100}]}, "info",
        f"Routes and links of {C} at the router {A} changed 100 times.",
    ),
    "not followed to where the log ends": (
        {"custody": [CUSTODY | {"unknown": 4}], "found": evidence(WHOLE, WHOLE._replace(router=B)),
         "span": [{"min_minute": START, "max_minute": START + 2 * DAY}],
         "queues": [{"router": A, "recipient": one, "window": START // 30 * 30 + at, "added": 4, "ended": 4,
                     "open": 0, "depth_max": None} for one, at in ((B, DAY), (C, DAY + 30))]}, "info",
        f"4 messages that {A} handed to {B} (acknowledged) are not in the log of {B}, which ends before: what is not "
        "sealed yet is in no file, or its end is missing or has not been given.",
    ),
    "not followed at either end": (
        {"custody": [CUSTODY | {"unknown": 1}],
         "found": evidence(WHOLE, WHOLE._replace(router=B, first=5, pruned_to=4))}, "info",
        f"1 message that {A} handed to {B} (acknowledged) is not in the log of {B}, which begins after (older events "
        "are pruned) or ends before.",
    ),
    "not followed where the log has holes": (
        {"custody": [CUSTODY | {"unknown": 4}], "found": evidence(WHOLE, BROKEN_LOG._replace(router=B))}, "info",
        f"4 messages that {A} handed to {B} (acknowledged) are not in what is known of the log of {B}: it is not "
        "whole.",
    ),
    "quality": (
        {"quality": [{"check": "negative wait", "router": A, "count": 2}]}, "info",
        f"Quality of data: negative wait, 2 times at the router {A}.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_finding_says_what_it_is(name: str) -> None:
    tables, level, text = CASES[name]
    found = summary(**tables)
    [finding] = [row for row in found["findings"] if row["text"] == text]
    assert finding["level"] == level
    assert bool(finding["remedy"]) == (level in ("bad", "warning") or name.startswith("not followed"))
    assert found["verdict"] == {"bad": "bad", "warning": "attention", "info": "good"}[level]


def test_all_is_well() -> None:
    found = summary(totals=[totals(A, owed=5, delivered=3, pending=2)])
    text = "3 deliveries arrived, 2 may still arrive; none vanished."
    assert (found["verdict"], found["findings"]) == ("good", [{"level": "good", "text": text, "remedy": ""}])


def test_what_is_behind_the_next_router_and_not_told_of_is_not_said_to_be_well() -> None:
    found = summary(totals=[totals(A, owed=5, acked=5)], custody=[CUSTODY | {"acked": 5, "followed": 3, "unknown": 2}])
    [text] = [row["text"] for row in found["findings"] if row["level"] == "good"]
    assert text == (
        "5 deliveries arrived; none vanished here. What became of 2 of them behind the next router is not known: its "
        "log, as given, does not tell."
    )


@pytest.mark.parametrize(
    ("alarm", "number", "said"),
    [
        (
            "unaccounted",
            6,
            "6 that must still wait are not in the store, as their own router says, and no other vanished",
        ),
        (
            "unaccounted",
            99,
            "20 that must still wait are not in the store, as their own router says, and no other vanished",
        ),
        ("queue-filling", 6, "none vanished"),
    ],
)
def test_what_is_gone_by_the_word_of_its_own_router_is_in_the_headline(alarm: str, number: int, said: str) -> None:
    fields = {"number": str(number), "since_s": "1"}
    row = {"router": A, "alarm": alarm, "peer": B, "seq": 7, "fields": fields}
    found = summary(totals=[totals(A, owed=40, delivered=20, pending=20)], alarms=[row])
    assert balanced(found) == f"20 deliveries arrived, 20 may still arrive; {said}."
    assert headline(found).endswith("Yet 1 finding below must not be ignored.") is (alarm == "unaccounted")


def test_nothing_is_owed() -> None:
    text = "There is nothing to judge: the logs name no delivery that was owed."
    assert summary()["findings"] == [{"level": "info", "text": text, "remedy": ""}]


@pytest.mark.parametrize(("lost", "fate"), [(0, "none of them vanished"), (2, "2 of them vanished")])
def test_only_services_owed_something(lost: int, fate: str) -> None:
    one = {"router": A, "service": "dmq", "messages": 3, "owed": 3, "unaccounted": lost}
    text = f"No router owed a delivery; services owed 3 deliveries to their own recipients, and {fate}."
    assert balanced(summary() | {"services": [one]}) == text


def test_the_worst_comes_first_and_a_loss_names_an_example() -> None:
    found = summary(
        totals=[totals(A, owed=5, unaccounted=1, expired=1, dropped=3)],
        unaccounted=[{"router": A, "parcel": 7, "recipient": C, "signer": B, "count": 1, "id": ID}],
    )
    assert [row["level"] for row in found["findings"]] == ["bad", "warning", "info"]
    assert f"for the messages under `lost`, for instance {ID}." in found["findings"][0]["remedy"]


def test_many_alike_are_counted() -> None:
    routers = [f"{number:064x}" for number in range(25)]
    found = summary(totals=[totals(one, owed=9, unaccounted=number + 1, delivered=8 - number) for number, one in
                            enumerate(routers)])["findings"]  # fmt: skip
    assert [row["level"] for row in found] == ["bad"] * 11
    assert (routers[24] in found[0]["text"], found[10]["text"]) == (True, "The same in 15 more cases.")


def test_one_is_told_in_the_singular() -> None:
    """One more of a kind, one delivery that is in no state, and one message in a queue."""
    alike = [totals(f"{number:064x}", owed=2, unaccounted=1, delivered=1) for number in range(11)]
    assert summary(totals=alike)["findings"][10]["text"] == "The same in 1 more case."
    left = summary(totals=[totals(A, owed=2, delivered=1)])["findings"][0]["text"]
    assert left == "The books do not balance: 1 more delivery is owed than are in any state."
