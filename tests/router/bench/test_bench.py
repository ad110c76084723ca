"""The bench on small numbers: its scenarios count the messages that real nodes deliver, and its report states the
measurements."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from router.bench import scenarios, traffic
from router.bench.hostile import OPEN, SETTINGS, besieged
from router.bench.noise import machine
from router.bench.on_a_lan import ANNOUNCEMENTS, on_a_lan, why_not
from router.bench.pair import Pair
from router.bench.report import write_attacks, write_goals
from router.bench.rig import workbench
from router.bench.scenarios import Bench, Shape
from router.bench.strangers import ATTACKS, OF_MEMBERS
from router.bench.yardstick import Yardstick
from router.cli import main
from router.core.log.events import Accepted, decode_events
from router.disk.limits import StoreLimits
from router.disk.store.store import Store

pytestmark = pytest.mark.xdist_group("bench")  # their cores listen on one port


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with workbench() as base:
        signed = traffic.make(base / "traffic", 400, 1024)
        yield Bench(base, Yardstick(10_000.0, 20_000.0, 100.0), signed)
    assert not base.exists()


def test_every_delivery_is_counted(bench: Bench) -> None:
    shape = Shape(publishers=2, subscribers=5, stalled=1, repeat=3, count=400)
    row = scenarios.throughput(bench, "tls", shape)
    assert (row["lost"], row["doubled"], row["refused"]) == (0, 0, 0)
    assert row["deliveries_per_s"] == pytest.approx(row["messages_per_s"] * 5 / 3)
    assert row["ratio_one_core"] == pytest.approx(row["messages_per_s"] / 10_000)
    assert row["messages_per_commit"] > 1
    assert min(row["cpu_us_per_message"], row["client_cpu_us_per_message"], row["rss_mib"]) > 0


def test_a_backlog_comes_back_whole_and_in_order(bench: Bench) -> None:
    row = scenarios.drain(bench, "unix", 400)
    assert (row["lost"], row["doubled"], row["out_of_order"]) == (0, 0, 0)


@pytest.mark.long  # drains twice what the test above drains once
def test_a_backlog_of_parcels_of_one_message_stands_beside_full_ones(bench: Bench) -> None:
    apart = replace(bench, base=Path(tempfile.mkdtemp(dir=bench.base)))
    row = scenarios.backlog(apart, "unix", 200, lambda what: None)
    for name in ("full", "alone"):
        assert (row[f"lost_{name}"], row[f"doubled_{name}"]) == (0, 0)
        assert min(row[f"rss_mib_{name}"], row[f"start_s_{name}"]) > 0
    parcels = []
    for home in apart.base.iterdir():
        store = Store(home / "store", StoreLimits(), bytes(16))
        events = [event for _, value in store.log_values(0, 10_000) for event in decode_events(value)[2]]
        parcels.append(sum(isinstance(event, Accepted) for event in events))
        store.close()
    full, alone = sorted(parcels)
    assert alone == 200 and full < 20


@pytest.mark.parametrize("program", [pytest.param("router", marks=pytest.mark.long), "router.bench.unlogged"])
def test_a_node_without_a_log_delivers_and_writes_no_event(bench: Bench, program: str) -> None:
    apart = replace(bench, base=Path(tempfile.mkdtemp(dir=bench.base)), program=program)
    row = scenarios.throughput(apart, "unix", Shape(count=400))
    assert (row["lost"], row["doubled"]) == (0, 0)
    [home] = apart.base.iterdir()
    store = Store(home / "store", StoreLimits(), bytes(16))
    assert bool(store.log_values(0, 1)) == (program == "router")
    store.close()


def test_idle_links_and_latency_have_figures(bench: Bench) -> None:
    took = scenarios.latency(bench, "unix", 0.5)
    assert 0 < took["p50_ms"] <= took["p99_ms"] <= took["p999_ms"]
    assert scenarios.idle(bench, "unix", 20)["kib_per_link"] < 1024


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--publishers", "0"], "--publishers"),
        (["--messages", "3", "--publishers", "4"], "3 messages are too few for 4 publishers"),
        (["--report", "x.md"], "--report goes with --goals, --hostile or --meet"),
        (["--attack", "junk"], "--attack goes with --hostile"),
        (["--drain", "1"], "--drain"),
        (["--backlog", "1"], "--backlog"),
        (["--meet", "0"], "--meet"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], said: str) -> None:
    ran = CliRunner().invoke(main, ["bench", *words])
    assert ran.exit_code == 2
    assert said in ran.stderr


GOAL = {"title": "Fast", "told": "1.500", "goal": "at least 2", "verdict": "no", "row": {"rate": 1.5}}
ATTACK = {
    "attack": "junk", "rate": 0.95, "p50": 1.25, "lost_or_refused": 0, "verdict": "yes", "flat_out": 0.8,
    "attackers_cores": 0.3,
}  # fmt: skip


def test_the_report_stands_beside_the_goals_and_keeps_its_other_parts(tmp_path: Path) -> None:
    path = tmp_path / "measured.md"
    path.write_text("# Measured\n\nof an older form\n\n## By hand\n\nkept\n")
    write_attacks(path, [ATTACK], 64, 20.0)
    write_goals(path, [GOAL])
    write_goals(path, [GOAL])
    text = path.read_text()
    assert text.count("| Fast | 1.500 | at least 2 | no |") == text.count("- Fast: rate 1.500") == 1
    assert text.count("| junk | 0.950 | 1.25 | 0 | yes | 0.80 | 0.30 |") == 1
    assert text.index("## Goals") < text.index("## Under attack")
    assert text.count("## By hand\n\nkept\n") == 1
    assert text.count(f"on {machine()}.") == 2 and "older" not in text


QUICK = ("forgeries",)


@pytest.mark.parametrize(
    "attack", [*QUICK, *(pytest.param(one, marks=pytest.mark.long) for one in ATTACKS if one not in QUICK)]
)
async def test_strangers_do_their_harm_and_an_honest_pair_loses_nothing(bench: Bench, attack: str) -> None:
    """Whether the pair is slowed down is measured by the bench, on a quiet machine."""
    members = scenarios.keys(4 if attack in OF_MEMBERS else 0)
    rig = await replace(bench, members=members).rig("unix", [], **OPEN, **SETTINGS.get(attack, {}))
    async with rig.running() as running:
        publisher, subscriber = scenarios.keys(2)
        pair = Pair(bench, running, publisher, subscriber)
        async with besieged(running, attack, members, links=4, bytes_per_s=250_000) as end:
            row = await pair.run(200, 400.0)
            harm = await end()
    assert (row["lost"], row["refused"]) == (0, 0)
    assert harm["links"] >= 1 and harm["mbit_per_s"] > 0


@pytest.mark.long
async def test_under_a_flood_of_datagrams_a_pair_on_a_lan_loses_nothing_and_its_nodes_dial_nobody(bench: Bench) -> None:
    """Whether the pair is slowed down is measured by the bench, on a quiet machine."""
    if reason := why_not():
        pytest.skip(reason)
    async with on_a_lan(replace(bench, base=Path(tempfile.mkdtemp(dir=bench.base)))) as lan:
        dials, heard = lan.counted("Tcp", "ActiveOpens"), lan.counted("Udp", "InDatagrams")
        async with lan.flooded(per_s=2_000.0) as end:
            row = await lan.pair.run(300, 150.0)
            harm = await end()
        heard = lan.counted("Udp", "InDatagrams") - heard
        assert (row["lost"], row["refused"]) == (0, 0)
        assert lan.counted("Tcp", "ActiveOpens") == dials
        assert heard > harm["datagrams_per_s"] * harm["seconds"], "both nodes hear nearly all"
        for node in lan.nodes:
            assert [one["standing"] for one in await node.rig.ask("peers")].count("met") == 1


@pytest.mark.long
async def test_beside_announcements_of_ever_new_keys_a_pair_on_a_lan_loses_nothing_and_a_new_node_is_met(
    bench: Bench,
) -> None:
    """How soon is measured by the bench, and by value in the tests of discovery."""
    if reason := why_not():
        pytest.skip(reason)
    async with on_a_lan(replace(bench, base=Path(tempfile.mkdtemp(dir=bench.base)))) as lan:
        async with lan.flooded(ANNOUNCEMENTS) as end:
            row = await lan.pair.run(300, 150.0)
            assert await lan.newcomer_s() > 0
            await end()
        assert (row["lost"], row["refused"]) == (0, 0)


def test_a_flood_that_was_left_out_stands_in_the_report_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "measured.md"
    write_attacks(path, [{"attack": "datagrams", "met": None, "verdict": "left out: no namespaces"}], 64, 20.0)
    assert "| datagrams |  |  |  | left out: no namespaces |  |  |" in path.read_text()
