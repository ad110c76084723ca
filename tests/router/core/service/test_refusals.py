"""Refused input is counted by its sender, in a bounded number of rows."""

from __future__ import annotations

from samples.core import ALICE

from router.core.service.refusals import Refusals
from router.core.wire.reasons import Reason


def test_each_router_network_and_reason_has_a_row_until_it_is_taken() -> None:
    one = Refusals()
    one.count(Reason.MALFORMED, by=ALICE.public)
    one.count(Reason.MALFORMED, 4, by=ALICE.public)
    one.count(Reason.MALFORMED, prefix="192.0.2.0/24")
    assert one.by_reason() == {Reason.MALFORMED: 6}
    assert one.take() == [
        (Reason.MALFORMED, {"router": ALICE.public.hex(), "times": 5}),
        (Reason.MALFORMED, {"prefix": "192.0.2.0/24", "times": 1}),
    ]
    assert not len(one) and one.take() == []


def test_beyond_the_rows_a_reason_is_counted_as_one_and_nothing_is_lost() -> None:
    one = Refusals(most=2)
    for number in range(1_000):
        one.count(Reason.MALFORMED, prefix=f"10.0.{number % 256}.0/24")
        one.count(Reason.RATE_LIMITED, by=number.to_bytes(32, "big"))
    assert len(one) == 4
    assert one.by_reason() == {Reason.MALFORMED: 1_000, Reason.RATE_LIMITED: 1_000}
    assert {"router": "", "times": 999} in [row.fields for row in one.take()]
