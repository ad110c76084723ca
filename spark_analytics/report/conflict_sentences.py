"""Sentences about contradictions an audit found in logs: with themselves, their own footers, each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spark_analytics.judgement.circles import CLAIM as CIRCLE
from spark_analytics.judgement.comparison import ABSENT, BEYOND, OTHER, SAME, UNKNOWN
from spark_analytics.judgement.conflicts import UNLIKE_FACTS
from spark_analytics.judgement.schema import ENDS
from spark_analytics.judgement.unnamed_reasons import CLAIM as UNNAMED

from .finding import Finding, Row, event_of, many, ranked, say, utc

_WHOEVER = "The router has a defect, or whoever has its key wrote the log"


def again(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each log that gives accepted messages the same arrival number more than once."""
    for row in summary["again"]:
        yield say(
            "bad",
            f"The log of the router {row['router']} gives {many(row['count'], 'arrival number')} more than once: "
            f"{row['arrival']} first in event {row['first_seq']}, and again in {event_of(row)}. What ends under such a "
            "number may have ended for either message.",
            f"{_WHOEVER}. Compare it with its neighbours' logs, and run `router why` there for their messages.",
        )


def early(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each router that ended messages as expired before their time was over."""
    for row in summary["early"]:
        lower = (
            "If `limits.ttl_s_max` of that router was lowered, which its log does not tell any more, or was less than "
            "five seconds, this is why. "
            f"Otherwise: {_WHOEVER[0].lower()}{_WHOEVER[1:]}."
        )
        yield say(
            "bad" if row["sure"] else "warning",
            f"The router {row['router']} let {many(row['count'], 'delivery')} expire before its time was over: the "
            f"message with the arrival number {row['arrival']}, accepted in {event_of(row)}, was due at "
            f"{utc(row['due_ns'])}, and is said to have expired for {row['recipient']} at {utc(row['expired_t'])}.",
            f"{_WHOEVER}. Publish again what was not delivered." if row["sure"] else lower,
        )


def unsent(summary: Row) -> Iterator[Finding]:
    """Yield a finding for messages that a router says a neighbour brought, but that the neighbour's log lacks."""
    for row in summary["unsent"]:
        peer = row["peer"]
        yield say(
            "bad",
            f"The router {row['router']} says that {peer} brought it {many(row['count'], 'message')} that the log of "
            f"{peer}, which is whole there, does not hold: the first is {row['id']}, accepted in {event_of(row)}. One "
            "of the two logs is wrong.",
            f"Ask its signer to whom the message was handed, and look whether the store of {peer} was put back to an "
            "older state. Otherwise whoever has the key of one of them wrote its log.",
        )


def two_histories(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each log of which another audit judged another one."""
    for row in summary["compared"]:
        if row["result"] == OTHER:
            yield say(
                "bad",
                f"The router {row['router']} has two histories, if {row['audit']} is right: that audit judged a log of "
                f"it with the digest {row['digest']} at event {row['event']}, and {row['path']} has another there.",
                "Ask its auditor for that log, and audit both together: then the event from which on they differ is "
                "told, and whoever has the key of that router signed both.",
            )


def compared(summary: Row) -> Iterator[Finding]:
    """Yield what else the comparison with other audits shows, for each of them."""
    said = {
        SAME: "the same logs as are given here, as far as both go, of",
        UNKNOWN: "logs that cannot be compared, as only folded footers are left here, of",
        ABSENT: "logs of which none is given here, of",
    }
    for audit in dict.fromkeys(row["audit"] for row in summary["compared"]):
        for result, words in said.items():
            routers = [row["router"] for row in summary["compared"] if (row["audit"], row["result"]) == (audit, result)]
            if routers:
                more = f" and {len(routers) - 3} more" if len(routers) > 3 else ""
                who = f"{many(len(routers), 'router')}: {', '.join(routers[:3])}{more}"
                yield say("info", f"The audit {audit} judged {words} {who}.")
        yield from _further(audit, [row for row in summary["compared"] if row["audit"] == audit])


def _further(audit: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield what is known of the logs that another audit judged further than those given here go."""
    routers = [
        f"{row['router']} (there to event {row['event']}, here to {row['last']})"
        for row in rows
        if row["result"] == BEYOND
    ]
    if routers:
        more = f" and {len(routers) - 3} more" if len(routers) > 3 else ""
        yield say(
            "info",
            f"The audit {audit} judged logs that go further than those given here, of {many(len(routers), 'router')}: "
            f"{', '.join(routers[:3])}{more}. Whether these logs are the beginning of those, or another history, "
            "cannot be told from here: a log does not hold what comes after its end.",
            f"Let whoever wrote {audit} compare with the summary.json of this audit (`--compare`): there the longer "
            "logs tell whether they hold what was given here. Or ask for those logs, and audit both together.",
        )


_ONE_OF_TWO = "One of the two signed what is not true"
CLAIMS: dict[str, tuple[str, str, str, str]] = {
    "never-linked": (
        "bad",
        "says that {count} reached {peer}, although its log, which is whole there, tells of no link with it that was "
        "up then, under that number and in the same run: the first is {id}, accepted in event {accepted}, ended "
        "in {event}",
        _WHOEVER,
        "Ask the recipient whether the messages are there, and publish again what is not.",
    ),
    "before-accepted": (
        "bad",
        "says that {count} reached {peer}, at a time that, by the monotonic clock of the same boot or by its place in "
        "the log, lies before their acceptance: the first is {id}, accepted in event {accepted}, ended in {event}",
        _WHOEVER,
        "Ask the recipient whether the messages are there, and publish again what is not.",
    ),
    "never-written": (
        "bad",
        "says that {count} reached {peer}, although its log, which is whole, does not tell that they were ever written "
        "to it: the first is {id}, accepted in event {accepted}, ended in {event}",
        _WHOEVER,
        "Ask the recipient whether the messages are there, and publish again what is not.",
    ),
    "answer-owed": (
        "bad",
        "says that it wrote {count} to {peer} and needed no answer, although their ttl asks for one: the first is "
        "{id}, accepted in event {accepted}, ended in {event}",
        _WHOEVER,
        "Ask the recipient whether the messages are there, and publish again what is not.",
    ),
    "not-owed": (
        "bad",
        "says that {count} ended for {peer}, although it did not name {peer} as a recipient when it accepted them: the "
        "first is {id}, accepted in event {accepted}, ended in {event}",
        _WHOEVER,
        "Ask its signer for whom the message was, and compare the log with those of its neighbours.",
    ),
    "unknown-reason": (
        "bad",
        "says that {count} ended for {peer} for a reason that neither the router nor its services have: the segment's "
        "header, which names them, does not name it. The first is {id}, accepted in event {accepted}, ended in {event}",
        _WHOEVER,
        "Ask the recipient whether the messages are there, and publish again what is not.",
    ),
    "no-such-end": (
        "bad",
        "says that {count} ended for {peer} by an event and for a reason that do not go together, as no router ends a "
        "message that it has accepted: the first is {id}, accepted in event {accepted}, ended in {event}",
        _WHOEVER,
        "Ask the recipient whether the messages are there, and publish again what is not.",
    ),
    "left-out": (
        "bad",
        "does not name {peer} as a recipient of {count}, although by its own log {peer} had joined the group (event "
        "{accepted}), and was connected or had only gone away: the first is {id}, accepted in {event}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "not-left": (
        "bad",
        "says that it dropped {count} because {peer} had left, although by its own log {peer} had joined the group "
        "(event {accepted}) and was in it from before their acceptance until then, and nobody had its queue dropped: "
        "the first is in {event}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "copied-by-nobody": (
        "bad",
        "says that {peer} sent {count} on as copies, which services alone send, although by its own log no service has "
        "that key: the first is {id}, accepted in {event}",
        _WHOEVER,
        "Publish again what its subscribers lack: a copy goes to one router alone.",
    ),
    "owed-wrongly": (
        "bad",
        "says that it accepted {count} which {peer} brought, and that they are owed to nobody, or, though they are for "
        "an app that was connected, to others, or as copies to an app: the first is {id}, accepted in {event}",
        _WHOEVER,
        "Ask who was to have them whether they are there, and publish again what is not.",
    ),
    "refused-there": (
        "bad",
        "says that {peer} refused {count} which {peer}, by its own log, had accepted from it before: the first is "
        "{id}, refused in {event}, accepted there in event {accepted}",
        _ONE_OF_TWO,
        "Ask the recipients behind it whether the messages are there, and publish again what is not.",
    ),
    "joined-there": (
        "bad",
        "says that {peer} refused {count} because nobody there had joined the group, although by the log of {peer} "
        "somebody had (event {accepted}) and was connected: the first was refused in {event}",
        _ONE_OF_TWO,
        "Compare what {peer} counts as refused, and publish again what is not there.",
    ),
    "no-history": (
        "bad",
        "says that it asked {peer} for {count} as history, which its pub/sub service alone is given, although by the "
        "log of {peer} that was no history: it came there after that, or long after somebody here had joined the "
        "group; the first was asked for in {event}, and accepted there in event {accepted}",
        _ONE_OF_TWO,
        "Publish again what the recipients here lack.",
    ),
    "not-full": (
        "bad",
        "says that it refused {count} because the queue of {peer} was full, although by its own log and limits no more "
        "than half of it was: the first in {event}, accepted in event {accepted}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "not-crowded": (
        "bad",
        "says that it refused {count} for {peer} because a share of the queue was full, although by its own log and "
        "limits no more than half was of what the group, and who brought the messages, may fill: the first in {event}, "
        "accepted in event {accepted}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "no-room": (
        "bad",
        "says that it left {peer} out of {count} that it had accepted, for want of room or as it was away, although a "
        "router decides so as it accepts a message, and accepts none of which it leaves everybody out: the first in "
        "{event}, accepted in event {accepted}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "not-away": (
        "bad",
        "says that it kept {count} for {peer} back because {peer} was away, although by its own log {peer} had joined "
        "the group (event {accepted}) and was connected: the first in {event}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "refused-unwritten": (
        "bad",
        "says that {peer} refused {count}, although its log, which is whole, does not tell that they were ever written "
        "to it: the first in {event}, accepted in event {accepted}",
        _WHOEVER,
        "Ask the recipient whether the messages are there, and publish again what is not.",
    ),
    "not-too-large": (
        "bad",
        "says that {count} for {peer} were longer than {peer} takes, although by its own log {peer} settled one as "
        "long over the same link: the first in {event}, accepted in event {accepted}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "may-wait": (
        "bad",
        "says that it left {peer} out of {count} as {peer} was away and their ttl was 0, although it is longer: the "
        "first in {event}, accepted in event {accepted}",
        _WHOEVER,
        "Publish again what that recipient lacks.",
    ),
    "other-time": (
        "bad",
        "tells {times} of a time that its monotonic clock contradicts, and of no `clock_step`: the first in {event}, "
        "after event {accepted}",
        _WHOEVER,
        "Do not rely on the times of this log; compare them with those of its neighbours.",
    ),
    "time-back": (
        "bad",
        "tells {times} of a monotonic time before that of the line before, in one run: the first in {event}, after "
        "event {accepted}",
        _WHOEVER,
        "Do not rely on the order and the times of this log; compare them with those of its neighbours.",
    ),
    "not-begun": (
        "bad",
        "ran {times} without a `start` in its log, which is whole: the first line of such a run is {event}",
        _WHOEVER,
        "Compare the times of its links with those of its neighbours: what it did before, and how that ended, may be "
        "left out.",
    ),
    "begun-twice": (
        "bad",
        "tells {times} of a `start` amid a run, which begins once and ends before another does: the first in {event}, "
        "though the run of event {accepted} goes on after it",
        _WHOEVER,
        "Compare the times of its links with those of its neighbours: a start ends what its log tells of them.",
    ),
    "heard-when-down": (
        "bad",
        "tells {times} that {peer} answered over a link, although by its log, which is whole there, none with it was "
        "up, in the same run, since event {accepted}: the first in {event}",
        _WHOEVER,
        "Ask {peer} what it was not given while its link is said to have been down.",
    ),
    "linked-there": (
        "bad",
        "tells that no link with {peer} was up since {event}, although {peer} by its own log had {answers} of it "
        "meanwhile, over a link that lasted: the first in event {accepted} there",
        _ONE_OF_TWO,
        "Ask {peer} what it was not given while its link is said to have been down.",
    ),
    "joined-here": (
        "bad",
        "turned {count} of {peer} away because nobody had joined the group, as both logs tell, although by its own log "
        "somebody had (event {accepted}) and was connected; that they were for that group, {peer} alone tells. Its "
        "first line of this is {event}; the log of {peer} tells of {id} first",
        "Either whoever has its key wrote what is not true, or {peer} tells another group of these messages",
        "Compare the group with that in the log of a third router that accepted them, and publish again what is not "
        "there.",
    ),
    "not-turned-away": (
        "warning",
        "says that {peer} refused {count}, of which {peer}, by its own log, turned fewer away: that they ended so "
        "is claimed, not borne out. The first is {id}, refused in {event}",
        _ONE_OF_TWO,
        "Do not count them as refused: ask the recipients behind {peer} whether they are there, and publish again what "
        "is not.",
    ),
    "not-handed": (
        "info",
        "says that it turned {count} of {peer} away, of which {peer}, whose log is whole, handed it fewer: what is "
        "counted as abuse of {peer} there is claimed, not borne out. The first line is {event}",
        _ONE_OF_TWO,
        "Do not block that neighbour for it.",
    ),
}
"""By claim: its level, what the router says, whose fault it is, and what to do."""


def _circles(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the claims of each circle of routers, in order."""
    left = {(row["id"], row["router"]): row for row in rows if row["claim"] == CIRCLE}
    while left:
        circle = [left.pop(next(iter(left)))]
        while after := left.pop((circle[-1]["id"], circle[-1]["peer"]), None):
            circle.append(after)
        yield circle


def claims_apart(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the claims that one finding is made of: those of each circle, then each other one."""
    yield from _circles(rows)
    yield from ([row] for row in rows if row["claim"] != CIRCLE)


def circles(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each circle of routers that say to have had messages from each other alone."""
    for circle in _circles(summary["claims"]):
        said = ", ".join(f"{row['router']} from {row['peer']} in {event_of(row)}" for row in circle)
        yield say(
            "bad",
            f"{len(circle)} routers say in a circle that each had {many(circle[0]['count'], 'message')} first from the "
            f"next: of {circle[0]['id']}, {said}. None had it from an app or a service, or from another router.",
            "At least one of them signed what is not true: ask the signer of the message to whom it was handed, and do "
            "not count what these routers tell of it as an arrival.",
        )


def claims(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each router and peer of which the router's log says what cannot be, and for each circle."""
    yield from circles(summary)
    for row in summary["claims"]:
        if row["claim"] == CIRCLE:
            continue
        accepted = f"{row['accepted_seq']}" + (f" ({row['accepted_file']})" if row["accepted_file"] else "")
        if row["claim"] in UNLIKE_FACTS and row["router"] == row["peer"]:
            yield say(
                "bad",
                f"The router {row['router']} tells another {UNLIKE_FACTS[row['claim']]} of "
                f"{many(row['count'], 'message')} where it sends copies on than where it accepted them, although it "
                f"belongs to the id: the first is {row['id']}, in {event_of(row)}, and accepted in event {accepted}.",
                f"{_WHOEVER}: compare both with the message itself.",
            )
            continue
        if row["claim"] in UNLIKE_FACTS:
            yield say(
                "bad",
                f"The routers {row['router']} and {row['peer']} tell another {UNLIKE_FACTS[row['claim']]} of "
                f"{many(row['count'], 'message')}, although it belongs to the id: the first is {row['id']}, accepted "
                f"by the former in {event_of(row)}, by the latter in event {accepted}.",
                f"{_ONE_OF_TWO}: compare both with the message itself, or with the log of a third router that accepted "
                "it.",
            )
            continue
        level, text, whose, what = CLAIMS[row["claim"]]
        names = {
            "count": many(row["count"], "message"),
            "answers": many(row["count"], "answer"),
            "times": many(row["count"], "time"),
            "peer": row["peer"],
            "id": row["id"] or "one outside its parcel",
            "accepted": accepted,
            "event": event_of(row),
        }
        whose, what = (part.format(**names) for part in (whose, what))
        yield say(level, f"The router {row['router']} {text.format(**names)}.", f"{whose}. {what}")


def unknown_reasons(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each router that ended messages for a reason that is none of a router, where no segment says
    which its services have; those of services have a colon."""
    counts: dict[str, Counter[str]] = {}
    told = {row["router"] for row in summary["claims"] if row["claim"] == UNNAMED}
    for row in summary["reasons"]:
        is_end = not row["at_door"] and row["event"] in ENDS and row["router"] not in told
        if is_end and not row["known"] and ":" not in row["reason"]:
            counts.setdefault(row["router"], Counter())[row["reason"]] += row["count"]
    for router, found in sorted(counts.items()):
        yield say(
            "warning",
            f"The router {router} ended {many(found.total(), 'message')} for a reason that this audit does not know: "
            f"{ranked(found)}.",
            "If that router is newer than this audit, audit with its version. Otherwise whoever has its key wrote that "
            "reason into the log: ask the recipients whether the messages are there, and publish again what is not.",
        )


def went_on(summary: Row) -> Iterator[Finding]:
    """Yield a finding for messages that expired on the way to a router that accepted them, or are said to have been
    refused by it."""
    for row in summary["went_on"]:
        whom = row["recipient"]
        how, why = (
            ("that expired", "had accepted them from there, and the acknowledgement was lost")
            if row["event"] == "expired"
            else ("refused", "accepted them from there")
        )
        yield say(
            "info",
            f"{many(row['count'], 'message')} {how} at {row['router']} for {whom} went on: the log of {whom} "
            f"tells that it {why}.",
        )


def barred(summary: Row) -> Iterator[Finding]:
    """Yield a finding for each router and peer that takes messages and passes none on, as the router says."""
    for row in summary["barred"]:
        proofs = [
            *([f"{many(row['lost'], 'message')} that it had acknowledged and did not hold"] if row["lost"] else []),
            *([f"{many(row['withheld'], 'message')} that it held and sent only when asked"] if row["withheld"] else []),
        ]
        by = f", by {' and '.join(proofs)}" if proofs else ""
        yield say(
            "warning",
            f"The router {row['router']} says that {row['peer']} takes messages of groups and passes none on{by}: "
            f"first in {event_of(row)}. It is sent none for a while.",
            f"Ask whoever runs {row['peer']}: its pub/sub service may be broken, or changed on purpose. `router why` "
            "of a message that the event names shows what its own log says.",
        )


def overdue(summary: Row) -> Iterator[Finding]:
    """Yield a finding for deliveries still pending a day or more after their time was over, where the log ends."""
    for row in summary["overdue"]:
        doubted = "It says that it doubts its clock, and while it does nothing expires. Set that clock, or let the node"
        other = (
            "That is so while a recipient holds what it was handed and does not settle it, and for ten minutes after a "
            "start of the router or a jump of its clock. Ask `router why` there; restart or remove that recipient."
        )
        yield say(
            "warning",
            f"The router {row['router']} still has {many(row['count'], 'delivery')} under way whose time was over more "
            f"than a day before its log ends. The first was accepted for {row['recipient']} in {event_of(row)}, with "
            f"the arrival number {row['parcel']}, and was due at {utc(row['due_ns'])}.",
            f"{doubted} find a neighbour whose clock agrees." if row["is_doubted"] else other,
        )


def pruned_open(summary: Row) -> Iterator[Finding]:
    """Yield a finding for messages without an end in pruned segments, of which only the footers' counts are left."""
    for row in summary["pruned_open"]:
        later = f", and what is kept tells of {row['strays']:,} more" if row["strays"] else ""
        text = (
            f"The footers of the pruned segments of the router {row['router']} (events 1 to {row['pruned_to']}) count "
            f"{many(row['accepted'], 'message')} accepted and {many(row['ended'], 'end')}{later}: at least "
            f"{many(row['open'], 'message')} had no end"
        )
        if row["is_over"]:
            yield say(
                "warning",
                f"{text}, and no message could wait for so long.",
                f"Audit a copy of the log from before it was pruned, if there is one. {_WHOEVER}, or a message was "
                "accepted for nobody.",
            )
        else:
            yield say("info", f"{text} yet, as far as is known: they may still wait.")
