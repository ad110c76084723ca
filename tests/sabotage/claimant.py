"""Sabotage by a router itself: single lines that contradict the rest of its own log, or another router's.

Each lie changes the lines of one log; several of them fit into one log, as they change different messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from msgspec.structs import replace

from router.core.log.line import Line, decode_line, encode_lines
from router.core.log.segment import sign
from sabotage.logs import Rows, segments
from sabotage.scene import Scene
from spark_analytics.judgement.claim_sql import BACK_NS
from spark_analytics.judgement.refusal_sql import FULL, FULL_GROUP, NOT_KEPT, OFFLINE, TOO_LARGE

HOUR_NS = 3600 * 10**9
LOOK_NS = 60 * 10**9
ENDS = ("delivered", "acked")
NOBODY = "ab" * 32
FAR = 10**9
"""The number of a link that no sample reaches."""
RESERVED = 8
"""So many messages that arrived are changed by lies that name them by their number."""
Lie = Callable[[str, Rows], tuple[Rows, str]]
"""Changes the lines of a router's log, and returns words that the audit must say."""


class CannotLie(Exception):
    """The log has no lines of the kind that a lie needs."""


def in_a_log(*lies: Lie, level: str = "bad", names_reasons: bool = True) -> Callable[[Scene], None]:
    """Return the sabotage that tells these lies in the log of a victim. `level`: of the finding; `names_reasons`: as of
    `seal_again`."""

    def sabotage(scene: Scene) -> None:
        scene.forget_witnesses()
        unable: list[str] = []
        while True:
            victim = scene.victim()
            says: list[str] = []

            def change(rows: Rows, victim: str = victim, says: list[str] = says) -> Rows:
                for lie in lies:
                    rows, said = lie(victim, rows)
                    says.append(said)
                return rows

            try:
                scene.again(victim, change, names_reasons=names_reasons)
            except CannotLie:
                unable.append(victim)
                continue
            scene.spare(unable)
            scene.tell(level, *says)
            return

    sabotage.__name__, sabotage.__doc__ = lies[0].__name__.removeprefix("_"), lies[0].__doc__
    return sabotage


def _arrived(rows: Rows) -> Iterator[tuple[Line, Line]]:
    """Yield lines about one multicast that was accepted, and reached a recipient in the same boot, each with that
    end; but those of which another lie gives the link."""
    taken: set[int | None] = set()
    lines = {row.first: row for row in rows if row.event == "accepted" and row.n == 1 and row.kind == "multicast"}
    for row in rows:
        line = lines.get(row.parcel) if row.event in ENDS else None
        if line is not None and line.first not in taken and row.boot == line.boot and row.link != FAR:
            taken.add(line.first)
            yield line, row


def _nth(rows: Rows, number: int) -> tuple[Line, Line]:
    """Return one of the messages that arrived, and its end."""
    found = [*_arrived(rows)]
    if number >= len(found):
        raise CannotLie
    return found[number]


def _is_of(row: Line, line: Line, recipient: str | None) -> bool:
    """Whether a line is about a recipient of an accepted line."""
    return row.parcel == line.first and row.recipient == recipient


def _never_written(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Leave out that a message was written to the recipient to which it was delivered."""
    line, end = _nth(rows, 0)
    said = f"The router {victim} says that 1 message reached {end.recipient}, although its log"
    return [row for row in rows if not (row.event == "forwarded" and _is_of(row, line, end.recipient))], said


def _before_its_place(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Write an end into the log before the acceptance."""
    line, end = _nth(rows, 1)
    said = f"says that 1 message reached {end.recipient}, at a time that, by"
    rest = [row for row in rows if row is not end]
    at = next(number for number, row in enumerate(rest) if row is line)
    return [*rest[:at], replace(end, t=line.t, mono=line.mono), *rest[at:]], said


def _present(rows: Rows) -> Iterator[tuple[Line, str]]:
    """Yield accepted multicasts, each with a subscriber among its recipients that has joined and is connected."""
    joined: set[tuple[object, object]] = set()
    linked: set[object] = set()
    for line in rows:
        fields = line.fields or {}
        match line.event:
            case "start":
                linked.clear()
            case "join":
                joined.add((fields["subscriber"], fields["group"]))
            case "leave":
                joined.discard((fields.get("subscriber"), fields.get("group")))
            case "link_up" if fields.get("standing") == "local":
                linked.add(fields["peer"])
            case "link_down":
                linked.discard(fields.get("peer"))
            case "accepted" if line.kind == "multicast" and line.n == 1 and len(line.recipients or ()) > 1:
                able = [one for one in line.recipients or () if one in linked and (one, line.group) in joined]
                if able:
                    yield line, able[0]


def _left_of(rows: Rows) -> tuple[Line, str]:
    """Return the first of them."""
    for found in _present(rows):
        return found
    raise CannotLie


def _left_out(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Leave a subscriber that has joined and is connected out of the recipients."""
    line, able = _left_of(rows)
    said = f"The router {victim} does not name {able} as a recipient of 1 message, although"
    others = [one for one in line.recipients or () if one != able]
    kept = [row for row in rows if not _is_of(row, line, able)]
    return [replace(row, recipients=others) if row is line else row for row in kept], said


def _given_to_a_service(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Name a service as the only recipient of what an app published, as if it had been asked for as history."""
    return _owed_to_a_service(victim, rows, is_inside=True)


def _given_as_history(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Name a service as the only recipient of what another router brought, of which no history was asked for."""
    return _owed_to_a_service(victim, rows, is_inside=False)


def _asked_of_nobody(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Name a service as the only recipient of what another router brought, and say that somebody was asked for it as
    history with whom there never was a link."""
    rows, said = _given_as_history(victim, rows)
    at, line = next((at, row) for at, row in enumerate(rows) if row.recipients == [NOBODY])
    asked = Line(1, "history_asked", 0, 1, line.t, line.mono, line.router, line.boot, signer=line.router, count=1)
    fields = {"service": "router", "router": NOBODY, "group": line.group}
    return [*rows[:at], replace(asked, ids=line.ids, fields=fields), *rows[at:]], said


def _owed_to_a_service(victim: str, rows: Rows, *, is_inside: bool) -> tuple[Rows, str]:
    inside = {(row.fields or {}).get("peer") for row in rows if (row.fields or {}).get("standing") == "local"}
    line, able = _left_of([row for row in rows if row.event != "accepted" or (row.peer in inside) is is_inside])
    kept = [replace(row, recipient=NOBODY) if _is_of(row, line, able) else row for row in rows]
    others = [row for row in kept if row.parcel != line.first or row.recipient in (None, NOBODY)]
    end = Line(1, "join", 0, 1, rows[-1].t, rows[-1].mono, rows[-1].router, rows[-1].boot, count=1)
    join = replace(end, fields={"subscriber": NOBODY, "group": line.group, "service": "pubsub"})
    said = f"The router {victim} does not name {able} as a recipient of 1 message, although"
    return [*(replace(row, recipients=[NOBODY]) if row is line else row for row in others), join], said


def _left_out_and_excused(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Leave a subscriber out, and write at the log's end what would excuse it of later messages: its right to join is
    revoked, and leaves of strangers are counted."""
    rows, said = _left_out(victim, rows)
    last, whom = rows[-1], said.split()[6]
    end = Line(1, "config", 0, 1, last.t, last.mono, last.router, last.boot, count=1)
    config = replace(end, fields={"peer": whom, "revoked": "join"})
    return [*rows, config, replace(end, event="leave", fields={"standing": "stranger", "times": 1})], said


def _not_left(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was dropped because its recipient had left, which had not."""
    moves = [at for at, row in enumerate(rows) if row.event in ("start", "leave", "link_down", "config")]
    for line, able in [*_present(rows)][::-1]:
        ends = [at for at, row in enumerate(rows) if row.event == "delivered" and _is_of(row, line, able)]
        if len(ends) == 1 and not any(line.seq <= rows[at].seq <= rows[ends[0]].seq for at in moves):
            said = f"The router {victim} says that it dropped 1 message because {able} had left, although"
            end = replace(rows[ends[0]], event="dropped", reason="left", duration_ns=0)
            return [*rows[: ends[0]], end, *rows[ends[0] + 1 :]], said
    raise CannotLie


def _copied_by_nobody(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a key that is no service sent a message on as a copy, which is owed to nobody."""
    old = next((row for row in rows if row.event == "accepted" and row.kind == "multicast"), None)
    if old is None:
        raise CannotLie
    copy = replace(
        old, n=1, count=1, first=FAR, ids=f"{FAR:064x}", sizes=[9], ttls=[60], expiries=[(old.expiries or [0])[0]],
        recipients=[], kind="copy", peer=NOBODY,
    )  # fmt: skip
    at = next(number for number, row in enumerate(rows) if row is old)
    said = f"The router {victim} says that {NOBODY} sent 1 message on as copies, which services alone send"
    return [*rows[: at + 1], copy, *rows[at + 1 :]], said


def _one_of_several(rows: Rows, number: int) -> tuple[Line, Line]:
    """Return one of the messages that arrived and had several recipients, and its end."""
    found = [(line, end) for line, end in list(_arrived(rows))[RESERVED:] if len(line.recipients or ()) > 1]
    if number >= len(found):
        raise CannotLie
    return found[number]


def _out_at_once(rows: Rows, line: Line, end: Line, reason: str) -> Rows:
    """Say that a recipient was left out of a message as it was accepted."""
    out = replace(end, event="refused", reason=reason, t=line.t, mono=line.mono, attempt=0, depth=0, duration_ns=0)
    kept = [row for row in rows if not _is_of(row, line, end.recipient)]
    at = next(number for number, row in enumerate(kept) if row is line)
    return [*kept[: at + 1], out, *kept[at + 1 :]]


def _not_full(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was refused since a queue was full in which hardly anything was."""
    line, end = _one_of_several(rows, 0)
    said = f"says that it refused 1 message because the queue of {end.recipient} was full, although"
    return _out_at_once(rows, line, end, FULL), said


def _not_crowded(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say so of the share of a group, in which hardly anything was."""
    if any(row.event == "renewal" for row in rows):
        raise CannotLie
    line, end = _one_of_several(rows, 1)
    said = f"says that it refused 1 message for {end.recipient} because a share of the queue was full, although"
    return _out_at_once(rows, line, end, FULL_GROUP), said


def _all_out(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that the one recipient of a message was left out as it was accepted."""
    line, end = _nth(rows, 6)
    if len(line.recipients or ()) > 1:
        raise CannotLie
    said = f"says that it left {end.recipient} out of 1 message that it had accepted, for want of room or as it was"
    return _out_at_once(rows, line, end, OFFLINE), said


def _not_too_large(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was too large for a link over which one as large was settled."""
    pairs: dict[tuple[object, ...], list[tuple[Line, Line]]] = {}
    for line, end in list(_arrived(rows))[RESERVED:]:
        pairs.setdefault((end.boot, end.link, end.recipient), []).append((line, end))
    able = next((sorted(own, key=lambda one: sum(one[0].sizes or ())) for own in pairs.values() if len(own) > 1), None)
    if able is None:
        raise CannotLie
    line, end = able[0]
    said = f"says that 1 message for {end.recipient} were longer than {end.recipient} takes, although by its own log"
    refused = replace(end, event="refused", reason=TOO_LARGE, duration_ns=0)
    others = [row for row in rows if row is end or not _is_of(row, line, end.recipient)]
    return [refused if row is end else row for row in others], said


def _may_wait(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a recipient was left out of a message as it was away, as if the message could not wait."""
    line, end = _one_of_several(rows, 0)
    if not all(line.ttls or ()):
        raise CannotLie
    said = f"says that it left {end.recipient} out of 1 message as {end.recipient} was away and their ttl was 0"
    return _out_at_once(rows, line, end, OFFLINE), said


def _not_away(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a subscriber that had joined and was connected was away."""
    line, able = _left_of(rows)
    said = f"says that it kept 1 message for {able} back because {able} was away, although by its own log"
    end = next(row for row in rows if _is_of(row, line, able))
    return _out_at_once(rows, line, end, NOT_KEPT), said


def _refused_unwritten(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a recipient refused a message that was never written to it."""
    line, end = _nth(rows, 7)
    said = f"says that {end.recipient} refused 1 message, although its log, which is whole, does not tell that"
    refused = replace(end, event="refused", reason="peer-refused", duration_ns=0)
    others = [row for row in rows if row is end or not _is_of(row, line, end.recipient)]
    return [refused if row is end else row for row in others], said


def _other_time(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Date a line an hour back, without a jump of the clock."""
    ends = {row.boot: row.mono or 0 for row in rows}
    steps = [row.mono or 0 for row in rows if row.event == "clock_step"]
    able = (
        row
        for before, row in pairwise(rows)
        if row.event in ("link", "link_up", "link_down", "join")
        and row.boot == before.boot
        and (row.mono or 0) + 2 * LOOK_NS < ends[row.boot]
        and all(abs((row.mono or 0) - step) > 2 * LOOK_NS for step in steps)
    )
    said = "of a time that its monotonic clock contradicts"
    lie = next(able, None)
    if lie is None:
        raise CannotLie
    return [replace(row, t=row.t - HOUR_NS) if row is lie else row for row in rows], said


def _time_back(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Date a line back, by both clocks, to before its run began."""
    firsts: dict[str | None, int] = {}
    said = f"The router {victim} tells 1 time of a monotonic time before that of the line before, in one run"
    for at, row in enumerate(rows):
        by_ns = (row.mono or 0) - firsts.setdefault(row.boot, row.mono or 0)
        if row.event in ("link", "link_up", "link_down", "join") and LOOK_NS < by_ns < (row.mono or 0) - 2 * BACK_NS:
            by_ns += 2 * BACK_NS
            back = replace(row, t=row.t - by_ns, mono=(row.mono or 0) - by_ns)
            return [*rows[:at], back, *rows[at + 1 :]], said
    raise CannotLie


def _unanswered(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message that asks for an answer was written only once, and needed none."""
    line, end = _nth(rows, 3)
    if not all(line.ttls or ()):
        raise CannotLie
    said = f"says that it wrote 1 message to {end.recipient} and needed no answer, although"
    return [replace(row, event="unconfirmed") if row is end else row for row in rows], said


def _not_begun(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Leave out that the router was started a last time."""
    starts = [row for row in rows if row.event == "start"]
    return [row for row in rows if row is not starts[-1]], f"The router {victim} ran 1 time without a `start`"


def _begun_twice(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Write the first start a second time, behind itself."""
    at = next((at for at, row in enumerate(rows) if row.event == "start"), None)
    if at is None:
        raise CannotLie
    said = f"The router {victim} tells 1 time of a `start` amid a run"
    return [*rows[: at + 1], rows[at], *rows[at + 1 :]], said


def _heard_when_down(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a link was down for a moment, in which the neighbour answered over it: the last time that one did in
    the first run, as other lies begin with the first lines about links, and hide the start of the last run."""
    told: tuple[Rows, str] | None = None
    counted = {row.boot for row in rows if row.event == "link_up" and not (row.fields or {}).get("peer")}
    renewed = {name for row in rows if row.event == "renewal" for name in (row.fields or {}).values()}
    links: dict[tuple[str | None, object], list[Line]] = {}
    for at, row in enumerate(rows):
        fields = row.fields or {}
        if told is not None and row.boot != told[0][0].boot:
            break
        open_links = links.setdefault((row.boot, fields.get("peer")), [])
        match row.event:
            case "link_up":
                open_links.append(row)
            case "link_down" if open_links:
                open_links.pop()
            case "link" if len(open_links) == 1 and row.boot not in counted and fields["peer"] not in renewed:
                up = replace(open_links[0], t=row.t, mono=row.mono)
                said = f"The router {victim} tells 1 time that {fields['peer']} answered over a link, although"
                told = [*rows[:at], replace(up, event="link_down"), row, up, *rows[at + 1 :]], said
    if told is None:
        raise CannotLie
    return told


def _not_owed(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message also reached somebody who is not among its recipients."""
    _, end = _nth(rows, 4)
    said = f"says that 1 message ended for {NOBODY}, although it did not name {NOBODY} as a recipient"
    at = next(number for number, row in enumerate(rows) if row is end)
    return [*rows[: at + 1], replace(end, recipient=NOBODY), *rows[at + 1 :]], said


def _over_no_link(rows: Rows, event: str) -> tuple[Rows, str]:
    ends = [end for _, end in list(_arrived(rows))[RESERVED:] if end.event == event]
    if not ends:
        raise CannotLie
    said = _reached_nobody(ends[0].recipient)
    return [replace(row, link=FAR) if row is ends[0] else row for row in rows], said


def _reached_nobody(recipient: str | None) -> str:
    """Return how it is told that messages reached somebody without a link, of which two lies may be in one log."""
    return f"reached {recipient}, although its log, which is whole there, tells of no link"


def _unlinked(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was taken over on a link that never was up."""
    return _over_no_link(rows, "acked")


def _delivered_unlinked(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was delivered to an app on a link that never was up."""
    return _over_no_link(rows, "delivered")


def _after_down(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Write that a link was down before the last message that reached somebody on it."""
    lasts = {(row.boot, row.link): row for row in rows if row.event in ENDS and row.n == 1}
    downs = [row for row in rows if row.event == "link_down" and "link" in (row.fields or {})]
    for down in downs:
        end = lasts.get((down.boot, (down.fields or {})["link"]))
        if end is not None and (end.ranges or [(0, 0)])[0][1] == 1 and len(end.ranges or ()) == 1:
            said = _reached_nobody(end.recipient)
            early = replace(down, t=end.t, mono=end.mono)
            kept = [row for row in rows if row is not down]
            return [one for row in kept for one in ((early, row) if row is end else (row,))], said
    raise CannotLie


def _refused_for(reason: str, said: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message that arrived was refused for this reason."""
    _, end = _nth(rows, 5)
    refused = replace(end, event="refused", reason=reason, duration_ns=0)
    return [refused if row is end else row for row in rows], said.format(end.recipient)


def _invented_reason(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was refused for a reason that looks like one of a service, and that no service there has."""
    return _refused_for("capd:not-today", "1 message ended for {} for a reason that neither the router nor its", rows)


def _refused_later(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was refused, after it was accepted, since the store of the router was full."""
    ends = [end for _, end in list(_arrived(rows))[RESERVED:]]
    if len(ends) < 3:
        raise CannotLie
    said = f"says that 1 message ended for {ends[2].recipient} by an event and for a reason that do not go together"
    refused = replace(ends[2], event="refused", reason="queue-full-node", duration_ns=0)
    return [refused if row is ends[2] else row for row in rows], said


def _unknown_reason(victim: str, rows: Rows) -> tuple[Rows, str]:
    """Say that a message was refused for a reason that there is not, in a log that does not name reasons."""
    return _refused_for("not-today", "for a reason that this audit does not know: not-today 1", rows)


OF_ONE: tuple[Lie, ...] = (
    _left_out,
    _never_written,
    _before_its_place,
    _unanswered,
    _not_full,
    _other_time,
    _not_owed,
    _not_begun,
    _begun_twice,
    _heard_when_down,
    _unlinked,
    _delivered_unlinked,
    _after_down,
    _time_back,
    _invented_reason,
    _not_left,
    _refused_later,
    _refused_unwritten,
)
claims_in_one_log = in_a_log(*OF_ONE)
"""All of them in the log of one victim."""


def footer_of_other_times(scene: Scene) -> None:
    """Let a footer tell a later time than any of its lines has."""
    scene.forget_witnesses()
    one = segments(scene.logs[scene.victim(3)])[1]
    lines = one.path.read_bytes().splitlines(keepends=True)
    footer = decode_line(lines[-1])
    changed = replace(footer, max_t=footer.max_t + 1)
    one.path.write_bytes(b"".join(lines[:-1]) + encode_lines([sign(changed, scene.keys[one.router])]))
    scene.lose(one, "bad", one.path.name, f"the footer says max_t {changed.max_t}, the lines {footer.max_t}")


def left_out_before_a_hole(scene: Scene) -> None:
    """Leave a subscriber out, and lose a later segment of that log."""
    before = scene.touched()
    in_a_log(_left_out)(scene)
    [victim] = scene.touched() - before
    one = segments(scene.logs[victim])[-2]
    one.path.unlink()
    scene.lose(one, None, f"events {one.first} to {one.last} are not known", "no file given holds them")


CLAIMS: tuple[Callable[[Scene], None], ...] = (
    *map(in_a_log, OF_ONE), in_a_log(_left_out_and_excused), in_a_log(_copied_by_nobody), in_a_log(_given_to_a_service),
    in_a_log(_given_as_history), in_a_log(_asked_of_nobody), left_out_before_a_hole,
    *map(in_a_log, (_not_crowded, _all_out, _not_away, _may_wait, _not_too_large)),
    in_a_log(_unknown_reason, level="warning", names_reasons=False), footer_of_other_times,
)  # fmt: skip
