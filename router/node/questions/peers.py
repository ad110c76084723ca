"""The neighbours and apps of this node: whether each is connected, its rights, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from router.core.neighbours.directory import UNKNOWN, Directory, Neighbour, Standing
from router.core.routing.links import Link
from router.core.wire.lifetime import apart_words
from router.core.wire.list_page import ListPage, page_of
from router.core.wire.reasons import Reason
from router.node.link_events import Measured
from router.node.link_writer import LinkWriter
from router.node.questions.invitations import InvitedRows
from router.node.questions.question import CycleView, Questions, Respond


class PeerQuestions(Questions):
    """Lists those connected, then the neighbours that are away. `problems`: why the last attempt to connect to each key
    failed; `known_keys` returns the names of the keys that the home keeps, from memory."""

    def __init__(
        self, problems: Mapping[bytes, str], invited: InvitedRows, known_keys: Callable[[], Mapping[bytes, str]] = dict
    ) -> None:
        self._known_keys = known_keys
        self._problems = problems
        self._invited = invited

    def answers(self) -> dict[str, Respond]:
        return {"peers": self._list}

    def _list(self, asked: CycleView, argument: str) -> ListPage | dict[str, str]:
        newest, neighbours = asked.router.directory.successors.newest, asked.router.directory.neighbours
        problems = [(bytes.fromhex(one["inviter"]), one["problem"]) for one in self._invited(asked.router)]
        invited = {newest(key).hex(): problem for key, problem in problems if problem}
        writers = asked.open_links.writers.items()
        found = [(link, writer) for number, writer in writers if (link := asked.router.links.get(number)) is not None]
        connected = {bytes(link.key): (link, writer) for link, writer in found}
        keys = self._known_keys()

        def row(key: bytes) -> dict[str, Any]:
            problem = invited.get(key.hex())
            if key in connected:
                made = _connected(asked, *connected[key], problem)
            else:
                made = _away(asked, key, neighbours[key], problem or self._problems.get(key))
            return {**made, "name": made["name"] or keys.get(key, "")}

        return page_of([*connected, *(bytes(key) for key in neighbours if bytes(key) not in connected)], argument, row)


def _connected(asked: CycleView, link: Link, writer: LinkWriter, invited: str | None) -> dict[str, Any]:
    """Return the row of an open link. `invited`: what is wrong with this node's rights there by an invitation."""
    directory, measured = asked.router.directory, asked.open_links.measured.get(link.id)
    formerly = asked.router.guests.formerly(link.key) if link.standing in UNKNOWN else ("", "")
    return {
        "address": link.key.hex(),
        "name": directory.name_of(link.key) or formerly[0],
        "state": "connected",
        "standing": link.standing.value,
        "where": writer.where,
        "in_flight": link.outgoing.in_flight,
        "rtt_ms": measured and measured.rtt_ns / 1e6,
        "offset_ms": measured and measured.offset_ns / 1e6,
        "uplink": link.uplink,
        "app": link.app,
        "life": link.run.life if link.run is not None else None,
        "grants": sorted(directory.grants(link.key)),
        **_entry(directory.neighbours.get(link.key)),
        **_formerly(directory, link.key),
        "last_contact_s": 0.0,
        "shared": _shared(asked, link.key, link.uplink),
        "problem": (
            formerly[1]
            or next(filter(None, _of_key(asked, link.key)), "")
            or invited
            or clock_first(_apart(asked, measured), writer.problem or _unjoined(asked, link.key, link.uplink))
        ),
    }


def _away(asked: CycleView, key: bytes, known: Neighbour, problem: str | None) -> dict[str, Any]:
    """Return the row of a neighbour without a link. `problem`: why it has none."""
    return {
        "address": key.hex(),
        "name": known.name,
        "state": "blocked" if known.blocked else "away",
        "standing": (asked.router.directory.standing(key, False) or Standing.PEER).value,
        "where": ", ".join(known.urls),
        "in_flight": 0,
        "rtt_ms": None,
        "offset_ms": None,
        "uplink": known.uplink,
        "grants": sorted(known.grants),
        **_entry(known),
        **_formerly(asked.router.directory, key),
        "last_contact_s": asked.open_links.away_s(key, asked.now()),
        "shared": _shared(asked, key, known.uplink),
        "problem": "; ".join(filter(None, (*_of_key(asked, key), _not_kept(asked, key), problem))) or None,
    }


def _of_key(asked: CycleView, key: bytes) -> tuple[str, str]:
    """Return what is wrong with who has this key: two run with it, or two claim its place; "" for what is not."""
    return asked.router.copies.problem_of(key), asked.router.succeeding.problem_of(key)


def _entry(known: Neighbour | None) -> dict[str, Any]:
    """Return the origin of a neighbour, the Unix second until which it is one (0: without an end), its URLs, and those
    at which it is by its own word."""
    if known is None:
        return {"learned": None, "until_s": 0, "urls": [], "said_urls": []}
    return {
        "learned": known.learned,
        "until_s": known.until_s,
        "urls": list(known.urls),
        "said_urls": list(known.said_urls),
    }


def _formerly(directory: Directory, key: bytes) -> dict[str, Any]:
    """Return the keys that a neighbour has had before, the newest first; nothing if it has had one only."""
    formers = directory.successors.formers(key)
    return {"formerly": [one.hex() for one in formers]} if formers else {}


def _shared(asked: CycleView, key: bytes, is_uplink: bool) -> int:
    """Return how many groups a neighbour has in common with this node: those joined here or there, or agreed on."""
    router = asked.router
    here = router.groups.joined_by(key) | router.directory.agreements.shared(key).groups
    return max(len(here), router.upstream.joined_at(key)[0] if is_uplink else 0)


def _unjoined(asked: CycleView, key: bytes, is_uplink: bool) -> str | None:
    """Describe the groups that this uplink has not let us join; None if there are none."""
    joined, wanted = asked.router.upstream.joined_at(key) if is_uplink else (0, 0)
    if joined == wanted:
        return None
    return f"it has let us join {joined} of {wanted} groups; its operator grants `join`"


def clock_first(apart: str | None, other: str | None) -> str | None:
    """Return what is wrong with a neighbour: a clock that differs before what may follow from it, since what one sends
    is then expired for the other."""
    if apart is None or not other:
        return apart or other or None
    said = other.partition("; ")[0]
    return f"{apart}, and {said}; set the clock that is wrong first (`timedatectl` on both)"


def _not_kept(asked: CycleView, key: bytes) -> str:
    """Return a sentence if nothing is kept for a subscriber while it is away, "" otherwise."""
    router = asked.router
    directory, joined = router.directory, router.groups.joined_by(key)
    if directory.is_blocked(key) or directory.may_store(key) or joined <= directory.lan_groups(key):
        return ""
    count = router.outcomes.missed_by(key, Reason.NOT_KEPT)
    return f"nothing is kept for it while it is away ({count} missed): it has no right `store`"


def _apart(asked: CycleView, measured: Measured | None) -> str | None:
    """Describe the difference between a neighbour's clock and ours; None if it is small or not measured."""
    if measured is None or abs(measured.offset_ns) <= asked.wall.near_ns:
        return None
    return f"its clock is {apart_words(measured.offset_ns)} ours"
