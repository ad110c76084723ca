"""The reasons of the DMQ node: in its range, one for each fault, and a retry helps where the node lacks something."""

from __future__ import annotations

from router.core.wire.reasons import Reason, reason_from
from router.service.plugins import load_reasons
from services.dmq import reasons
from services.dmq.core.messages.fault import Fault


def test_each_fault_has_a_reason_of_its_own() -> None:
    load_reasons("services.dmq")  # it checks their range
    declared = {int(one) for one in vars(reasons).values() if isinstance(one, Reason)}
    ends = {int(reasons.SET_ASIDE), int(reasons.CONSUMER_GONE), int(reasons.SPACING)}
    assert declared - ends == {*range(64, 81), 83} == {int(fault.reason) for fault in Fault}
    assert all(reason_from(number).word.startswith("dmq:") for number in declared)
    later = {fault.value for fault in Fault if fault.reason.later}
    assert later == {"NotInitialized", "MempoolFull", "PoolFull", "PoolPaceFull", "DiskFull"}
