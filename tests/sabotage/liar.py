"""Sabotage by a router itself: it signs statements that contradict itself or its neighbours, with the right digests."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from router.core.log.line import Line, decode_line, encode_lines
from router.core.log.segment import sign
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from sabotage.logs import Rows, in_parts, read_rows, renumbered, seal, segments
from sabotage.scene import Scene
from spark_analytics.judgement.schema import ENDS

WEEKS_NS = 29 * 86_400 * 10**9
NEVER = 100_000_000
"""An expiry far in the future."""
FAR = 10**9
"""An arrival number, and a link, that no sample reaches."""


def in_flight_for_weeks(scene: Scene) -> None:
    """Claim that a message accepted 29 days ago for a minute is in flight on a link that came up just now."""
    scene.forget_witnesses()
    victim = scene.victim()

    def change(rows: Rows) -> Rows:
        old = next(row for row in rows if row.event == "accepted" and row.recipients)
        whom, last = scene.chance.randbytes(32).hex(), rows[-1]
        accepted = replace(
            old, n=1, count=1, t=old.t - WEEKS_NS, boot="7" * 32, first=FAR, ids=scene.chance.randbytes(32).hex(),
            sizes=[9], ttls=[60], expiries=[(old.expiries or [0])[0]], recipients=[whom],
            kind="multicast", source=None, destination=None, group=scene.chance.randbytes(32).hex(), peer=whom,
        )  # fmt: skip
        up = Line(1, "link_up", 0, 1, last.t, last.mono, last.router, last.boot, count=1, fields={"link": FAR})
        forwarded = Line(
            1, "forwarded", 0, 1, last.t, last.mono, last.router, last.boot, recipient=whom, link=FAR, count=1,
            ranges=[(FAR, 1)], parcel=FAR, attempt=0, depth=1, duration_ns=0,
        )  # fmt: skip
        return [rows[0], accepted, *rows[1:], up, forwarded]

    scene.again(victim, change)
    scene.tell("warning", f"The router {victim} still has 1 delivery under way", f"the arrival number {FAR}")


def pruned_without_ends(scene: Scene) -> None:
    """Omit the ends of messages, then prune everything that would show it except the footers. Messages refused at the
    door, which a footer counts with the ends, are omitted, too."""
    scene.forget_witnesses()
    victim = scene.victim()

    def change(rows: Rows) -> Rows:
        return [row for row in rows if row.event not in ENDS]

    scene.again(victim, change)
    count = len(segments(scene.logs[victim]))
    assert Segments(scene.logs[victim], scene.keys[victim], LogLimits()).prune(0.0, 0.0, 0) == count
    scene.pruned.add(victim)
    scene.tell("warning", f"The footers of the pruned segments of the router {victim}", "no message could wait for so")


def accepted_twice(scene: Scene) -> None:
    """Let two acceptances in one log give the same arrival numbers to different messages."""
    scene.forget_witnesses()
    victim = scene.victim()

    def change(rows: Rows) -> Rows:
        old = next(row for row in rows if row.event == "accepted" and row.n == 1)
        again = replace(old, ids=scene.chance.randbytes(32).hex(), t=rows[-1].t, recipients=[], peer=None)
        return [*rows, again]

    scene.again(victim, change)
    scene.tell("bad", f"The log of the router {victim} gives 1 arrival number more than once")


def expired_at_once(scene: Scene) -> None:
    """Record deliveries as expired a second after they were accepted for a day or more."""
    scene.forget_witnesses()
    victim = scene.victim()

    def change(rows: Rows) -> Rows:
        lines = [row for row in rows if row.event == "accepted" and row.recipients]
        ttls = {row.first: replace(row, ttls=[86_400] * row.n) for row in lines[:: max(1, len(lines) // 5)]}
        at = {first: row.t + 1_000_000_001 for first, row in ttls.items()}
        config = Line(1, "config", 0, 1, rows[0].t, rows[0].mono, rows[0].router, rows[0].boot, count=1)

        def changed(row: Line) -> Line:
            if row.event == "accepted":
                return ttls.get(row.first, row)
            if row.event in ("delivered", "acked") and row.parcel in at:
                return replace(row, event="expired", reason="ttl-expired", t=at[row.parcel])
            return row

        return [replace(config, fields={"ttl_s_max": 604_800}), *map(changed, rows)]

    scene.again(victim, change)
    scene.tell("bad", f"The router {victim} let ", "expire before its time was over")


def numbers_without_lines(scene: Scene) -> None:
    """Omit event numbers in the middle of a segment that its footer covers."""
    scene.forget_witnesses()
    victim = scene.victim()
    old = segments(scene.logs[victim])
    rows = renumbered(read_rows(one.path for one in old))
    half = len(rows) // 2
    later = renumbered(rows[half:], rows[half].seq + 7)
    for one in old:
        one.path.unlink()
    seal(scene.logs[victim], scene.keys[victim], in_parts([*rows[:half], *later], 5))
    [torn] = [one for one in segments(scene.logs[victim]) if one.first <= rows[half].seq <= one.last]
    text = f"before this line is missing: events {rows[half].seq} to {rows[half].seq + 6}"
    scene.lose(torn, "bad", torn.path.name, text, "though its router signed it")


def footer_that_counts_otherwise(scene: Scene) -> None:
    """Let a footer count more than its lines hold, and another one equally less, so that the sum is right."""
    scene.forget_witnesses()
    victim = scene.victim(3)
    changes = iter((1, -1))
    for one in segments(scene.logs[victim])[1:]:
        lines = one.path.read_bytes().splitlines(keepends=True)
        footer = decode_line(lines[-1])
        counts = footer.counts or {}
        if counts.get("accepted") and (more := next(changes, 0)):
            changed = replace(footer, counts={**counts, "accepted": counts["accepted"] + more})
            one.path.write_bytes(b"".join(lines[:-1]) + encode_lines([sign(changed, scene.keys[victim])]))
            scene.lose(one, "bad", one.path.name, f"the footer counts {counts['accepted'] + more} accepted")


def never_sent(scene: Scene) -> None:
    """Claim that a neighbour whose log is given brought a message that its log does not have."""
    scene.forget_witnesses()
    victim, peer = scene.brought()

    def change(rows: Rows) -> Rows:
        own = [row for row in rows if row.event == "accepted" and row.peer == peer != row.source]
        old = own[len(own) // 8]  # early: what is in custody of the other shows that its log goes on behind it
        scene.tell("bad", f"The router {victim} says that {peer} brought it 1 message ")
        odd = replace(
            old, n=1, count=1, first=FAR, ids=scene.chance.randbytes(32).hex(), sizes=[9], ttls=[60],
            expiries=[(old.expiries or [0])[0]], kind="unicast", source=scene.chance.randbytes(32).hex(), group=None,
            destination=scene.chance.randbytes(32).hex(), recipients=[],
        )  # fmt: skip
        at = next(number for number, row in enumerate(rows) if row is old)
        return [*rows[: at + 1], odd, *rows[at + 1 :]]

    scene.again(victim, change)


def acked_by_a_stranger(scene: Scene) -> None:
    """Claim that a router with which there never was a link took a message over."""
    scene.forget_witnesses()
    victim, stranger = scene.victim(), scene.chance.randbytes(32).hex()

    def change(rows: Rows) -> Rows:
        return _claimed(rows, stranger, 0)

    scene.again(victim, change)
    scene.tell("bad", f"The router {victim} says that 1 message reached {stranger}, although its log")


def another_ttl(scene: Scene) -> None:
    """Write a message down with a ttl of a second, unlike the router that brought it, and let it expire at once."""
    scene.forget_witnesses()
    victim, peer = scene.brought()

    def change(rows: Rows) -> Rows:
        own = [row for row in rows if row.event == "accepted" and row.peer == peer and row.kind == "multicast"]
        lie = next(row for row in own if row.recipients and row.n == 1)

        def changed(row: Line) -> Line:
            if row is lie:
                return replace(row, ttls=[1])
            if row.parcel == lie.first and row.event in ("delivered", "acked"):
                return replace(row, event="expired", reason="ttl-expired", t=max(row.t, lie.t + 1_000_000_000))
            return row

        return [changed(row) for row in rows]

    scene.again(victim, change)
    scene.tell("bad", "tell another ttl of 1 message, although it belongs to the id")


def ended_before_it_began(scene: Scene) -> None:
    """Write an end with a monotonic time before the acceptance, in the same boot."""
    scene.forget_witnesses()
    victim, app = scene.victim(), scene.chance.randbytes(32).hex()

    def change(rows: Rows) -> Rows:
        claimed = _claimed(rows, app, -1_000_000)
        boot = next(row.boot for row in claimed if row.first == FAR)
        begun = next(number for number, row in enumerate(claimed) if row.boot == boot)
        told = [replace(row, event="delivered") if _is_far(row) and row.event == "acked" else row for row in claimed]
        return [*told[: begun + 1], _up(told[begun], app), *told[begun + 1 :]]

    scene.again(victim, change)
    scene.tell("bad", f"The router {victim} says that 1 message reached {app}, at a time that")


def only_looks_so(scene: Scene) -> None:
    """Write what only looks like a lie, each into a log of its own: a link that is named just before something is
    handed to it, beside reasons that an app gave by their number and by the word of a service; an end before its
    acceptance by a wall clock that was set back, or by the monotonic clock of another run; and a stranger in a log of
    which the first lines are missing, or pruned."""
    scene.forget_witnesses()
    whom, set_back_ns = scene.chance.randbytes(32).hex(), 10**15

    def linked_late(rows: Rows) -> Rows:
        claimed = _claimed(rows, whom, 0)
        at, line = next((at, row) for at, row in enumerate(claimed, 1) if row.first == FAR)
        ends = [row for row in claimed if row.event == "delivered"]
        words = {id(end): word for end, word in zip(ends, ("reason-70", "invite:ended"), strict=False)}
        given = [
            replace(row, event="refused", reason=words[id(row)], duration_ns=0) if id(row) in words else row
            for row in claimed
        ]
        return [*given[:at], _up(line, whom), *given[at:]]

    def clock_set_back(rows: Rows) -> Rows:
        claimed = _claimed(rows, whom, 0)
        at = next(number for number, row in enumerate(claimed) if row.event == "acked" and row.parcel == FAR)
        begun = next(number for number, row in enumerate(claimed) if row.boot == claimed[at].boot)
        end, fields = claimed[at], {"by_s": -set_back_ns // 10**9, "doubted": False}
        then = Line(1, "clock_step", 0, 1, end.t, end.mono, end.router, end.boot, count=1, fields=fields)
        back = replace(then, t=end.t - set_back_ns)
        return [
            *claimed[: begun + 1],
            _up(claimed[begun], whom),
            *claimed[begun + 1 : at],
            back,
            replace(end, event="delivered", t=back.t),
            then,
            *claimed[at + 1 :],
        ]

    def other_run(rows: Rows) -> Rows:
        other, last, claimed = "6" * 32, rows[-1], _claimed(rows, whom, 0)
        far = [replace(row, t=last.t, mono=last.mono, boot=last.boot) for row in claimed if _is_far(row)]
        end = replace(far.pop(), event="delivered", boot=other, mono=1)
        rest = [row for row in claimed if not _is_far(row)]
        return [*rest, *far, _start(end, other), _up(end, whom, other), end]

    def stranger(rows: Rows) -> Rows:
        own = (
            at for at, row in enumerate(rows) if row.boot == rows[0].boot and row.event == "accepted" and row.recipients
        )
        at = max(own)
        return [*rows[:at], *_claimed(rows[at:], whom, 0)]

    for change in (linked_late, clock_set_back, other_run):
        scene.again(scene.victim(), change)
    lacking, pruned = scene.victim(), scene.victim()
    for victim in (lacking, pruned):
        scene.again(victim, stranger)
    segments(scene.logs[lacking])[0].path.unlink()
    old = segments(scene.logs[pruned])
    kept_bytes = sum(one.path.stat().st_size for one in old[1:])
    assert Segments(scene.logs[pruned], scene.keys[pruned], LogLimits()).prune(0.0, 0.0, kept_bytes) == 1


def _start(line: Line, boot: str | None) -> Line:
    """Return a start of another run, for the place before that line."""
    return Line(1, "start", 0, 1, line.t, line.mono, line.router, boot, count=1)


def _up(line: Line, whom: str, boot: str | None = None) -> Line:
    """Return that the link of `_claimed` came up, for the place before or after that line."""
    fields = {"peer": whom, "link": FAR, "standing": "router"}
    return Line(1, "link_up", 0, 1, line.t, line.mono, line.router, boot or line.boot, count=1, fields=fields)


def _is_far(row: Line) -> bool:
    return FAR in (row.first, row.parcel)


def _claimed(rows: Rows, whom: str, after_ns: int) -> Rows:
    """Add a message for `whom` that is handed over and taken so long after its acceptance."""
    old = next(row for row in rows if row.event == "accepted" and row.recipients)
    accepted = replace(
        old, n=1, count=1, first=FAR, ids=f"{FAR:064x}", sizes=[9], ttls=[60], expiries=[NEVER],
        recipients=[whom], kind="multicast", source=None, destination=None, group=f"{FAR:064x}", peer=whom,
    )  # fmt: skip
    end = Line(
        1, "acked", 0, 1, old.t + after_ns, (old.mono or 0) + after_ns, old.router, old.boot, recipient=whom, link=FAR,
        count=1, ranges=[(FAR, 1)], parcel=FAR, attempt=0, depth=0, duration_ns=0,
    )  # fmt: skip
    at = next(number for number, row in enumerate(rows) if row is old)
    return [*rows[: at + 1], accepted, replace(end, event="forwarded"), end, *rows[at + 1 :]]


LIES: tuple[Callable[[Scene], None], ...] = (
    never_sent, in_flight_for_weeks, pruned_without_ends, accepted_twice, expired_at_once, numbers_without_lines,
    footer_that_counts_otherwise, acked_by_a_stranger, ended_before_it_began,
)  # fmt: skip
LIES_OF_TWO = (another_ttl,)
"""Lies that the log of another router shows, which must be sound."""
