"""Logs of every kind side by side: a fleet with liars, a damaged fleet, and faulty lines of routers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fleets.shared import Fleets
from msgspec import structs
from samples.audit_logs import APP, LATE, NEVER, OTHER_APP, A, B, C, Log, name
from samples.detour_logs import write_detour
from samples.handovers import EVENTS
from samples.mesh_logs import write_mesh
from samples.ordered_logs import BEYOND, ORDERED
from samples.two_logs import (
    FACTS,
    NAMES_LEAVES,
    asked_of_another,
    clock_moved,
    copied_on,
    handed,
    history,
    not_left,
    refused_all,
    taken_again,
    told_beyond,
    unlike,
    unread,
)

from router.core.wire.crypto import SigningKey
from sabotage.claimant import claims_in_one_log, footer_of_other_times
from sabotage.liar import LIES
from sabotage.of_two import OF_TWO
from sabotage.saboteur import SABOTAGES
from sabotage.scene import copied

SPOILT = (
    "broken_custody", "contradicting_ends", "copied_elsewhere", "doubled_deliveries", "forked", "garbage_line",
    "removed_segment", "unknown_events",
)  # fmt: skip


class Mixture(NamedTuple):
    """The directory of all these logs, the words that must be told of lies in them, and the time of an audit."""

    logs: Path
    says: list[str]
    as_of_ns: int


FEW, MANY = ((10, 60, 1), (10, 200, 0)), ((10, 400, 3), (10, 400, 0), (10, 400, 2))
"""Nodes, messages and seed of the fleet with liars, of the damaged one, and of one in which lies about neighbours are
told. The second of `FEW` is read by other quick tests too; there lies about neighbours are in logs written by hand."""


def mixture(fleets: Fleets, directory: Path, shapes: tuple[tuple[int, int, int], ...]) -> Mixture:
    """Write logs of every kind below `directory`, from fleets of these shapes."""
    liars = copied(fleets(*shapes[0]), directory / "liars", 1)
    for lie in LIES:
        lie(liars)
    spoilt = copied(fleets(*shapes[1]), directory / "spoilt", 2)
    for sabotage in SPOILT:
        SABOTAGES[sabotage](spoilt)
    told = len(spoilt.says)
    claims_in_one_log(spoilt)
    footer_of_other_times(spoilt)
    says = [*liars.says, *spoilt.says[told:], *pairs(directory / "pairs")]
    for shape in shapes[2:]:
        about = copied(fleets(*shape), directory / "about", 3)
        for lie in OF_TWO:
            lie(about)
        says += about.says
    odd_logs(directory / "odd")
    write_mesh(directory / "mesh", SigningKey(b"f" * 32), SigningKey(b"g" * 32))
    write_detour(directory / "detour", [SigningKey(letter * 32) for letter in (b"h", b"i", b"j")])
    return Mixture(directory, says, max(liars.as_of_ns, spoilt.as_of_ns))


def in_flight(log: Log) -> None:
    log.state("start")
    log.state("link_up", peer=APP, link=2)
    log.state("guestbook_signed", service="guestbook", page=1)
    log.state("guestbook_moved", to="another room")
    log.accepted(1, range(40))
    log.outward("forwarded", [(1, 20)])
    log.outward("deferred", [(3, 2)])
    log.outward("forwarded", [(3, 2)])
    log.accepted(100, range(2), [name(B)], kind="copy")
    log.outward("acked", [(100, 1)], recipient=name(B), parcel=100)
    log.outward("expired", [(101, 1)], recipient=name(B), parcel=100, reason="next-away")
    log.state("join", LATE)


def doubted(log: Log) -> None:
    """Tell sizes of two messages that other logs tell otherwise, of which VIA explains one."""
    log.accepted(1, range(3), sizes=[9, 43, 100])
    log.state("clock_step", 9, by_s=7200, doubted=True)
    log.state("alarm", 9, alarm="clock-doubted", state="raised", since_s=9, number=600)
    log.state("alarm", 10, alarm="unaccounted", state="raised", since_s=9, number=1, peer=APP, arrival=2)
    log.state("alarm", 10, alarm="unaccounted", state="raised", since_s=9, number=4, peer=OTHER_APP)
    log.state("alarm", 11, alarm="unaccounted", state="over", since_s=9, number=1, peer=APP)
    log.outward("delivered", [(1, 2)], at=12, boot="1" * 32)
    log.state("join", LATE)


def summed_at_the_door(log: Log) -> None:
    log.accepted(1, range(3), ttls=[60, 60, 61], expiries=[NEVER, NEVER - 1, NEVER])
    log.turned("refused", 4000, "bad-signature", peer=None)
    log.turned("duplicate", 7, "duplicate")
    log.state("link_up", peer=OTHER_APP, link=3)
    for event, times in (("link_up", 900), ("link_down", 901)):
        line = log.state(event, 2, standing="stranger", times=times)
        log.lines[-1] = structs.replace(line, count=times)
    log.noted("discovery_refused", 50, "lan:flood", prefix="192.0.2.0/24")
    log.noted("discovery_refused", 2, "bad-signature", router=APP)
    log.noted("pubsub_refused", 3, "rate-limited", router="")
    log.noted("dial_refused", 997, "dial:budget", at=7200, service="router", prefix="45.0.0.0/24")
    log.noted("pubsub_not_taken", 4, "no-route")
    log.state("guestbook_refused", router=APP)
    log.state("join", LATE)


def faulty(log: Log) -> None:
    """Write ranges that leave their parcel, ends without an acceptance, a clock that goes back, and a message that is
    accepted twice."""
    log.state("start")
    log.accepted(1, range(40), at=5)
    log.accepted(41, range(3), at=5)
    log.outward("delivered", [(1, 30)], at=1, boot="1" * 32)
    log.outward("delivered", [(38, 5)], at=9)
    log.outward("expired", [(700, 9)], at=9, parcel=700)
    log.outward("forwarded", [(31, 4)], at=9, depth=7)
    log.turned("refused", 3, "rate-limited")
    log.noted("pubsub_barred", 1, "pubsub:withholds", 9, router=APP, lost=3, withheld=1, for_s=3600)
    log.noted("pubsub_barred", 1, "pubsub:withholds", 9, router=OTHER_APP, lost="many", for_s=3600)
    log.state("join", 9, group=APP, subscriber=APP)


def owed_by_services(log: Log) -> None:
    for at, (fields, reason) in enumerate(EVENTS):
        log.noted("dmq_accepted", 1, reason, at, **fields)
    log.state("config", 20, ttl_s_max=0)
    log.accepted(1, ["short"], at=21)
    log.outward("expired", [(1, 1)], 22)
    log.state("stop", 5000)


def without_times(log: Log) -> None:
    """Let no line say a time, which is how a clock at the beginning of 1970 is written."""
    log.state("start")
    log.accepted(1, ["timeless"])
    log.outward("dropped", [(1, 1)])
    log.lines[:] = [structs.replace(line, t=0) for line in log.lines]


KEYS = (A, B, C, *(SigningKey(one * 32) for one in (b"d", b"e", b"k")))
ODD = (in_flight, doubted, summed_at_the_door, faulty, owed_by_services, without_times)


def odd_logs(directory: Path) -> None:
    for key, write in zip(KEYS, ODD, strict=True):
        log = Log(key)
        write(log)
        log.write(directory / write.__name__ / "log")


def not_left_by_either(here: Log, there: Log) -> None:
    for log in (here, there):
        not_left(log)


PAIRS: dict[str, Callable[[Log, Log], object]] = {
    "refused": handed,
    "refused, and a false head": told_beyond(handed),
    "all": refused_all,
    "copies": copied_on("refused", "refused"),
    "nobody for a copy": copied_on("refused", joined=True),
    "one copy of two": copied_on("refused", "acked"),
    "joined": unread(2),
    "joined, and a false head": told_beyond(unread(2, **NAMES_LEAVES)),
    "expired": partial(handed, reason="ttl-expired", event="expired"),
    "rates": partial(handed, reason="rate-limited"),
    "unlike": unlike,
    "history": lambda here, there: (history()(here), history(0, 1)(there)),
    "not left": not_left_by_either,
    "news": asked_of_another(2000, 1990, 8),
    "restored": taken_again,
    "by a clock set ahead": clock_moved(asked_of_another(50, 40), 20, 30),
    "by a clock set back": clock_moved(unread(55), 53, -50),
    **ORDERED,
    **BEYOND,
}


def pairs(directory: Path) -> list[str]:
    """Write logs of which one says what the other contradicts; return the words that must be told."""
    keys = {case: [SigningKey(f"{one} {case}".encode().ljust(32)[:32]) for one in ("here", "there")] for case in PAIRS}
    for case, write in PAIRS.items():
        logs = [Log(key) for key in keys[case]]
        write(*logs)
        for log in logs:
            log.write(directory / case / name(log.key)[:8] / "log")
    routers = {case: [name(key) for key in both] for case, both in keys.items()}
    return [
        "The router {} says that {} refused 1 message which".format(*routers["refused"]),
        *(
            "The router {} says that {} refused 1 message which".format(*routers[one])
            for one in ("all", "copies", "refused, and a false head", "refused, beyond")
        ),
        "The router {} says that {} refused 1 message because nobody there".format(*routers["joined"]),
        "The router {} says that {} refused 1 message because nobody".format(*routers["joined, and a false head"]),
        "The router {} says that {} refused 1 message because nobody".format(*routers["joined, beyond"]),
        "The router {} tells that no link with {} was up since event".format(*routers["linked, beyond"]),
        "The router {} says that {} refused 1 message because nobody there".format(*routers["nobody for a copy"]),
        "The router {} says that it asked {} for 1 message as history".format(*routers["news"]),
        "The router {} says that {} refused 1 message which".format(*routers["refused, a clock was set"]),
        "The router {} says that {} refused 1 message because nobody".format(*routers["joined, a clock was set"]),
        "The router {} tells that no link with {} was up since event".format(*routers["linked, a clock was set"]),
        "The router {} says that it asked {} for 1 message as history".format(*routers["asked, a clock was set"]),
        "1 message that expired at {} for {} went on".format(*routers["expired"]),
        "1 message refused at {} for {} went on".format(*routers["rates"]),
        *(f"The router {one} says that it dropped 2 messages because {APP} had left" for one in routers["not left"]),
        f"The router {routers['history'][0]} does not name {APP} as a recipient of 2 messages, although",
        f"The router {routers['restored'][0]} was restored on ",
        *(
            "The routers {} and {} tell another ".format(*sorted(routers["unlike"], reverse=True))
            + f"{fact} of 1 message"
            for fact in FACTS
        ),
    ]
