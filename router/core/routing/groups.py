"""Subscriptions of keys to groups (specification, "Multicast routing"; R-C12..C14, R-C16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from .fanned import FannedGroups, FanTerms


class Subscription(Struct, frozen=True):
    """One key's membership of one group. `local`: it asks for no join upstream; `durable`: it outlives the
    connection."""

    group: bytes
    subscriber: bytes
    local: bool
    durable: bool


class Groups:
    """Subscriptions by group and by subscriber, in the order of joining. The caller limits groups per client.

    `overlay`: the key of the service with that role, whose own subscriptions make no group wanted or local (R-C12,
    R-C13). `fanning`: the service that is given what is published in groups that nobody here reads; None: nobody is.
    `fanned`: these groups."""

    def __init__(self, overlay: bytes | None = None) -> None:
        self._overlay = overlay
        self._declined: set[bytes] = set()
        self._ids_only: set[bytes] = set()
        self._members: dict[bytes, dict[bytes, Subscription]] = {}
        self._joined: dict[bytes, set[bytes]] = {}
        self.fanning: bytes | None = None
        self.fanned = FannedGroups(lambda group: self.get(group, self.fanning or b"") is not None)
        self.revision = 0

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._members.values()))} subscriptions to {len(self._members)} groups>"

    def __iter__(self) -> Iterator[Subscription]:
        return (one for members in self._members.values() for one in members.values())

    def __len__(self) -> int:
        return len(self._members)

    def members(self, group: bytes) -> tuple[bytes, ...]:
        return tuple(self._members.get(group, ()))

    def get(self, group: bytes, subscriber: bytes) -> Subscription | None:
        return self._members.get(group, {}).get(subscriber)

    @property
    def subscribers(self) -> tuple[bytes, ...]:
        return tuple(self._joined)

    def joined_by(self, subscriber: bytes) -> frozenset[bytes]:
        return frozenset(self._joined.get(subscriber, ()))

    def count_of(self, subscriber: bytes) -> int:
        """Return how many groups a subscriber has joined."""
        return len(self._joined.get(subscriber, ()))

    def add(self, subscription: Subscription) -> bool:
        """Join, replacing an earlier JOIN of the subscriber, and return whether anything changed.

        A JOIN of the pub/sub service asks for whole messages, until it says otherwise."""
        if subscription.subscriber == self._overlay:
            self.tell_ids(subscription.group, False)
        elif not subscription.local:
            self.fanned.end(subscription.group)
        members = self._members.setdefault(subscription.group, {})
        if members.get(subscription.subscriber) == subscription:
            return False
        members[subscription.subscriber] = subscription
        self._joined.setdefault(subscription.subscriber, set()).add(subscription.group)
        self.revision += 1
        return True

    def remove(self, group: bytes, subscriber: bytes) -> bool:
        """Leave, and return whether anything changed: leaving without having joined changes nothing (R-C15)."""
        members = self._members.get(group, {})
        if members.pop(subscriber, None) is None:
            return False
        if subscriber == self._overlay:
            self._ids_only.discard(group)
            self.fanned.end(group)
        if not members:
            del self._members[group]
            self._declined.discard(group)
        self._joined[subscriber].discard(group)
        if not self._joined[subscriber]:
            del self._joined[subscriber]
        self.revision += 1
        return True

    def wanted(self) -> list[bytes]:
        """Return the groups with a subscription that is not local: those to join upstream (R-C14, R-C23)."""
        return [group for group in self._members if self.is_wanted(group)]

    def is_wanted(self, group: bytes) -> bool:
        """Whether a neighbour has subscribed to the group, not only apps and services of this node."""
        return any(not one.local for one in self._counted(group))

    def awaited(self, group: bytes) -> bytes | None:
        """Return the pub/sub service if it was told that the group is wanted and has neither joined nor declined
        yet."""
        if self._overlay is None or group in self._declined or self._overlay in self._members.get(group, ()):
            return None
        return self._overlay if self.is_wanted(group) else None

    def decline(self, group: bytes) -> None:
        """Record that the pub/sub service takes no part in a group, until nobody subscribes to it."""
        if group in self._members:
            self._declined.add(group)
            self.revision += 1

    def tell_ids(self, group: bytes, on: bool) -> None:
        """Record whether the pub/sub service, if it has joined, is told the ids of what apps here publish,
        instead of being given the messages."""
        before = group in self._ids_only
        if on and self._overlay in self._members.get(group, ()):
            self._ids_only.add(group)
        else:
            self._ids_only.discard(group)
        self.revision += before is not (group in self._ids_only)

    def fan_out(self, service: bytes | None, terms: FanTerms | None = None) -> None:
        """Record the service that is given what is published in groups that nobody here reads, and on which terms."""
        self.revision += 1
        self.fanning = service
        self.fanned.agree(terms)

    def may_fan_out(self, group: bytes, publisher: bytes, is_client: bool) -> bool:
        """Whether that service takes a message that it alone is given; in a group that is read here, always."""
        return self.is_wanted(group) or self.fanned.takes(group, publisher, is_client)

    def begin_fan_out(self, group: bytes, publisher: bytes, is_client: bool, now_s: float) -> None:
        """Count a group in which such a message was accepted."""
        if not self.is_wanted(group) and self.fanned.begin(group, publisher, is_client, now_s):
            self.revision += 1

    def sweep_fan_out(self, now_s: float) -> None:
        """Forget the groups that were counted so and that the service has not joined in time."""
        self.revision += self.fanned.sweep(now_s)

    def told_ids(self, group: bytes) -> bytes | None:
        """Return the pub/sub service if it is told ids of this group; else None."""
        return self._overlay if group in self._ids_only else None

    def is_local_only(self, group: bytes, may_say: Callable[[bytes], bool]) -> bool:
        """Whether the group's messages stay on this node (R-C14).

        Every subscription must be local, and at least one must be of a subscriber for which `may_say` is true."""
        return not self.is_wanted(group) and any(may_say(one.subscriber) for one in self._counted(group))

    def _counted(self, group: bytes) -> Iterator[Subscription]:
        """Yield the subscriptions except the pub/sub service's."""
        return (one for one in self._members.get(group, {}).values() if one.subscriber != self._overlay)
