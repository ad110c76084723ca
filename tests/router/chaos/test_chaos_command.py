"""What the command refuses before it starts anything."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from router.chaos.command import chaos
from router.cli.exits import Exit


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--minutes", "0"), "a round takes at least 5 seconds, not 0"),
        (("--seconds", "0"), "a round takes at least 5 seconds, not 0"),
        (("--seconds", "nan"), "'nan' is no number of seconds"),
        (("--minutes", "1", "--seconds", "9"), "leave one of them out"),
    ],
)
def test_how_long_a_round_takes_is_said_once_and_is_long_enough(given: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(chaos, given)
    assert done.exit_code == Exit.USAGE and said in done.stderr
