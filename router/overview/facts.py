"""What the router tells of itself, as values: its answers to `status`, `peers`, `queue`, `groups` and `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from router.core.wire.text import key_text, short

CONNECTED, AWAY, BLOCKED = "connected", "away", "blocked"
LOCAL, STRANGER = "local", "stranger"


class ServiceRow(Struct, frozen=True):
    """A service of the node. `problem_age_s`: how long ago its problem was."""

    name: str
    address: str = ""
    state: str = ""
    run: str = ""
    starts: int = 0
    problem: str = ""
    problem_age_s: float | None = None


class CopyFacts(Struct, frozen=True):
    """What is known of another node with this node's key. `barred`: it was started later, so this one has stopped."""

    barred: bool = False
    problem: str = ""


class SupersededFacts(Struct, frozen=True):
    """Where another key has this node's place: the sentence with the remedy."""

    problem: str = ""


class AlarmRow(Struct, frozen=True):
    """What the node finds wrong with itself. `level`: `bad` or `warning`; `alarm`: its kind; `peer`: the recipient that
    it is about, "" if it is about none, or several."""

    level: str = ""
    text: str = ""
    alarm: str = ""
    peer: str = ""


class Status(Struct, frozen=True):
    """The node at a glance."""

    address: str = ""
    role: str = ""
    name: str = ""
    uptime_s: float = 0.0
    services: tuple[ServiceRow, ...] = ()
    copy: CopyFacts | None = None
    superseded: SupersededFacts | None = None
    alarms: tuple[AlarmRow, ...] = ()

    @property
    def title(self) -> str:
        """Return the name of the node, or the beginning of its key."""
        return self.name or short_address(self.address) or "this node"


class PeerRow(Struct, frozen=True):
    """A neighbour or an app. `last_contact_s`: seconds since it was last connected, None if it never was."""

    address: str
    name: str = ""
    state: str = AWAY
    standing: str = ""
    where: str = ""
    in_flight: int = 0
    rtt_ms: float | None = None
    uplink: bool = False
    last_contact_s: float | None = None
    problem: str | None = None

    @property
    def title(self) -> str:
        return self.name or short_address(self.address)

    @property
    def is_well(self) -> bool:
        return self.state == CONNECTED and not self.problem


class WaitingRow(Struct, frozen=True):
    """What waits for one recipient."""

    recipient: str
    name: str = ""
    messages: int = 0
    bytes: int = 0
    oldest_s: float | None = None
    limit_messages: int = 0
    limit_bytes: int = 0

    @property
    def title(self) -> str:
        return self.name or short_address(self.recipient)

    @property
    def share(self) -> float:
        """Return how full it is, from 0 to 1."""
        return max(share(self.messages, self.limit_messages), share(self.bytes, self.limit_bytes))


class GroupRow(Struct, frozen=True):
    """A member of a group: an app of this node (`local`), or a router."""

    group: str
    subscriber: str
    local: bool = False
    name: str = ""
    subscriber_name: str = ""


class NodeQueue(Struct, frozen=True):
    """What waits at this node in all, and how much may."""

    messages: int = 0
    bytes: int = 0
    messages_max: int = 0
    bytes_max: int = 0

    @property
    def share(self) -> float:
        """Return how full it is, from 0 to 1."""
        return max(share(self.messages, self.messages_max), share(self.bytes, self.bytes_max))


class Counted(Struct, frozen=True):
    """A histogram as the node tells it: how many values are at most as large as each bound, in seconds; `count`: how
    many there are."""

    bounds: tuple[float, ...] = ()
    within: tuple[int, ...] = ()
    count: int = 0


class Waits(Struct, frozen=True):
    """How long it took to deliver a message, and to commit; how late the node's loop came to what was due."""

    delivery: Counted = Counted()
    commit: Counted = Counted()
    loop_lag: Counted = Counted()


class StoreRoom(Struct, frozen=True):
    """The bytes that the store takes, and those that it may take."""

    used_bytes: int = 0
    bytes_max: int = 0


class DiskRoom(Struct, frozen=True):
    """The bytes that are free on the disk of the store, and those that the node leaves free."""

    free_bytes: int = 0
    free_bytes_min: int = 0


class Metrics(Struct, frozen=True):
    """Counts since the node's start by event and reason, without those of services, what waits, and why the node is
    not ready. `log_behind`: events that no file of the log holds yet."""

    messages: tuple[tuple[str, str, int], ...] = ()
    queue: NodeQueue = NodeQueue()
    unready: tuple[tuple[str, str], ...] = ()
    resident_bytes: int = 0
    seconds: Waits = Waits()
    store: StoreRoom = StoreRoom()
    disk: DiskRoom = DiskRoom()
    log_behind: int = 0


class NodeFacts(Struct, frozen=True, dict=True):
    """All facts of a node. `problem`: why the router has not answered, "" if it has."""

    status: Status = Status()
    peers: tuple[PeerRow, ...] = ()
    queues: tuple[WaitingRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    metrics: Metrics = Metrics()
    problem: str = ""

    @cached_property
    def peer_of(self) -> Mapping[str, PeerRow]:
        """Return the neighbours and apps by their keys."""
        return {one.address: one for one in self.peers}

    def name_of(self, key: str) -> str:
        """Return the name of a neighbour, an app or a service, "" if it has none."""
        return self._names.get(key, "")

    @cached_property
    def _names(self) -> Mapping[str, str]:
        rows = [(one.recipient, one.name) for one in self.queues] + [(one.address, one.name) for one in self.peers]
        joined = [(one.subscriber, one.subscriber_name) for one in self.groups]
        services = [(one.address, f"service-{one.name}") for one in self.status.services]
        return {key: name for key, name in (*services, *joined, *rows) if name}

    def group_name(self, key: str) -> str:
        """Return the name of a group that is joined here, "" if it has none."""
        return next((one.name for one in self.groups if one.group == key), "")


FORMS: Mapping[str, tuple[str, Any]] = {
    "metrics": ("metrics", Metrics),
    "queue": ("queues", tuple[WaitingRow, ...]),
    "status": ("status", Status),
    "peers": ("peers", tuple[PeerRow, ...]),
    "groups": ("groups", tuple[GroupRow, ...]),
}
"""The field of the facts that each question fills, and its form."""


def with_answer(facts: NodeFacts, word: str, answer: Any) -> NodeFacts:
    """Return the facts with the router's answer to this question. Raises `msgspec.ValidationError`."""
    field, form = FORMS[word]
    found: NodeFacts = msgspec.structs.replace(facts, **{field: msgspec.convert(answer, form, strict=False)})
    return found


def share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def address(key: str) -> str:
    """Return the address of a key in hex, which commands take; a text that is no key is returned as it is."""
    try:
        return key_text("addr", bytes.fromhex(key))
    except ValueError:
        return key


def short_address(key: str) -> str:
    """Return the beginning of the address of a key in hex, "" for none."""
    return short(address(key)) if key else ""


def short_key(key: str) -> str:
    """Return the beginning of a key, "" for none."""
    return f"{key[:8]}…" if key else ""
