"""Logs of two routers of a mesh by hand: one sends copies to the other, which had a message from elsewhere before."""

from __future__ import annotations

from pathlib import Path

from router.core.wire.crypto import SigningKey
from samples.audit_logs import APP, LATE, SECOND, Log, message_id, name

DAY_S = 86_400
SERVICE = message_id("service")
BOUNDS_NS = (-2 * SECOND, 2 * SECOND)
"""The bounds of the second clock minus the first: both are of the message that came by its copy at once."""


def write_mesh(directory: Path, one: SigningKey, two: SigningKey) -> list[Path]:
    """Write both logs. The first router hands three messages over: one of which the copy is the second router's first;
    one that the second router had before; and one of which the first copy arrived, but ended as `next-away`."""
    here, there = Log(one), Log(two)
    here.state("config", 0, ttl_s_max=7 * DAY_S)
    here.accepted(1, ("new", "had", "twice"), [SERVICE], at=10, ttl=DAY_S)
    here.outward("delivered", [(1, 3)], at=10.5, recipient=SERVICE)
    for first, message in ((11, "new"), (12, "had"), (13, "twice")):
        _copy(here, first, message, two, at=11)
    here.outward("acked", [(11, 1)], at=14, recipient=name(two), parcel=11)
    here.outward("acked", [(12, 1)], at=14, recipient=name(two), parcel=12)
    here.outward("expired", [(13, 1)], at=71, recipient=name(two), parcel=13, reason="next-away")
    _copy(here, 14, "twice", two, at=100)
    here.outward("acked", [(14, 1)], at=101, recipient=name(two), parcel=14)
    here.state("stop", LATE)
    there.state("start", 0)
    there.accepted(1, ["had"], at=5, ttl=DAY_S)
    there.accepted(2, ["new"], at=12, ttl=DAY_S, peer=name(one))
    there.accepted(3, ["twice"], at=13, ttl=DAY_S, peer=name(one))
    there.outward("delivered", [(1, 1)], at=15, parcel=1)
    for parcel in (2, 3):
        there.outward("delivered", [(parcel, 1)], at=15, parcel=parcel)
    for first, message in ((4, "new"), (5, "new"), (6, "had")):
        there.accepted(first, [message], [APP], at=200, ttl=DAY_S, kind="copy", peer=SERVICE)
        there.outward("acked", [(first, 1)], at=201, parcel=first)
    there.state("stop", LATE)
    return [here.write(directory / "one"), there.write(directory / "two")]


def _copy(log: Log, first: int, message: str, to: SigningKey, at: float) -> None:
    log.accepted(first, [message], [name(to)], at=at, ttl=DAY_S, kind="copy", peer=SERVICE)
