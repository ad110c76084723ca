"""Logs of three routers by hand: a message goes from the first over the second to the third, another one directly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from router.core.wire.crypto import SigningKey
from samples.audit_logs import APP, LATE, OTHER_APP, A, B, C, Log, name


def chain(keys: Sequence[SigningKey] = (A, B, C), *, direct: bool = False) -> list[Log]:
    """Return the logs of the routers with these keys. The message `far` goes from the first over the second to the
    third; the clock of the second is 100 s ahead, that of the third 40 s behind; each hop takes 1 s, and until its
    acknowledgement 2 s. `direct`: the message `near` goes from the first to the third at once."""
    a, b, c = map(Log, keys)
    first, second, third = map(name, keys)
    a.accepted(1, ["far"], [second, APP], at=10, peer=APP)
    a.outward("delivered", [(1, 1)], at=10.5)
    a.outward("acked", [(1, 1)], at=12, recipient=second)
    b.accepted(1, ["far"], [third], at=111, peer=first)
    b.outward("acked", [(1, 1)], at=113, recipient=third)
    c.accepted(1, ["far"], [OTHER_APP], at=-28, peer=second)
    c.outward("delivered", [(1, 1)], at=-25, recipient=OTHER_APP)
    if direct:
        a.accepted(2, ["near"], [third], at=20, peer=APP)
        a.outward("acked", [(2, 1)], at=22, recipient=third, parcel=2)
        c.accepted(2, ["near"], [OTHER_APP], at=-19, peer=first)
        c.outward("expired", [(2, 1)], at=45, recipient=OTHER_APP, parcel=2)
    for log in (a, b, c):
        log.state("stop", LATE)
    return [a, b, c]


def write_detour(directory: Path, keys: Sequence[SigningKey]) -> None:
    for number, log in enumerate(chain(keys, direct=True)):
        log.write(directory / str(number) / "log")
