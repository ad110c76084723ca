"""Sabotage that only two logs together show: facts of a message that belong to its id, and what a neighbour is said to
have refused. One of them is honest: an acknowledgement was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from router.core.log.line import Line
from sabotage.claimant import CannotLie
from sabotage.logs import Rows, read_rows, segments
from sabotage.scene import Scene
from spark_analytics.judgement.claim_sql import CHANGES, NEVER_AGAIN
from spark_analytics.judgement.link_sql import LATE_NS
from spark_analytics.judgement.schema import GRACE_NS

FAR = 10**9
"""An arrival number that no sample reaches."""
SERVICE = "5e" * 32
"""The key of a service that joins a group."""
MILLISECOND_NS = 10**6
MARGIN_NS = 5 * 10**9
"""More than the clocks of two nodes of a fleet are apart."""
Change = Callable[[Scene, str, str], Rows]
"""Returns the lines of a giver's log, given the scene, the giver, and the taker of its messages."""


def _rows(scene: Scene, router: str) -> Rows:
    return read_rows(one.path for one in segments(scene.logs[router]))


def _by_a_giver(scene: Scene, change: Change) -> tuple[str, str]:
    """Change the log of a router that hands messages to a neighbour, whose log stays sound; return both."""
    scene.forget_witnesses()
    unable: list[str] = []
    while True:
        giver, taker = scene.handed()
        try:
            changed = change(scene, giver, taker)
        except CannotLie:
            unable.append(giver)
            continue
        break
    scene.spare(unable)
    scene.again(giver, lambda rows: changed)
    return giver, taker


# -- facts that belong to an id ---------------------------------------------------------------------------------------


def other_facts(scene: Scene) -> None:
    """Tell of five messages another fact each than the router that brought them, or took them over."""

    def change(scene: Scene, giver: str, taker: str) -> Rows:
        there = {row.ids for row in _rows(scene, taker) if row.event == "accepted" and row.n == 1}
        rows = _rows(scene, giver)
        able = [row for row in rows if row.event == "accepted" and row.n == 1 and row.ids in there]
        multicasts = [row for row in able if row.kind == "multicast" and row.sizes and row.expiries]
        unicasts = [row for row in able if row.kind == "unicast"]
        if len(multicasts) < 4 or not unicasts:
            raise CannotLie
        key = scene.chance.randbytes(32).hex()
        kind, sender, expiry, size = multicasts[:4]
        lies: dict[int | None, dict[str, Any]] = {
            kind.first: {"kind": "unicast", "group": None, "source": key, "destination": key},
            sender.first: {"group": key},
            unicasts[0].first: {"destination": key},
            expiry.first: {"expiries": [one + 1 for one in expiry.expiries or ()]},
            size.first: {"sizes": [one + 77 for one in size.sizes or ()]},
        }
        return [replace(row, **lies.get(row.first, {})) if row.event == "accepted" else row for row in rows]

    _by_a_giver(scene, change)
    facts = ("kind", "source or group", "destination", "expiry", "size")
    scene.tell("bad", *(f"tell another {fact} of 1 message, although it belongs to the id" for fact in facts))


# -- delivered to a router that lacks it ------------------------------------------------------------------------------


def delivered_to_nobody(scene: Scene) -> None:
    """Say that messages were delivered to a neighbour, as to an app, which its log lacks: no acknowledgement is
    claimed."""

    def change(scene: Scene, giver: str, taker: str) -> Rows:
        rows = _rows(scene, giver)
        lines = {
            row.first: row
            for row in rows
            if row.event == "accepted" and row.n == 1 and row.kind == "multicast" and row.peer not in scene.names
        }
        ends = [row for row in rows if row.event == "acked" and row.recipient == taker and row.parcel in lines]
        if len(ends) < 4:  # the clocks' bounds rest on the others
            raise CannotLie
        ids = {end.parcel: scene.chance.randbytes(32).hex() for end in ends[:2]}
        lies = [id(end) for end in ends[:2]]
        return [
            replace(row, event="delivered") if id(row) in lies
            else replace(row, ids=ids[row.first]) if row.event == "accepted" and row.first in ids
            else row
            for row in rows
        ]  # fmt: skip

    giver, taker = _by_a_giver(scene, change)
    scene.tell("bad", f"The router {giver} says that {taker} took 2 messages over that the log of {taker}, which is")


# -- refused, and taken -----------------------------------------------------------------------------------------------


def refused_though_taken(scene: Scene) -> None:
    """Say that a neighbour refused a message which it accepted, as its own log tells."""
    giver, taker = _refuse(scene, scene.chance.choice(NEVER_AGAIN))
    scene.tell("bad", f"The router {giver} says that {taker} refused 1 message which {taker}, by its own log,")


def refused_for_load(scene: Scene) -> None:
    """Say so for a reason for which a neighbour may refuse what it has accepted."""
    giver, taker = _refuse(scene, scene.chance.choice(("not-authorised", "peer-refused", "too-large")))
    scene.tell("", f"1 message refused at {giver} for {taker} went on: the log of {taker} tells that it")


def copy_refused_though_taken(scene: Scene) -> None:
    """Say so of a copy that a service is said to have sent on to that neighbour alone."""
    giver, taker = _refuse(scene, scene.chance.choice(NEVER_AGAIN), is_copy=True)
    scene.tell("bad", f"The router {giver} says that {taker} refused 1 message which {taker}, by its own log,")


def _refuse(scene: Scene, reason: str, *, is_copy: bool = False) -> tuple[str, str]:
    """Let a message that a neighbour accepted be refused by it; return the router and the neighbour. `is_copy`: it was
    sent there as a copy."""

    def change(scene: Scene, giver: str, taker: str) -> Rows:
        rows, there = _steady(scene, giver, taker)
        found = {row.ids: row.t for row in there if row.event == "accepted" and row.n == 1 and row.peer == giver}
        lines = {row.first: row for row in rows if row.event == "accepted" and row.ids in found}
        ends = [row for row in rows if row.event == "acked" and row.recipient == taker and row.parcel in lines]
        taken = {row.seq: found[lines[row.parcel].ids] - row.t for row in ends}
        lie = min(ends, key=lambda row: taken[row.seq], default=None)
        rest = [apart for seq, apart in taken.items() if lie is not None and seq != lie.seq]
        # The others bound the taker's clock, more loosely by as much as both clocks moved.
        if lie is None or not rest or max(rest) - _moved_ns(rows) - _moved_ns(there) <= taken[lie.seq] + MILLISECOND_NS:
            raise CannotLie
        changed = [replace(row, event="refused", reason=reason) if row is lie else row for row in rows]
        return _sent_on(changed, lines[lie.parcel], taker) if is_copy else changed

    return _by_a_giver(scene, change)


def _moved_ns(rows: Rows) -> int:
    """Return how far a wall clock moved against its monotonic one."""
    apart = [row.t - row.mono for row in rows if row.mono is not None]
    return max(apart) - min(apart)


def _sent_on(rows: Rows, line: Line, taker: str) -> Rows:
    """Let a multicast be owed to a router as a copy by a service, no more with its other recipients."""
    group = line.group
    if line.kind != "multicast" or group is None:
        raise CannotLie
    rest = [one for one in line.recipients or () if one != taker]
    copy = replace(line, first=FAR, recipients=[taker], kind="copy", peer=SERVICE)
    join = replace(
        next(row for row in rows if row.event == "config"),
        event="join", fields={"subscriber": SERVICE, "group": group, "service": "pubsub"},
    )  # fmt: skip
    moved = [
        replace(row, parcel=FAR, ranges=[(FAR, 1)]) if row.parcel == line.first and row.recipient == taker else row
        for row in rows
    ]
    at = moved.index(line)
    join = replace(join, t=line.t, mono=line.mono, boot=line.boot)
    return [*moved[:at], replace(line, recipients=rest), join, copy, *moved[at + 1 :]]


def _steady(scene: Scene, giver: str, taker: str) -> tuple[Rows, Rows]:
    """Return the lines of both, whose clocks were not set."""
    rows, there = _rows(scene, giver), _rows(scene, taker)
    if any(row.event == "clock_step" for row in (*rows, *there)):
        raise CannotLie
    return rows, there


# -- a link that the neighbour used ------------------------------------------------------------------------------------


def linked_there(scene: Scene) -> None:
    """Say that the link with a neighbour was down while that one had answers over it, and had none of it meanwhile."""

    def change(scene: Scene, giver: str, taker: str) -> Rows:
        rows, there = _steady(scene, giver, taker)
        if any(_counts_links(row) or row.event == "renewal" for row in (*rows, *there)):
            raise CannotLie
        heard = [row.t for row in there if row.event == "link" and (row.fields or {}).get("peer") == giver]
        for at, up in enumerate(rows):
            if up.event != "link_up" or (up.fields or {}).get("peer") != taker:
                continue
            rest = [(place, row) for place, row in enumerate(rows) if place > at]
            end = next((one for one in rest if _ends_link(one[1], taker)), (len(rows) - 1, rows[-1]))
            kept = [row for _, row in rest[: end[0] - at - 1] if not (row.event == "link" and _is_about(row, taker))]
            told = [row.t for row in kept if row.event in (*CHANGES, "link") and up.t < row.t < end[1].t]
            inside = [t for t in heard if told and told[0] + LATE_NS + MARGIN_NS < t < told[-1] - MARGIN_NS]
            if len(inside) < 3:
                continue
            down = replace(up, event="link_down")
            again = replace(up, t=end[1].t, mono=end[1].mono)
            return [*rows[: at + 1], down, *kept, again, *rows[end[0] :]]
        raise CannotLie

    giver, taker = _by_a_giver(scene, change)
    scene.tell("bad", f"The router {giver} tells that no link with {taker} was up since event")


def _is_about(row: Line, peer: str) -> bool:
    return (row.fields or {}).get("peer") == peer


def _ends_link(row: Line, peer: str) -> bool:
    return row.event == "start" or (row.event in ("link_up", "link_down") and _is_about(row, peer))


def _counts_links(row: Line) -> bool:
    return row.event == "link_up" and not (row.fields or {}).get("peer")


# -- refused where somebody had joined --------------------------------------------------------------------------------


class _Stay(NamedTuple):
    """An app was in a group and connected for this time, by the clock of its router."""

    group: object
    from_ns: int
    to_ns: int


def _stays(rows: Rows) -> Iterator[_Stay]:
    """Yield when apps of a router were in a group and connected."""
    joined: dict[tuple[object, object], int] = {}
    linked: dict[object, int] = {}

    def over(pairs: list[tuple[object, object]], t: int) -> Iterator[_Stay]:
        for pair in pairs:
            if pair in joined and pair[0] in linked:
                yield _Stay(pair[1], max(joined[pair], linked[pair[0]]), t)

    for row in rows:
        fields = row.fields or {}
        match row.event:
            case "start":
                yield from over([*joined], row.t)
                linked.clear()
            case "join" if "service" not in fields:
                joined.setdefault((fields["subscriber"], fields["group"]), row.t)
            case "leave" if "subscriber" in fields:
                pair = (fields["subscriber"], fields["group"])
                yield from over([pair], row.t)
                joined.pop(pair, None)
            case "link_up" if fields.get("standing") == "local":
                linked.setdefault(fields["peer"], row.t)
            case "link_down":
                yield from over([pair for pair in joined if pair[0] == fields.get("peer")], row.t)
                linked.pop(fields.get("peer"), None)
    yield from over([*joined], rows[-1].t)


def refused_where_somebody_had_joined(scene: Scene) -> None:
    """Say of a message, otherwise as one before it, that a neighbour refused it because nobody had joined there."""

    def change(scene: Scene, giver: str, taker: str) -> Rows:
        rows, there = _steady(scene, giver, taker)
        stays = [*_stays(there)]
        about: dict[int | None, Rows] = {}
        for row in rows:
            about.setdefault(row.first if row.event == "accepted" else row.parcel, []).append(row)
        for old in rows:
            if old.event != "accepted" or old.n != 1 or old.kind != "multicast" or old.peer in scene.names:
                continue
            lines = about[old.first][1:]
            if _is_taken(old, lines, taker, scene) and any(
                stay.group == old.group and stay.from_ns < old.t - MARGIN_NS and lines[-1].t < stay.to_ns - MARGIN_NS
                for stay in stays
            ):
                break
        else:
            raise CannotLie
        again = {id(row): _again(row, scene) if row is old else _refused_by(row, taker) for row in (old, *lines)}
        return [one for row in rows for one in ((row, again[id(row)]) if id(row) in again else (row,))]

    giver, taker = _by_a_giver(scene, change)
    scene.tell("bad", f"The router {giver} says that {taker} refused 1 message because nobody there had joined the")


def _is_taken(old: Line, lines: Rows, taker: str, scene: Scene) -> bool:
    """Whether a message was acknowledged by this router, and delivered to all other recipients, each at once and in the
    same boot."""
    ends = {row.recipient: row.event for row in lines if row.event in ("acked", "delivered")}
    return (
        set(ends) == set(old.recipients or ())
        and ends.get(taker) == "acked"
        and all(event == "delivered" for whom, event in ends.items() if whom != taker)
        and len(lines) == 2 * len(ends)
        and all(row.ranges == [(old.first, 1)] and row.boot == old.boot for row in lines)
        and not set(ends) & (set(scene.names) - {taker})
    )


def _again(row: Line, scene: Scene) -> Line:
    return replace(row, first=FAR, ids=scene.chance.randbytes(32).hex())


def _refused_by(row: Line, taker: str) -> Line:
    row = replace(row, parcel=FAR, ranges=[(FAR, 1)])
    if row.recipient == taker and row.event == "acked":
        return replace(row, event="refused", reason="no-subscribers")
    return row


# -- asked for before it was there -----------------------------------------------------------------------------------


def asked_before_it_was_there(scene: Scene) -> None:
    """Say that a neighbour was asked for a message as history which it accepted only later, as its own log tells."""

    def change(scene: Scene, giver: str, taker: str) -> Rows:
        rows, there = _steady(scene, giver, taker)
        if not any(row.event == "accepted" and row.peer == taker for row in rows):  # bounds from both sides
            raise CannotLie
        last = [row for row in there if row.event == "accepted" and row.n == 1 and row.kind == "multicast"][-1]
        ups = [at for at, row in enumerate(rows) if (row.fields or {}).get("peer") == taker and row.event == "link_up"]
        if not ups or rows[ups[0]].t > last.t - MARGIN_NS:
            raise CannotLie
        up = rows[ups[0]]
        asked = Line(1, "history_asked", 0, 1, up.t, up.mono, giver, up.boot, signer=giver, count=1, ids=last.ids)
        fields = {"service": "router", "router": taker, "group": last.group}
        return [*rows[: ups[0] + 1], replace(asked, fields=fields), *rows[ups[0] + 1 :]]

    giver, taker = _by_a_giver(scene, change)
    scene.tell("bad", f"The router {giver} says that it asked {taker} for 1 message as history, which its pub/sub")


# -- expired, and gone on ---------------------------------------------------------------------------------------------


def lost_acknowledgement(scene: Scene) -> None:
    """Let a message that a neighbour took over expire, as where its acknowledgement was lost."""

    def change(scene: Scene, giver: str, taker: str) -> Rows:
        rows = _rows(scene, giver)
        lines = {row.first: row for row in rows if row.event == "accepted" and row.n == 1 and (row.ttls or [0])[0]}
        for end in rows:
            line = lines.get(end.parcel) if end.event == "acked" and end.recipient == taker else None
            if line is None:
                continue
            due_ns = line.t + (line.ttls or [0])[0] * 10**9
            then = next((row for row in rows if row.t >= due_ns and row.boot == line.boot), None)
            if then is not None:
                break
        else:
            raise CannotLie
        assert line is not None and then is not None
        gone = replace(
            end, event="expired", reason="ttl-expired", t=then.t, mono=then.mono, duration_ns=then.t - line.t, depth=0
        )
        return [one for row in rows if row is not end for one in ((row, gone) if row is then else (row,))]

    giver, taker = _by_a_giver(scene, change)
    scene.tell("", f"1 message that expired at {giver} for {taker} went on: the log of {taker} tells that it had")


# -- in a circle ------------------------------------------------------------------------------------------------------


def _firsts(rows: Rows) -> dict[str | None, Line]:
    """Return the lines that accept one message first, by its id."""
    found: dict[str | None, Line] = {}
    for row in rows:
        if row.event == "accepted" and row.kind != "copy":
            for at in range(0, len(row.ids or ""), 64):
                found.setdefault((row.ids or "")[at : at + 64], row)
    return found


def _in_a_circle(length: int) -> Callable[[Scene], None]:
    """Return the sabotage by which a router says that it had a message from where the message came by it alone."""

    def sabotage(scene: Scene) -> None:
        def change(scene: Scene, giver: str, taker: str) -> Rows:
            rows = _rows(scene, giver)
            there = {router: _firsts(_rows(scene, router)) for router in scene.names if router != giver}
            for row in rows:
                if row.event != "accepted" or row.n != 1 or row.kind != "multicast" or row.peer in scene.names:
                    continue
                had = {router: own[row.ids].peer for router, own in there.items() if row.ids in own}
                ways = [[giver, taker], *([giver, taker, last] for last, peer in had.items() if peer == taker)]
                way = next((one for one in ways if len(one) == length), None)
                if way and had.get(taker) == giver and set(had.values()) <= {giver, *had} and scene.sound(way[-1]):
                    says = [*way[1:], giver]
                    named = [f"{router} from {peer} in event " for router, peer in zip(says, [*way], strict=True)]
                    scene.tell("bad", f"{length} routers say in a circle that each had 1 message first", *named)
                    return [replace(one, peer=way[-1]) if one is row else one for one in rows]
            raise CannotLie

        _by_a_giver(scene, change)

    sabotage.__name__ = f"in_a_circle_of_{length}"
    return sabotage


def flooded_by_nobody(scene: Scene) -> None:
    """Say that a neighbour brought a flood, of which its own log tells nothing, though it goes on long enough after."""
    scene.forget_witnesses()
    victim, peer = scene.brought()
    end_ns = max(row.t for row in read_rows(one.path for one in segments(scene.logs[peer]))) - GRACE_NS

    def change(rows: Rows) -> Rows:
        half = min(len(rows), sum(row.t <= end_ns for row in rows)) // 2
        then = rows[half]
        flood = Line(
            1, "refused", 0, 1, then.t, then.mono, then.router, then.boot, peer=peer, link=0, count=50_000,
            reason="bad-signature", duration_ns=0, bytes=5_000_000,
        )  # fmt: skip
        return [*rows[:half], flood, *rows[half:]]

    scene.again(victim, change)
    scene.tell("", f"of {peer} away, of which {peer}, whose log is whole, handed it fewer")


OF_TWO = (
    other_facts,
    delivered_to_nobody,
    refused_though_taken,
    refused_for_load,
    refused_where_somebody_had_joined,
    asked_before_it_was_there,
    lost_acknowledgement,
    _in_a_circle(2),
)
"""What the log of another router shows, which must be sound."""
OF_LINKS = (linked_there,)
"""What a neighbour's sound log tells of a link, for which it needs a link that lasted."""
APART = (flooded_by_nobody, copy_refused_though_taken)
"""What a neighbour's sound log tells as of one of `OF_TWO` of the same two routers, or contradicts at its end."""
OF_THREE = (_in_a_circle(3),)
"""What the logs of two other routers show, which must be sound."""
