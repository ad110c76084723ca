"""Commands that somebody runs at another node are told without the home of this one."""

from __future__ import annotations

import click
import pytest

from router.cli.command import Invocation
from router.cli.exits import with_home
from router.cli.output import facts
from router.cli.publish import IS_ROUTER
from router.cli.top.screen import _said
from router.core.control.node_copies import NEIGHBOUR
from router.doctor.network_checks import NOBODY_HEARD
from router.overview.notices import Notice
from router.why.answers import WHERE_ELSE


@pytest.mark.parametrize("said", [NEIGHBOUR, WHERE_ELSE, IS_ROUTER, NOBODY_HEARD])
def test_a_command_at_another_node_has_not_this_home(said: str) -> None:
    assert "`router " in said and with_home(said, "hub") == said


def test_a_command_at_this_node_has_its_home() -> None:
    assert with_home("`router peer list` shows them; `router id` there", "my hub") == (
        "`router --home 'my hub' peer list` shows them; `router id` there"
    )
    assert with_home("`router id` on the other node prints it", "hub") == "`router id` on the other node prints it"


def test_commands_in_a_status_and_in_top_are_those_for_the_home_that_was_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Typed as it was said, `router copy keep` acted on another home."""
    with click.Context(click.Command("router"), obj=Invocation(home_option="my hub")):
        facts([("copy", "stopped; `router copy keep` makes it the one that stays")])
        drawn = _said(Notice("bad", "This home was copied.", "`router copy keep` makes it the one that stays."))
    for text in (capsys.readouterr().out, drawn):
        assert "`router --home 'my hub' copy keep` makes it" in text
