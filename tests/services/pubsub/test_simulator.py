"""The simulator's parts: time and links, receipts, figures and goals, the drawing, the command."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from router.cli import main
from services.pubsub.simulation.broadcast import Broadcast, Reach, mean_reach
from services.pubsub.simulation.drawing import COLOURS, draw
from services.pubsub.simulation.engine import DELAY_S, Engine, Links
from services.pubsub.simulation.figures import (
    ALWAYS,
    REACHED,
    Axes,
    Goal,
    Result,
    Scenario,
    ScenarioRun,
    figure_text,
    measure,
)


def test_events_happen_in_the_order_of_time_and_then_of_planning() -> None:
    engine = Engine(1)
    for time_s, node in ((2.0, 1), (1.0, 2), (2.0, 3), (9.0, 4)):
        engine.at(time_s, node, "event")
    happened: list[tuple[float, int]] = []
    engine.run(lambda node, event: happened.append((engine.now_s, node)), until_s=5)
    assert happened == [(1.0, 2), (2.0, 1), (2.0, 3)]
    assert engine.now_s == 5
    engine.run(lambda node, event: engine.after(1, 5, "late") if node == 4 else None)
    assert engine.now_s == 10


def test_the_delay_of_a_link_is_drawn_once_and_holds_both_ways() -> None:
    links = Links(Random(1))
    drawn = [links.delay_s(one, other) for one in range(60) for other in range(one)]
    assert drawn == [links.delay_s(other, one) for one in range(60) for other in range(one)]
    assert DELAY_S[0] <= min(drawn) < 0.02 < 0.19 < max(drawn) <= DELAY_S[1]
    assert sum(drawn) / len(drawn) == pytest.approx(sum(DELAY_S) / 2, rel=0.05)
    assert drawn != [Links(Random(2)).delay_s(one, other) for one in range(60) for other in range(one)]


def test_a_link_loses_as_many_as_it_is_told() -> None:
    lossy, whole = Links(Random(1), loss=0.05), Links(Random(1))
    assert 0.04 < sum(lossy.loses() for _ in range(10_000)) / 10_000 < 0.06
    assert not any(whole.loses() for _ in range(100))


def test_a_broadcast_counts_first_receipts_and_copies() -> None:
    broadcast = Broadcast(0, 10.0)
    assert broadcast.received(1, 1, 10.5)
    assert not broadcast.received(1, 2, 11.0)
    assert not broadcast.received(0, 2, 11.0)
    assert broadcast.received(2, 3, 12.0)
    assert broadcast.reach([0, 1, 2, 3]) == Reach(0.75, 1.0, 3, 2.0)
    assert broadcast.reach([3]) == Reach(0, 0, 0, 0)
    assert broadcast.curve([0, 1, 2, 3]) == [(0.0, 0.25), (0.5, 0.5), (2.0, 0.75)]
    assert mean_reach([Reach(1, 2, 3, 4), Reach(0, 4, 5, 8)]) == Reach(0.5, 3, 4, 6)


def test_rows_have_mean_spread_and_goals() -> None:
    scenario = Scenario(
        lambda plan: iter([Result("one", 3, {"hit": 0.9 + plan.seed / 100, "copies": 3.0})]),
        lambda nodes: {"one": (Goal("hit", 0.925), Goal("copies", most=2.9), Goal("cycles", most=4))},
    )
    [row] = measure("made up", scenario, 20, 3, [1, 3], lambda text: None)
    record = row.record()
    assert list(record)[:5] == ["scenario", "setting", "nodes", "fanout", "seeds"]
    assert {name: record[name] for name in ALWAYS} == {
        "hit": pytest.approx(0.92), "copies": 3.0, "last_hop": None, "p99_s": None, "cycles": None,
    }  # fmt: skip
    assert record["spread"] == {"hit": pytest.approx(0.0141, abs=1e-4), "copies": 0}
    assert record["met"] == {"hit": False, "copies": False, "cycles": False}  # what was not measured meets nothing
    assert next(row.cells()) == ("one", "hit", "≥ 92.5 %", "92 %", "± 1.414 %", "no")
    assert ScenarioRun(20, 3, 1) != ScenarioRun(20, 3, 2)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("hit", 1.0, "100 %"),
        ("hit", 0.9999, "99.99 %"),
        ("hit", 0.5, "50 %"),
        ("p99_s", 1.25, "1.25 s"),
        ("bytes", 1234567, "1,234,567"),
    ],
)
def test_a_figure_has_its_unit(name: str, value: float, text: str) -> None:
    assert figure_text(name, value) == text


LINES = Axes("x", "y", is_share=False)


def drawn(text: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}" + tag))


def test_a_drawing_is_svg_with_each_curve_inside_its_frame() -> None:
    curves = [("one & two", [(0.0, 0.0), (7.3, 0.2)]), ("none", []), ("long", [(float(x), 1.0) for x in range(5000)])]
    text = draw("<title>", LINES, curves)
    said = [one.text for one in drawn(text, "text")]
    assert {"<title>", "x", "y", "one & two", "long", "5,000", "1"} <= set(said)
    assert "none" not in said
    assert len(text) < 20_000
    assert len(drawn(text, "circle")) == 2
    ElementTree.fromstring(draw("nothing", LINES, []))
    ElementTree.fromstring(draw("nothing", REACHED, []))


def test_shares_are_drawn_in_steps_per_cent_and_powers_of_ten() -> None:
    text = draw("reached", REACHED, [("curve", [(0.0, 0.25), (0.03, 0.5), (2.0, 1.0)])])
    said = [one.text for one in drawn(text, "text")]
    assert {"0 %", "100 %", "0.02", "0.1", "2"} <= set(said) and not {"0", "0.01", "5"} & set(said)
    [curve, _] = [one.attrib["d"] for one in drawn(text, "path") if "line" in one.attrib["class"]]
    assert [len(curve.split(letter)) - 1 for letter in "MHVL"] == [1, 2, 2, 0]
    long = draw("reached", REACHED, [("curve", [(0.000001, 0.5), (3_000.0, 1.0)])])
    assert {"0.2", "5,000"} <= {one.text for one in drawn(long, "text")} and "0.1" not in long


def test_names_that_begin_alike_have_one_colour_and_light_and_dark_pages_their_own() -> None:
    curve = [(1.0, 1.0)]
    text = draw("", LINES, [("a, half", curve), ("a, most", curve), ("b, half", curve)])
    lines = [(one.attrib["class"], one.attrib["stroke-dasharray"]) for one in drawn(text, "path")[-6::2]]
    assert [colour for colour, _ in lines] == ["line c0", "line c0", "line c1"]
    assert lines[0][1] == lines[2][1] != lines[1][1]
    light, _, dark = text.partition("@media (prefers-color-scheme:dark)")
    assert all(colour in light for colour in COLOURS) and all(colour in dark for colour in COLOURS.values())


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("ground", "colours"), [("#ffffff", [*COLOURS]), ("#0d1117", [*COLOURS.values()])])
def test_the_colours_of_curves_stand_out_from_the_ground(ground: str, colours: list[str]) -> None:
    for colour in colours:
        lighter, darker = sorted((luminance(ground), luminance(colour)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, colour


def test_the_command_lists_scenarios_of_every_service_and_runs_one(tmp_path: Path) -> None:
    listed = CliRunner().invoke(main, ["simulate", "--help"]).stdout
    assert "sampling" in listed and "baselines" in listed
    line = ["simulate", "baselines", "--nodes", "40", "--seeds", "2", "--fanout", "2"]
    table = CliRunner().invoke(main, [*line, "--svg", str(tmp_path / "drawn.svg")])
    assert table.exit_code == 0, table.output
    assert table.stdout.splitlines()[0] == "baselines: 40 nodes, F = 2, 2 seeds"
    assert "GossipSub" in ElementTree.tostring(ElementTree.parse(tmp_path / "drawn.svg").getroot(), "unicode")
    piped = CliRunner().invoke(main, [*line, "--json", "--svg", "-"])
    assert "GossipSub" in ElementTree.tostring(ElementTree.fromstring(piped.stdout), "unicode")
    rows = json.loads(piped.stderr)
    assert {"scenario", "nodes", "fanout", "seeds", "hit", "copies", "last_hop", "p99_s", "cycles"} <= rows[0].keys()
    assert rows[0]["fanout"] == rows[0]["seeds"] == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "No such command 'nothing'"),
        ("static --nodes 19", "19 is not in the range 20<=x<=100000"),
        ("many --nodes 20001", "20001 is not in the range 20<=x<=20000"),
        ("static --nodes many", "'many' is not a valid integer"),
        ("static --seeds 0", "0 is not in the range 1<=x<=1000"),
        ("static --fanout 1", "1 is not in the range 2<=x<=10"),
        ("static --svg /nowhere/drawn.svg", "nothing can be written to the directory '/nowhere'; make it, or name"),
        ("static --svg /", "'/' is a directory"),
        ("static --cycles 3", "No such option"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(line: str, said: str) -> None:
    refused = CliRunner().invoke(main, ["simulate", *line.split()])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr and "--help" in refused.stderr and "seed 1" not in refused.stderr
