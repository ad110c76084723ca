"""Decide which log files count and which events are missing: from the facts of all files to the evidence of an audit.

`judge` gets the facts of each file that an engine computes natively, and reads only files that are not as their router
signed them (and tails and pruned.jsonl). Then the engine reads the lines of `good` and `tail` files; their lines about
logs (`log_gap`, `link`) go into `witnessed`, which adds holes and changes no file's status. The same files in any order
give the same evidence. A hole lies after a line if the hole's `first_seq` is greater than the line's `seq`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from . import ed25519
from .chain import TWO_HISTORIES, Seal, events, fits, fork, missing
from .comparison import Head
from .footer import Verify
from .heads import Heads
from .lives import UNTRUE, Restore, leave_out_former
from .log_files import Content, FileFacts, Problem, Reading, Seen
from .schema import LEAP_MIN
from .tails import Tails

NO_LOG = "no event log here: no file events-*.jsonl, tail-*.jsonl or pruned.jsonl"
"""The text of the `Problem` in `listed` that an engine makes of a directory without candidates."""


REWRITTEN = "the log was rewritten since"
"""The last words of a hole's `why` if two neighbours contradict the files, or one of them where these contradict each
other as well."""

LIES = "that neighbour signed what is not true"
DISPUTED = f"either that log was rewritten since, or {LIES}"
"""The last words of a problem if a single neighbour contradicts the files, which are sound: they count, or any
neighbour could take a log out of an audit by one false line."""

BEGUN_ANEW = "its store was deleted and its log began anew at event 1"
"""The last words of a hole's `why` if a neighbour saw more of the log: an older log of the same key looks the same."""


class File(NamedTuple):
    """A file of the evidence. `status`: good, tail (the lines of these two count, no others), pruned, copy, former,
    bad, fork, foreign.

    `lines`: number of its events, or for pruned.jsonl of its footers. `router` is None and the span 0 to 0 if they are
    not known.
    """

    path: str
    router: str | None
    status: str
    first_seq: int
    last_seq: int
    lines: int


class Hole(NamedTuple):
    """Sequence numbers whose events are missing or cannot be believed."""

    router: str
    first_seq: int
    last_seq: int
    why: str


class Log(NamedTuple):
    """One router's log: `segments` sealed files that count, events `first` to `last` (0: none).

    `whole`: it has no hole. `pruned_to`: the last event of which only a footer is left (0: none). `problems`: those of
    its files, then those of its holes. `place`: the directory of its first signed file, or the path of an unsigned one.
    """

    router: str
    segments: int
    first: int
    last: int
    whole: bool
    pruned_to: int
    problems: tuple[str, ...]
    place: str = ""


class Gap(NamedTuple):
    """A `log_gap` line whose fields hold `missing`: the events `seq .. seq + n - 1` were never found."""

    router: str
    seq: int
    n: int


class Witness(NamedTuple):
    """A `link` line of `router`: its neighbour `peer` announced that its own log ends at `head_seq` with that
    digest. `told_ns`: when it last did so, by the clock of `router`; `seq`: that line; None if that is not known."""

    router: str
    peer: str
    head_seq: int
    head_digest: str
    told_ns: int | None = None
    seq: int | None = None

    @property
    def name(self) -> str:
        """Return `the neighbour KEY (by its event 7)`."""
        return f"the neighbour {self.router}" + ("" if self.seq is None else f" (by its event {self.seq})")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of an audit, each field in a fixed order.

    `seals`: what good segments and pruned footers cover; `authentic`: SHA-256 of the footer lines whose signature
    holds, to be passed as `known` next time; `elsewhere`: heads of logs that other audits judged; `restores`: where
    routers were restored from snapshots.
    """

    files: tuple[File, ...]
    holes: tuple[Hole, ...]
    problems: tuple[Problem, ...]
    logs: tuple[Log, ...]
    limits: tuple[str, ...]
    seals: tuple[Seal, ...]
    authentic: frozenset[str]
    elsewhere: tuple[Head, ...] = ()
    restores: tuple[Restore, ...] = ()

    @property
    def restored(self) -> frozenset[str]:
        """Routers that were restored, also if the file that says so is not given: only then numbers leap so far. What
        such a router accepts it may have accepted before, in the part that its log has lost."""
        leapt = {log.router for log in self.logs if log.last >= LEAP_MIN}
        return frozenset({*leapt, *(one.router for one in self.restores)})


def judge(
    facts: Iterable[FileFacts],
    content: Content,
    *,
    listed: Iterable[Problem] = (),
    known: Collection[str] = (),
    doubted: Collection[str] = (),
    verify: Verify = ed25519.verify,
) -> Evidence:
    """Return the evidence of the files themselves, before their lines are read.

    `content(path)`: all bytes of a file; `listed`: problems found while listing directories; `known`: `authentic` of
    earlier evidence; `doubted`: files whose lines an engine could not read, even though they are signed. Paths are
    compared as text: pass each file under one path.
    """
    reading = Reading(content, verify, known, doubted)
    for fact in sorted({fact.path: fact for fact in facts}.values()):
        reading.take(fact)
    reading.mark_copies()
    reading.name_routers()
    reading.leave_out_unreachable()
    by_router: dict[str, list[Seen]] = defaultdict(list)
    for seen in reading.files:
        if seen.router is not None:
            by_router[seen.router].append(seen)
    problems, holes, tails = [*listed, *reading.problems], list[Hole](), Tails(content)
    restores: list[Restore] = []
    for router, files in sorted(by_router.items()):
        restores += (restored := leave_out_former(files, content))
        problems += _leave_out_odd_tails(files)
        problems += tails.leave_out(files)
        forked = fork([seal for seen in files for seal in seen.seals], tails.fork(files))
        if forked:
            problems += [Problem(path, 1, text) for path, text in forked[1]]
        holes += _holes(router, files, forked[0] if forked else None, restored)
    found = replace(_in_order(reading, problems, by_router), restores=tuple(restores))
    return _told(found, holes, {}, {})


def _in_order(reading: Reading, problems: Iterable[Problem], routers: Iterable[str]) -> Evidence:
    """Return the evidence that the files give, each field in its fixed order; holes, logs and limits are still to be
    filled in."""
    found = (File(one.path, one.router, one.status, one.first, one.last, one.lines) for one in reading.files)
    seals = (seal for one in reading.files for seal in one.seals)
    logs = (Log(router, 0, 0, 0, False, 0, ()) for router in sorted(routers))
    return Evidence(
        tuple(sorted(found, key=lambda file: (file.path, file.router or ""))),
        (),
        tuple(sorted(set(problems))),
        tuple(logs),
        (),
        tuple(sorted(seals, key=lambda seal: (seal.router, seal.first_seq, seal.last_seq, seal.path))),
        frozenset(reading.authentic),
    )


def witnessed(evidence: Evidence, gaps: Iterable[Gap], witnesses: Iterable[Witness]) -> Evidence:
    """Return the evidence with what the lines of good files and tails add: gaps that a log records, heads that
    neighbours saw.

    `evidence` is the result of `judge`.
    """
    holes = [*evidence.holes, *(_gone(gap, evidence.restores) for gap in gaps)]
    problems: list[Problem] = []
    vouched: dict[str, int] = {}
    reached: dict[str, int] = {}
    heads = _heads(evidence.seals, witnesses)
    for log in evidence.logs:
        beyond: list[Witness] = []
        others: list[tuple[Witness, Seal, int]] = []
        ours = Heads(seal for seal in evidence.seals if seal.router == log.router)
        before = len(holes)
        seen = sorted(heads.pop(log.router, ()), key=lambda one: (one.head_seq, one.head_digest, one.router))
        holes += _denied([restore for restore in evidence.restores if restore.router == log.router], seen)
        for one in seen:
            if ours.have(one.head_seq, one.head_digest):
                vouched[log.router] = one.head_seq
            elif seal := ours.contradicting(one.head_seq):
                others.append((one, seal, vouched.get(log.router, 0) + 1))
            elif one.head_seq > log.last:
                beyond.append(one)
        is_disputed = _is_alone(log.router, others, evidence.files)
        for one, seal, first_seq in others:
            text = _contradiction(one, seal, DISPUTED if is_disputed else REWRITTEN)
            problems.append(Problem(seal.path, 0, f"of the log of {log.router}, {text}"))
            if not is_disputed:
                holes.append(Hole(log.router, first_seq, one.head_seq, text))
        if beyond:
            holes.append(_cut_off(log, beyond))
        believed = [one for one in seen if not is_disputed or one not in {other for other, *_ in others}]
        if believed:
            reached[log.router] = 0 if len(holes) > before else believed[-1].head_seq
    known = replace(evidence, problems=tuple(sorted({*evidence.problems, *problems})))
    return _told(known, holes, vouched, reached, sorted(heads))


def _heads(seals: Iterable[Seal], witnesses: Iterable[Witness]) -> dict[str, set[Witness]]:
    """Return what routers say of the logs of others, by the first key of these: neighbours name the present one."""
    heads: dict[str, set[Witness]] = defaultdict(set)
    first = {key: seal.router for seal in seals for key in seal.followers}
    for one in witnesses:
        peer = first.get(one.peer, one.peer)
        if one.head_seq > 0 and one.router != peer:
            heads[peer].add(one)
    return heads


def _contradiction(one: Witness, seal: Seal, so: str) -> str:
    """Return what a neighbour says against a seal, and what follows from that."""
    said = f"{one.name} was told that it ends at {one.head_seq} with the digest {one.head_digest}"
    return f"{said}, which is not so in {seal.path}: {so}"


def _cut_off(log: Log, beyond: Sequence[Witness]) -> Hole:
    """Return the hole of what lies behind the files, as neighbours say, the one that saw most of it last."""
    said = f"{beyond[-1].name} was told that this log reaches to {beyond[-1].head_seq}"
    lies = f"{LIES}, or " if len({one.router for one in beyond}) == 1 else ""
    text = f"{said}: its end was cut off, or is not among the files, or {lies}{BEGUN_ANEW}"
    return Hole(log.router, log.last + 1, beyond[-1].head_seq, text)


def _is_alone(router: str, others: Iterable[tuple[Witness, Seal, int]], files: Iterable[File]) -> bool:
    """Whether a single neighbour contradicts a log (`others`: what they say), and none of its files do."""
    is_spoilt = any(file.router == router and file.status in ("bad", "fork") for file in files)
    return not is_spoilt and len({one.router for one, *_ in others}) == 1


def _gone(gap: Gap, restores: Iterable[Restore]) -> Hole:
    """Return the hole of a gap that a router wrote down."""
    first, last = gap.seq, gap.seq + gap.n - 1
    why = "its router found them missing when it sealed its log, and wrote down so"
    for one in restores:
        if one.router == gap.router and one.skips(first, last):
            return Hole(gap.router, one.after_seq + 1, one.life_seq - 1, one.why)
    return Hole(gap.router, first, last, why)


def _denied(restores: Sequence[Restore], seen: Iterable[Witness]) -> Iterable[Hole]:
    """Yield a hole for each restore that a neighbour contradicts."""
    for restore in restores:
        for one in seen:
            told_s = None if one.told_ns is None else one.told_ns // 10**9
            if told_s is not None and (when := restore.denied(one.head_seq, told_s)):
                said = f"{one.name} was told {when}, that this log reaches to {one.head_seq}"
                yield Hole(restore.router, restore.after_seq + 1, one.head_seq, f"{said}: {UNTRUE}")
                break


def _leave_out_odd_tails(files: list[Seen]) -> list[Problem]:
    """Mark tails that do not follow their router's seals as bad, because they are unsigned."""
    problems = []
    seals = [seal for seen in files for seal in seen.seals]
    for seen in files:
        if seen.status == "tail" and seen.predecessor and not fits(seen.predecessor, seen.first, seals):
            seen.status = "bad"
            text = f"follows a segment with the digest {seen.predecessor}; before {seen.first} stands another"
            problems.append(Problem(seen.path, 1, f"{text}: {TWO_HISTORIES}"))
    return problems


def first_holes(evidence: Evidence) -> dict[str, int]:
    """Return the first event of the first hole of each log that has one, by router."""
    found: dict[str, int] = {}
    for hole in evidence.holes:
        found[hole.router] = min(hole.first_seq, found.get(hole.router, hole.first_seq))
    return found


def unbroken(evidence: Evidence) -> frozenset[str]:
    """Return the routers of whose logs no event is missing before the last one that is there. What lies behind it may
    be missing, if only on a neighbour's word."""
    begins = first_holes(evidence)
    return frozenset(log.router for log in evidence.logs if begins.get(log.router, log.last + 1) > log.last)


def _holes(router: str, files: list[Seen], forked_at: int | None, restores: Sequence[Restore]) -> list[Hole]:
    """Return the parts of the log, from event 1 on, that are not covered. Mark files from the fork on as forked."""
    end = max((seen.last for seen in files if seen.is_file), default=0)
    holes = []
    if forked_at is not None:
        holes.append(Hole(router, forked_at, end, f"from {forked_at} on the files tell two histories, and none counts"))
        end = forked_at - 1
        for seen in files:
            if seen.status in ("good", "tail", "copy") and seen.last >= forked_at:
                seen.status = "fork"
    kept = [(seen.first, seen.last) for seen in files if seen.status in ("good", "tail") and seen.first <= seen.last]
    pruned = [(seal.first_seq, seal.last_seq) for seen in files for seal in seen.seals if not seal.is_kept]
    oldest = min(kept, default=(end + 1, 0))[0]
    for first, last in missing(1, end, kept):
        for hole in missing(first, last, pruned):
            between = (one.why for one in restores if one.skips(*hole))
            holes.append(Hole(router, *hole, next(between, None) or _why(files, *hole)))
        for hole in missing(max(first, oldest), last, missing(max(first, oldest), last, pruned)):
            holes.append(Hole(router, *hole, "only footers of these are left, although older events are kept"))
    return holes


def _why(files: list[Seen], first: int, last: int) -> str:
    there = [one.path for one in files if one.status in ("bad", "foreign") and one.first <= last and one.last >= first]
    if not there:
        return "no file given holds them"
    more = f" and {len(there) - 3} more" if len(there) > 3 else ""
    return f"{', '.join(there[:3])}{more} cannot be believed, and no other file holds them"


def _told(
    evidence: Evidence,
    holes: Iterable[Hole],
    vouched: Mapping[str, int],
    seen: Mapping[str, int],
    absent: Iterable[str] = (),
) -> Evidence:
    """Return the evidence with these holes, and with matching logs and limits.

    `vouched`: router -> last event of its log for which neighbours vouch; `seen`: router -> last event that they saw, 0
    if they saw events that are not in the log; `absent`: neighbours without a log here.
    """
    found = tuple(sorted(set(holes)))
    logs = tuple(_log(log.router, evidence, found) for log in evidence.logs)
    return replace(evidence, holes=found, logs=logs, limits=_limits(evidence.files, logs, vouched, seen, absent))


def _log(router: str, evidence: Evidence, holes: Iterable[Hole]) -> Log:
    files = [file for file in evidence.files if file.router == router]
    kept = [file for file in files if file.status in ("good", "tail") and file.last_seq >= file.first_seq]
    first = min((file.first_seq for file in kept), default=0)
    pruned = [seal.last_seq for seal in evidence.seals if seal.router == router and not seal.is_kept]
    pruned_to = max((last if not first else min(last, first - 1) for last in pruned), default=0)
    last = max([pruned_to, *(file.last_seq for file in kept)])
    paths = {file.path for file in files}
    own = [hole for hole in holes if hole.router == router]
    texts = [str(problem) for problem in evidence.problems if problem.path in paths]
    for hole in own:
        are = "is" if hole.first_seq == hole.last_seq else "are"
        texts.append(f"{events(hole.first_seq, hole.last_seq)} {are} not known: {hole.why}")
    segments = sum(file.status == "good" for file in files)
    signed = [file.path.rpartition("/")[0] or "." for file in files if file.status in ("good", "pruned")]
    place = (signed or [file.path for file in files] or [""])[0]
    return Log(router, segments, first, last, not own, pruned_to, tuple(texts), place)


def _limits(
    files: Iterable[File],
    logs: Iterable[Log],
    vouched: Mapping[str, int],
    seen: Mapping[str, int],
    absent: Iterable[str],
) -> tuple[str, ...]:
    said = [
        "What a router never wrote down cannot be seen in its own log; messages that it handed to another router are "
        "followed there if that router's log is given. Two routers that lie alike can invent a delivery, and a router "
        "one to an app of its own: only that recipient could tell. What else no log refutes is in docs/claims.md, "
        'claim by claim and under "Reasons that a log cannot refute".'
    ]
    alone = ", ".join(log.router for log in logs if log.router not in seen)
    if alone:
        text = (
            "A log whose end was cut off looks like one that ends there. Only a neighbour's log can show it, and none"
        )
        said.append(f"{text} of those given knows how far this log reached: {alone}.")
    for log in logs:
        if log.router in vouched:
            text = f"Neighbours vouch for the log of {log.router} up to event {vouched[log.router]}"
            ends = f"it ends at {log.last}, and whether more was cut off behind that is not knowable"
            said.append(
                f"{text}; {ends if seen[log.router] else 'what they saw besides is not in it (see its holes)'}."
            )
        elif (seq := seen.get(log.router)) == 0:
            text = f"What neighbours saw of the log of {log.router} is not what was given (see its holes)"
            said.append(f"{text}: nobody vouches for where it ends.")
        elif seq:
            text = f"A neighbour saw the log of {log.router} reach to event {seq}, and what is left of it does not show"
            said.append(f"{text} whether that was the same log.")
    if names := ", ".join(absent):
        said.append(f"Of these routers, neighbours of the others, no log was given: {names}.")
    if any(file.status == "tail" for file in files):
        said.append("The lines of tail files are not sealed yet: no signature vouches for them.")
    if names := ", ".join(one.path for one in files if one.status in ("bad", "foreign") and one.router is None):
        said.append(f"Whose events these files held is not knowable: {names}.")
    return tuple(said)
