"""Whether all is well: what an operator should look at, the worst first, each with what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from router.core.log.alarms import FILLING
from router.core.wire.reasons import by_word
from router.core.wire.text import counted, span_text

from .facts import BLOCKED, CONNECTED, LOCAL, STRANGER, NodeFacts, PeerRow, WaitingRow, address
from .forecasts import Forecast

_ONE_WORD = re.compile(r"[\w.@%+=:,-]+", re.ASCII)
"""A name that can be typed into a shell as it is."""
GOOD, ATTENTION, BAD = "good", "attention", "bad"
LEVELS = {GOOD: "Nothing to do", ATTENTION: "Look here", BAD: "Act now"}
NEARLY_FULL = 0.9
"""The share of its limit from which a queue is nearly full."""
SOON_S = 3 * 3600.0
"""Seconds ahead within which a queue that will be full is something to look at."""
PRESENT_S = 3600.0
"""Seconds for which the last problem of a service that runs again is something to look at."""
SLOW_S = 10.0
"""Seconds after which a recipient that is connected and confirms nothing is what messages wait for."""
LATELY_S = 600.0
"""Seconds within which refusals count as present ones."""
REFUSED_LEAST, REFUSED_SHARE = 20, 0.05
"""Refusals lately, and their share of all that came, from which they are something to look at."""
MILD = ("no-uplink", "doubted-clock")
"""Reasons why a node is not ready with which messages are still taken."""


class Notice(NamedTuple):
    """A sentence about what is not well, and what to do."""

    level: str
    text: str
    remedy: str = ""


class Situation(NamedTuple):
    """What the notices are made of. `ended`: messages that ended undelivered lately, by event and reason; `accepted`:
    those accepted in the same time."""

    facts: NodeFacts
    forecasts: Mapping[str, Forecast]
    ended: Counter[tuple[str, str]]
    accepted: int


def notices(seen: Situation) -> list[Notice]:
    """Return what is not well, the worst first."""
    found = [one for rule in _RULES for one in rule(seen)]
    return sorted(found, key=lambda one: one.level != BAD)


def headline(seen: Situation, found: list[Notice]) -> Notice:
    """Return the one sentence: the worst finding, or that all is well."""
    if found:
        return found[0]
    routers = [one for one in seen.facts.peers if one.state == CONNECTED and one.standing not in (LOCAL, STRANGER)]
    here = f"{counted(len(routers), 'neighbour')} {'is' if len(routers) == 1 else 'are'} connected"
    waits = "what waits is for those who are away" if seen.facts.queues else "nothing waits"
    return Notice(GOOD, "All is well.", f"{here if routers else 'The node runs'}; {waits}.")


def _unanswered(seen: Situation) -> Iterator[Notice]:
    if seen.facts.problem:
        remedy = "What is below is what was known last. `router doctor` says more."
        yield Notice(BAD, ended(f"The router does not answer: {seen.facts.problem}"), remedy)


def _unready(seen: Situation) -> Iterator[Notice]:
    for reason, text in seen.facts.metrics.unready:
        said, _, remedy = text.partition("; ")
        yield Notice(ATTENTION if reason in MILD else BAD, sentence(said), sentence(remedy))


def _copied(seen: Situation) -> Iterator[Notice]:
    """Yield a notice on a copy of this home that has stopped; the one that has stopped is not ready itself."""
    copy = seen.facts.status.copy
    if copy is not None and not copy.barred:
        said, _, remedy = copy.problem.partition("; ")
        yield Notice(ATTENTION, sentence(said), sentence(remedy))


def _superseded(seen: Situation) -> Iterator[Notice]:
    """Yield a notice if neighbours refuse this node's key, as another one has its place."""
    if (found := seen.facts.status.superseded) is not None:
        said, _, remedy = found.problem.partition("; ")
        yield Notice(BAD, sentence(said), sentence(remedy))


def _alarms(seen: Situation) -> Iterator[Notice]:
    """Yield a notice on each alarm of the node about itself, but for queues of which a notice tells more."""
    told = {one.recipient for one in seen.facts.queues if one.share > NEARLY_FULL or _fills_soon(seen, one)}
    for one in seen.facts.status.alarms:
        if one.alarm == FILLING and one.peer in told:
            continue
        said, _, remedy = one.text.partition("; ")
        yield Notice(BAD if one.level == "bad" else ATTENTION, sentence(said), sentence(remedy))


def _services(seen: Situation) -> Iterator[Notice]:
    """Yield a notice on each service that is not well; none where the node has stopped with all of them, as a copy."""
    copy = seen.facts.status.copy
    if copy is not None and copy.barred:
        return
    for one in seen.facts.status.services:
        if one.state != "running":
            said = f"The service {one.name} does not run{_because(one.problem)}"
            yield Notice(BAD, sentence(said), "`router doctor` and the node's log say more.")
        elif one.problem and (one.problem_age_s or 0) < PRESENT_S:
            yield Notice(ATTENTION, sentence(f"The service {one.name}: {one.problem}"), "")


def _full(seen: Situation) -> Iterator[Notice]:
    held = seen.facts.metrics.queue
    if held.share > NEARLY_FULL:
        drop = "`router queue drop NAME` clears the queue of one who is gone"
        remedy = f"When that is all of it, new messages are refused. {drop}."
        yield Notice(BAD, f"This node holds {100 * held.share:.0f} % of all that may wait.", remedy)
    for one in seen.facts.queues:
        if one.share > NEARLY_FULL:
            yield Notice(BAD, f"The queue of {one.title} is {100 * one.share:.0f} % full.", _of_full(seen, one))


def _filling(seen: Situation) -> Iterator[Notice]:
    for one in seen.facts.queues:
        if one.share <= NEARLY_FULL and _fills_soon(seen, one):
            full_s = seen.forecasts[one.recipient].full_s or 0.0
            said = f"The queue of {one.title} will be full in about {roughly(full_s)}."
            yield Notice(ATTENTION, said, _of_full(seen, one))


def _fills_soon(seen: Situation, queue: WaitingRow) -> bool:
    full_s = seen.forecasts.get(queue.recipient, Forecast()).full_s
    return full_s is not None and full_s <= SOON_S


def _of_full(seen: Situation, queue: WaitingRow) -> str:
    why = waits_because(seen.facts, queue, seen.forecasts.get(queue.recipient, Forecast()))
    whose = queue.name if _ONE_WORD.fullmatch(queue.name) else address(queue.recipient)
    drop = f"`router queue drop {whose}` clears the queue if nobody is to have it any more."
    return f"When it is full, new messages for {queue.title} are refused. {why} {drop}"


def _neighbours(seen: Situation) -> Iterator[Notice]:
    for one in seen.facts.peers:
        if one.problem and one.state != BLOCKED and one.standing != STRANGER:
            said = ended(f"{one.title} is {'connected, but' if one.state == CONNECTED else 'away:'} {one.problem}")
            yield Notice(ATTENTION, said, "`router doctor` says what is wrong on the way, and how to mend it.")


def _refusals(seen: Situation) -> Iterator[Notice]:
    refused = Counter({reason: n for (event, reason), n in seen.ended.items() if event == "refused"})
    total = refused.total()
    if total >= REFUSED_LEAST and total > REFUSED_SHARE * (total + seen.accepted):
        (reason, most), *_ = refused.most_common(1)
        said = f"{counted(total, 'message')} were refused in the last {LATELY_S / 60:.0f} minutes, {most:,} of them as"
        known = by_word(reason)
        yield Notice(ATTENTION, f"{said} {reason}.", known.sentence if known else "`router why ID` tells of each.")


_RULES: tuple[Callable[[Situation], Iterator[Notice]], ...] = (
    _unanswered, _unready, _copied, _superseded, _alarms, _full, _services, _filling, _neighbours, _refusals,
)  # fmt: skip


def waits_because(facts: NodeFacts, queue: WaitingRow, forecast: Forecast) -> str:
    """Return why messages wait for a recipient, as a sentence."""
    peer = facts.peer_of.get(queue.recipient)
    if peer is None:
        return f"{queue.title} is not connected."
    if peer.state == BLOCKED:
        return f"{queue.title} is blocked."
    if peer.state == CONNECTED:
        if forecast.per_s < 0 or not peer.in_flight or (queue.oldest_s or 0) < SLOW_S:
            return f"{queue.title} is connected, and is handed what waits."
        return f"{queue.title} is connected, but has not confirmed {counted(peer.in_flight, 'message')} handed to it."
    return ended(f"{queue.title} is away{_since(peer)}{_because(peer.problem or '')}")


def _since(peer: PeerRow) -> str:
    return f" for {roughly(peer.last_contact_s)}" if peer.last_contact_s else ""


def _because(problem: str) -> str:
    return f": {problem.rstrip('.')}" if problem else ""


def sentence(text: str) -> str:
    """Return the text as a sentence."""
    return ended(f"{text[:1].upper()}{text[1:]}")


def ended(text: str) -> str:
    """Return the text with a full stop, unless it is empty or a question."""
    return text if text.endswith("?") or not text else f"{text.rstrip('.')}."


def roughly(seconds: float) -> str:
    """Return a length of time as one says it: 2 min, not 117.3 s."""
    return span_text(round(seconds) if seconds < 60 else 60 * round(seconds / 60))
