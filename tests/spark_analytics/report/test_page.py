"""The page on a summary: complete, self-contained, right in its numbers, and safe whatever the logs contain."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest
from samples.summaries import HOSTILE, ROUTERS, key, sample

from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.lives import RESTORED
from spark_analytics.report.page import render
from spark_analytics.report.page.script import SCRIPT
from spark_analytics.report.page.states import NAMES
from spark_analytics.report.summary import build

VOID = {"meta", "br", "hr", "input"}
SECTIONS = [
    "verdict", "balance", "deliveries", "lost", "latency", "queues", "routes", "custody", "abuse", "logs", "quality",
    "judged", "words",
]  # fmt: skip
NOTHING = Evidence((), (), (), (), (), (), frozenset())


class Element:
    """One element of the page, with its content."""

    def __init__(self, name: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.name, self.attributes, self.parent = name, attributes, parent
        self.inside: list[Element | str] = []

    def all(self, name: str = "", class_: str = "") -> list[Element]:
        found = []
        for each in self.inside:
            if isinstance(each, Element):
                is_named = name in ("", each.name)
                if is_named and (not class_ or class_ in each.attributes.get("class", "").split()):
                    found.append(each)
                found += each.all(name, class_)
        return found

    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text() for each in self.inside)


class Reader(HTMLParser):
    """Reads a page strictly: every element must be closed, in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of <{tag}> stands twice"
        element = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.inside.append(element)
        if tag not in VOID:
            self.at = element

    def handle_endtag(self, tag: str) -> None:
        assert self.at.name == tag, f"</{tag}> closes <{self.at.name}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.inside.append(data)


def read(page: str) -> Element:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.name}> is never closed"
    return reader.root


@pytest.fixture(scope="module")
def rich() -> Element:
    return read(render(sample()))


def changed(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a value of the same shape with every leaf changed."""
    if isinstance(value, dict):
        return {name: changed(each, leaf) for name, each in value.items()}
    return [changed(each, leaf) for each in value] if isinstance(value, list) else leaf(value)


# -- form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("summary", [sample(), {}, build({}, NOTHING, 0, "duckdb", {})], ids=["rich", "none", "empty"])
def test_a_page_is_well_formed_and_has_every_section(summary: dict[str, Any]) -> None:
    page = read(render(summary))
    ids = [each.attributes["id"] for each in page.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    assert [name for name in ids if name in SECTIONS] == SECTIONS
    assert [link.attributes["href"] for link in page.all("nav")[0].all("a")] == [f"#{name}" for name in SECTIONS[1:]]
    assert len(page.all("h1")) == 1


def test_a_page_loads_nothing_from_anywhere() -> None:
    page = render(sample())
    for outside in ("http:", "https:", "//", "src=", "@import", "<link", "<img", "<iframe", "<object", '"data:'):
        assert outside not in page
    assert page.count("url(") == page.count("url(#")


def test_only_the_script_of_the_page_may_run(rich: Element) -> None:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = next(each for each in rich.all("meta") if "http-equiv" in each.attributes).attributes["content"]
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy
    assert [each.text() for each in rich.all("script")] == [SCRIPT]


def test_the_same_summary_gives_the_same_bytes() -> None:
    assert render(sample()) == render(json.loads(json.dumps(sample(), sort_keys=True)))
    assert render(sample(7)) != render(sample(8))


def test_a_page_is_made_from_within_a_zip(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    with zipfile.ZipFile(tmp_path / "analytics.zip", "w") as archive:
        for path in sorted((root / "spark_analytics").rglob("*.py")):
            archive.write(path, path.relative_to(root))
    (tmp_path / "summary.json").write_text(json.dumps(sample()))
    program = (
        "import json, sys, spark_analytics.report.page as page\n"
        "assert '.zip' in page.__file__, page.__file__\n"
        "sys.stdout.write(page.render(json.load(open('summary.json'))))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "analytics.zip"), "PYTHONIOENCODING": "utf-8"}
    made = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    assert made.stdout.decode() == render(sample())


# -- numbers ------------------------------------------------------------------------------------------------


def test_the_balance_says_the_numbers_of_the_summary(rich: Element) -> None:
    summary = sample()
    said = {
        line.all(class_="name")[0].text().strip(): line.all(class_="n")[0].text() for line in rich.all("div", "entry")
    }
    wanted = {name: summary[name] for name in (*NAMES, "owed", "residual")} | {"their sum": summary["owed"]}
    assert said == {name: f"{n:,}" for name, n in wanted.items()}
    equation = rich.all("p", "equation")[0].text()
    terms = " + ".join(f"{summary[name]:,} {name}" for name in NAMES)
    assert equation == f"{summary['owed']:,} owed = {terms}; residual 0"


def test_the_table_of_windows_adds_up_to_the_balance(rich: Element) -> None:
    table = next(
        each for each in rich.all("table") if each.all("caption")[0].text() == "Deliveries by window and state"
    )
    columns = [each.text() for each in table.all("th")]
    sums = dict.fromkeys(columns[1:], 0)
    for row in table.all("tbody")[0].all("tr"):
        for name, cell in zip(columns[1:], row.all("td")[1:], strict=True):
            sums[name] += int(cell.text().replace(",", ""))
    summary = sample()
    assert sums == {name: summary[name] for name in ("owed", *NAMES)}


def test_a_residual_and_every_level_are_said() -> None:
    def verdict(**more: Any) -> str:
        return read(render({"owed": 100, "delivered": 100, "residual": 0, **more})).all("h1")[0].text()

    assert verdict(verdict="good") == "100 deliveries arrived; none vanished."
    assert verdict(delivered=152, expired=4, refused=6, pending=33) == (
        "152 deliveries arrived, 10 ended undelivered for a stated reason, 33 may still arrive; none vanished."
    )
    unborne = [{"claim": "not-turned-away", "count": 150}, {"claim": "left-out", "count": 9}]
    assert verdict(delivered=152, refused=160, claims=unborne) == (
        "152 deliveries arrived, 10 ended undelivered for a stated reason, 150 are said to have been refused by a "
        "router whose log does not bear it out; none vanished."
    )
    assert verdict(delivered=0, expired=1) == "1 delivery ended undelivered for a stated reason; none vanished."
    assert verdict(acked=2, custody=[]).endswith("none vanished at these routers.")
    spoilt = [{"router": "a", "whole": False, "problems": ["a.jsonl:3: is not what was signed"]}]
    assert verdict(logs=spoilt) == (
        "The log of 1 router cannot be believed in all parts: what follows rests on the others. "
        "100 deliveries arrived; none vanished."
    )
    why = f"restored on X from a snapshot of Y; {RESTORED}"
    honest = {"router": "a", "whole": False, "problems": [f"events 5 to 99 are not known: {why}"]}
    hole = {"router": "a", "first_seq": 5, "last_seq": 99, "why": why}
    assert verdict(logs=[honest], holes=[hole]) == f"1 router was {why}. 100 deliveries arrived; none vanished."
    assert verdict(logs=[honest], holes=[hole, {**hole, "router": "b"}]) == (
        "2 routers were restored from snapshots; what they did in between is not in their logs. "
        "100 deliveries arrived; none vanished."
    )
    assert verdict(logs=[honest, *spoilt], holes=[hole]).startswith("The log of 1 router cannot be believed in all")
    assert verdict(unaccounted=1) == "1 delivery of 100 is lost without a trace."
    assert verdict(unaccounted=2, unknown=1_000).endswith("are lost without a trace. Another 1,000 cannot be judged.")
    assert verdict(unknown=7).startswith("No loss was found, but 7 of 100 deliveries cannot be judged")
    assert verdict(holes=[{"router": "a", "first_seq": 1, "last_seq": 2, "why": "x"}]).startswith(
        "No loss was found, but"
    )
    assert verdict(residual=-4) == "The books do not balance: -4 deliveries are in no state at all."
    assert verdict(findings=[{"level": "bad", "text": "x"}]).endswith("Yet 1 finding below must not be ignored.")
    for level, words in (
        ("good", "Good"),
        ("attention", "Needs attention"),
        ("bad", "Bad"),
        ("odd", "Needs attention"),
    ):
        assert read(render({"verdict": level})).all("p", "level")[0].text() == words


def test_how_many_messages_reached_everybody_is_said_where_it_is_known() -> None:
    def said(*, holes: int = 0, **run: int) -> list[str]:
        summary = {"owed": 9, "delivered": 9, "residual": 0, "run": run, "holes": [{"router": "a"}] * holes}
        return [one.text() for one in read(render(summary)).all("p", "reached")]

    counts = {"owed_messages": 1_200, "reached": 1_100, "beyond": 0}
    assert said(**counts) == ["1,100 of 1,200 messages reached everybody to whom they were owed."]
    assert said(**{**counts, "reached": 1_200}) == ["All 1,200 messages reached everybody to whom they were owed."]
    assert said(**{**counts, "beyond": 7})[0].endswith(
        "7 more were all taken over, some by routers whose logs are not here."
    )
    assert said(**counts, holes=1) == said() == []


def test_a_key_with_a_name_is_shown_by_it_everywhere_and_copied_whole() -> None:
    summary = sample()
    router = summary["by_router"][0]["router"]
    page = render(summary, {router: "lap<top"})
    assert f'<span class="key-name" data-key="{router}" title="{router}">lap&lt;top</span>' in page
    assert f">{router}<" not in page and "lap<top" not in page
    assert render(summary) == render(summary, {}), "names are of one page only"


def test_the_examples_of_losses_name_the_command_to_run(rich: Element) -> None:
    lost = next(each for each in rich.all("section") if each.attributes["id"] == "lost")
    commands = [each.text() for each in lost.all("code", "command")]
    assert f"router why {key('lost 1')}" in commands
    assert any(each.startswith("router why '<script>") for each in commands), "what is no id is quoted for the shell"


# -- words and figures --------------------------------------------------------------------------------------


def test_every_figure_says_what_is_seen_what_to_do_and_the_same_as_a_table(rich: Element) -> None:
    figures = rich.all("figure")
    assert len(figures) >= 14
    for figure in figures:
        title = figure.all("h3")[0]
        assert figure.attributes["aria-labelledby"] == title.attributes["id"]
        assert figure.all("p", "see")[0].text().startswith("What you see ")
        assert figure.all("p", "do")[0].text().startswith("What to do ")
        assert figure.all("table") or figure.all("ul"), f"{title.text()}: no table"
        for drawing in figure.all("svg", "plot"):
            assert drawing.attributes.get("aria-label") or drawing.attributes.get("aria-hidden") == "true"


@pytest.mark.parametrize("summary", [{}, build({}, NOTHING, 0, "spark", {})], ids=["none", "empty"])
def test_without_data_there_are_sentences_and_no_empty_frames(summary: dict[str, Any]) -> None:
    page = read(render(summary))
    assert not page.all("svg", "plot")
    sentences = [each.text() for each in page.all("p", "nothing")]
    assert len(sentences) >= 9
    assert any(each.startswith("Latency: ") for each in sentences), "a section without figures is one line"
    assert "Latency" not in [each.text() for each in page.all("h2")]
    assert all(each.endswith((".", ")")) for each in sentences)
    assert "There is nothing to judge" in page.all("h1")[0].text()


def test_a_key_is_short_for_the_eyes_and_whole_to_copy(rich: Element) -> None:
    found = [each for each in rich.all("code", "key") if each.text() == ROUTERS[0]]
    assert found
    assert all(each.attributes["title"] == ROUTERS[0] for each in found)


def test_problems_name_file_and_line_and_logs_their_missing_parts(rich: Element) -> None:
    logs = next(each for each in rich.all("section") if each.attributes["id"] == "logs")
    assert "/logs/b/events-0000000000204801.jsonl:5312: " in logs.text()
    missing = [each.all("title")[0].text() for each in logs.all("rect", "c-missing") if each.all("title")]
    assert [each.split(",")[0] for each in missing] == ["missing: 204", "missing: 88"]
    tails = [each.all("title")[0].text() for each in logs.all("rect", "c-tail") if each.all("title")]
    assert tails == ["tail: 402,771 to 411,902, not sealed yet"]


def test_states_keep_their_colour_class_throughout(rich: Element) -> None:
    for name in NAMES:
        assert len(rich.all(class_=f"s-{name}")) >= 2, name


# -- hostile input ------------------------------------------------------------------------------------------


def test_no_text_of_a_summary_becomes_markup(rich: Element) -> None:
    page = render(changed(sample(), lambda leaf: HOSTILE if isinstance(leaf, str) else leaf))
    found = read(page)
    assert {each.name for each in found.all()} <= {each.name for each in rich.all()}
    assert [each.text() for each in found.all("script")] == [SCRIPT]
    known = {name for each in rich.all() for name in each.attributes}
    assert {name for each in found.all() for name in each.attributes} <= known
    assert not [name for name in known if name.startswith("on")]
    assert "\u202e" not in page
    assert "‹U+202E›" in page


def test_texts_of_any_kind_and_length_are_bounded_and_can_be_written_as_utf_8() -> None:
    odd = "a\x00\ud800\n\u2066" + "x" * 100_000
    page = render(changed(sample(), lambda leaf: odd if isinstance(leaf, str) else leaf))
    assert len(page.encode()) < 3_000_000
    assert "\x00" not in page
    read(page)


def test_tables_and_pictures_are_bounded_and_say_how_many_more() -> None:
    summary = sample()
    for name in ("flaps", "abuse", "broken", "lost", "logs", "holes", "files", "hops", "queues", "findings", "custody"):
        summary[name] = summary[name] * 100
    summary["problems"] = summary["problems"] * 500
    page = render(summary)
    assert len(page) < 1_500_000
    assert "and 960 more" in page
    assert "and 580 more" in page


def test_a_summary_of_another_shape_reads_as_nothing() -> None:
    random = Random(3)
    odd: list[Any] = [None, "x", -1, 1.5, [], {}, [1], {"a": 1}, 10**30, float("nan"), True, HOSTILE]
    for _ in range(4):
        read(render(changed(sample(), lambda leaf: random.choice(odd) if random.random() < 0.2 else leaf)))
    small = {name: value[:2] if isinstance(value, list) else value for name, value in sample().items()}
    for name in random.sample(sorted(small), 8):
        read(render({**small, name: random.choice(odd)}))
