"""The services of a node: it waits until they have opened their doors, and takes one of each role."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from router.core.wire.errors import CAUSE_CHARS_MAX
from router.node.residents import OPEN_S, STOPPED, Residents
from router.service.plugins import UnknownService
from router.service.reports import OPENED, WARNING
from router.settings import config
from router.settings.home import Home


@pytest.mark.parametrize(
    ("service", "waited_s"),
    [
        ('"services.pubsub"', OPEN_S),
        ('{ name = "sub", module = "services.pubsub", run = "apart" }', 0.0),
        ('"services.capd"', 0.0),
        ('"services.web"', OPEN_S),
    ],
    ids=["as the service says", "apart", "apart, as the service says", "apart, with an address to print"],
)
async def test_it_waits_for_services_inside_or_with_an_address_until_they_have_opened(
    tmp_path: Path, service: str, waited_s: float, autojump_clock: MockClock
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text(f"[node]\nservices = [{service}]\n")
    residents = Residents(home, config.load(home.config_path)[0])
    began_s = trio.current_time()
    await residents.until_open()
    assert trio.current_time() - began_s == pytest.approx(waited_s)


async def test_it_waits_no_longer_when_a_service_apart_has_reported_its_doors_open(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["services.web"]\n')
    residents = Residents(home, config.load(home.config_path)[0])
    assert residents.hear_report("web", OPENED, "")
    began_s = trio.current_time()
    await residents.until_open()
    assert trio.current_time() == began_s and not residents.facts(frozenset())[0]["problem"]


def test_residents_with_the_same_role_are_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    services = '["services.discovery", "services.pubsub", {name = "topics", module = "services.pubsub"}]'
    home.config_path.write_text(f"[node]\nservices = {services}\n")
    said = '^the services "pubsub" and "topics" both have the role overlay, of which a node has one; take one'
    with pytest.raises(UnknownService, match=said):
        Residents(home, config.load(home.config_path)[0])


def test_reports_are_shown_as_one_line_of_bounded_length(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["services.echo"]\n')
    residents = Residents(home, config.load(home.config_path)[0])
    assert residents.hear_report("echo", WARNING, "red \x1b[31m\nand" + 9_000 * "!")
    [row] = residents.facts(frozenset())
    assert row["problem"].startswith("red  [31m and!!!") and len(row["problem"]) == CAUSE_CHARS_MAX


def test_residents_of_a_stopped_copy_say_why_none_of_them_runs(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["services.echo"]\n')
    residents = Residents(home, config.load(home.config_path)[0])
    residents.rest()
    [row] = residents.facts(frozenset())
    assert (row["state"], row["problem"]) == ("away", STOPPED)
