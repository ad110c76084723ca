"""What is wrong with a neighbour: of several causes the one that others follow from comes first."""

from __future__ import annotations

import pytest

from router.node.questions.peers import clock_first

APART = "its clock is 2.0 hours behind ours"
UNJOINED = "it has let us join 0 of 1 groups; its operator grants `join`"


@pytest.mark.parametrize(
    ("apart", "other", "said"),
    [
        (None, None, None),
        (None, "", None),
        (APART, None, APART),
        (None, UNJOINED, UNJOINED),
        (
            APART,
            UNJOINED,
            f"{APART}, and it has let us join 0 of 1 groups; set the clock that is wrong first (`timedatectl` on both)",
        ),
    ],
)
def test_a_clock_that_differs_is_told_before_a_right_that_seems_to_lack(
    apart: str | None, other: str | None, said: str | None
) -> None:
    """A request to join expires, so a neighbour with another clock refuses it whatever it grants."""
    assert clock_first(apart, other) == said
