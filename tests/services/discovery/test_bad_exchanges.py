"""Input refused by sampling and on the LAN: the sentence of each, and the reason that is logged."""

from __future__ import annotations

import pytest

from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import ADVERT_STALE, Reason
from services.discovery.core.refusals import RouterRefusals
from services.discovery.core.sampling import Cause

BY = SigningKey(b"b" * 32).public


@pytest.mark.parametrize(
    ("cause", "said", "reason"),
    [
        ("UNASKED", "an answer to no question of ours, or after its time", Reason.NOT_AUTHORISED),
        ("OVERSIZED", "more entries than an exchange has", Reason.TOO_LARGE),
        ("EMPTY", "a question without an entry", Reason.MALFORMED),
        (
            "NOT_ITS_OWN", "a question that does not begin with the asker's own entry at age 0", Reason.NOT_AUTHORISED,
        ),
        ("OWN_KEY", "a question in this node's own name", Reason.NOT_AUTHORISED),
        ("EXPIRED", "an advertisement that has expired", Reason.EXPIRY_PASSED),
        ("REPEATED", "a key for the second time in one exchange", Reason.DUPLICATE),
        ("TOO_SOON", "a second question of that key or public prefix in a period", Reason.RATE_LIMITED),
        ("TOO_MANY", "a question beyond those that are remembered in a period", Reason.RATE_LIMITED),
        ("NOT_MERGED", "entries of others in a question after the first few of a period", None),
    ],
)  # fmt: skip
def test_each_cause_has_a_sentence_and_a_reason(cause: str, said: str, reason: Reason | None) -> None:
    assert (Cause[cause].value, len(Cause)) == (said, 10)
    refusals = RouterRefusals()
    refusals.drop(BY, Cause[cause], 3)
    assert [found for found, _ in refusals.take()] == ([reason] if reason else [])


def test_an_older_revision_is_nobodys_fault() -> None:
    refusals = RouterRefusals()
    refusals.refuse(BY, ADVERT_STALE)
    assert refusals.take() == []
