"""That copies were taken is dealt with together, by rules that are asked how long they may wait and for what."""

from __future__ import annotations

import pytest
from rigs.pubsub_sides import NOW, Side

from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.pubsub.core.sending.forwarding import ForwardingLimits

ROUTER = SigningKey(bytes((41, 1)) * 16).public
COPY = f"copy {ROUTER.hex()}"
ID = MessageId(bytes(32))

HEARD: dict[str, tuple[c.Heard, bool]] = {
    "taken": (c.HopOutcome(COPY, ID, ROUTER, "acked"), False),
    "known": (c.HopOutcome(COPY, ID, ROUTER, "acked", was_known=True), False),
    "refused": (c.HopOutcome(COPY, ID, ROUTER, "refused", Reason.QUEUE_FULL_NODE), True),
    "of another part": (c.HopOutcome("", ID, ROUTER, "acked"), True),
    "message": (c.Message(ID, b"", group=ROUTER), True),
    "time": (c.Tick(), True),
}


@pytest.mark.parametrize(("heard", "is_urgent"), HEARD.values(), ids=HEARD)
def test_all_but_a_copy_that_was_taken_is_urgent(heard: c.Heard, *, is_urgent: bool) -> None:
    assert Side(1).rules.is_urgent(heard, NOW) is is_urgent


@pytest.mark.parametrize("mode", ["leaf", "overlay"])
def test_what_was_taken_waits_for_less_time_than_a_copy_has_to_be_taken(mode: str) -> None:
    assert 0 < Side(1, mode=mode).rules.batch_delay_s(NOW) < ForwardingLimits().failover_s / 10
