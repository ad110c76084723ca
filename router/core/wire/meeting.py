"""Meetings: how two services of one role find out which groups both their routers want (R-D20).

    MEET {"n"}      MET {"n" "to" "tags"}, both ways      n: own nonce      to: the other's

A tag stands for a group: a digest of it, both routers' keys and both nonces. The sender's key comes first, so a tag
cannot be relayed; the nonces are fresh, so it cannot be replayed. A group's key has 256 bits, so its tag tells nothing
to someone who does not know it. Tags are padded with random ones, and sorted, so their order tells nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from . import shape
from .crypto import PublicKey, digest

NONCE_BYTES = 16
TAG_BYTES = 16
TAGS_MAX = 1024
TAGS_STEP = 32  # their number is a multiple of this
FILLER_BYTES = TAG_BYTES * TAGS_STEP
MET_ITEMS_MAX = TAGS_MAX + 7

BY_RANGES = digest(b"upsycle agree by ranges 1")
"""Stands among the groups of a service that also agrees on more groups than a meeting compares, by ranges: its tag says
so to those that know of it, and is a random one to all others."""

_TAG_LABEL = b"upsycle meet 1"
_TOPIC_LABEL = b"upsycle topic 1"


class Meet(Struct, frozen=True):
    """A wish to meet, with a fresh nonce of the sender."""

    nonce: bytes


class Met(Struct, frozen=True):
    """The sender's nonce, the nonce that it answers, and the tags of its groups."""

    nonce: bytes
    to: bytes
    tags: tuple[bytes, ...]


class Meeting(Struct, frozen=True):
    """The keys of two routers, and the nonces: `first` of the one that sent MEET, `second` of the one that answered."""

    own: PublicKey
    other: PublicKey
    first: bytes
    second: bytes

    def tags(self, groups: Collection[bytes], filler: bytes) -> tuple[bytes, ...]:
        """Return the tags to send to the other end: one for each wanted group, padded. `filler`: 512 fresh random
        bytes."""
        if len(filler) != FILLER_BYTES:
            raise ValueError(f"tags are padded from {FILLER_BYTES} random bytes, not {len(filler)}")
        found = [_tag(self.own, self.other, self, group) for group in groups]
        if len(found) > TAGS_MAX:
            raise ValueError(f"a meeting is about at most {TAGS_MAX} groups, not {len(found)}")
        padding = -len(found) % TAGS_STEP if found else TAGS_STEP
        found += [filler[at : at + TAG_BYTES] for at in range(0, TAG_BYTES * padding, TAG_BYTES)]
        return tuple(sorted(found))

    def shared(self, groups: Collection[bytes], tags: Collection[bytes]) -> list[bytes]:
        """Return the given groups that the other end wants too, according to the tags that it sent."""
        told = frozenset(tags)
        return [group for group in groups if _tag(self.other, self.own, self, group) in told]

    def topic(self, group: bytes) -> bytes:
        """Return the topic by which both ends name a shared group from then on."""
        return digest(_TOPIC_LABEL + self.first + self.second + group)[:TAG_BYTES]


def _tag(sender: bytes, receiver: bytes, meeting: Meeting, group: bytes) -> bytes:
    return digest(_TAG_LABEL + sender + receiver + meeting.first + meeting.second + group)[:TAG_BYTES]


def meet_fields(meet: Meet) -> shape.Fields:
    return {"n": meet.nonce}


def met_fields(met: Met) -> shape.Fields:
    return {"n": met.nonce, "to": met.to, "tags": list(met.tags)}


def read_meet(value: Any) -> Meet:
    """Return the MEET in a decoded map; else raise `Malformed`."""
    return Meet(nonce(shape.fields(value, "MEET", ("n",))["n"], "n"))


def read_met(value: Any) -> Met:
    """Return the MET in a decoded map; else raise `Malformed`."""
    found = shape.fields(value, "MET", ("n", "to", "tags"))
    tags = shape.array(found["tags"], "tags", 0, TAGS_MAX)
    return Met(
        nonce(found["n"], "n"), nonce(found["to"], "to"), tuple([shape.octets(one, "a tag", TAG_BYTES) for one in tags])
    )


def nonce(value: Any, name: str) -> bytes:
    return shape.octets(value, name, NONCE_BYTES)
