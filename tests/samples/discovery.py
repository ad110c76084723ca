"""Values of every message of discovery with fixed keys, shared by several tests."""

from __future__ import annotations

from router.core.wire.meeting import FILLER_BYTES, Meet, Meeting, Met
from samples.core import ADDRESSES, ADVERTISEMENTS, ALICE, BOB, GROUP
from services.discovery.core.messages import Dialled, DialMe, Entry, Message, Named, Sample, Sampled

FIRST, SECOND = b"f" * 16, b"s" * 16
FILLER = bytes(range(256)) * (FILLER_BYTES // 256)
MEETING = Meeting(ALICE.public, BOB.public, FIRST, SECOND)
ENTRIES = (Entry(0, ADVERTISEMENTS[0]), Entry(24, ADVERTISEMENTS[1]), Entry(255, ADVERTISEMENTS[0]))

MESSAGES: tuple[Message, ...] = (
    Sample(ENTRIES[:1]),
    Sample(ENTRIES[::2]),
    Sampled(()),
    Sampled(ENTRIES[1:2]),
    Meet(FIRST),
    Met(SECOND, FIRST, ()),
    Met(FIRST, SECOND, MEETING.tags([GROUP.public], FILLER)[:2]),
    DialMe(FIRST, 4101),
    Dialled(FIRST, ADDRESSES[0]),
    Named("anns-laptop"),
    Named(""),
    Dialled(FIRST, ADDRESSES[1], 22, "connection refused"),
)
