"""The papers agree with the program: their generated parts, reasons, readings and paths are those of the tree.

`python tests/test_docs.py` writes the generated parts again.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from rigs.contract_tables import DEEDS, EVENTS, of_every_service, of_failures, of_roles
from rigs.mermaid import mermaid
from rigs.patience import HANG_S

from router.actors.process import program
from router.cli import COMMANDS, service_commands
from router.cli.exits import Exit
from router.core.link.machine import Table
from router.core.link.table import PROVEN, PROVING
from router.core.wire import link_items as link
from router.core.wire import reasons as of_router
from router.core.wire.reasons import Reason
from router.settings import config
from router.settings.config_text import toml_value
from services.discovery import reasons as of_discovery
from services.dmq.core.protocols import (
    handshake,
    keep_alive,
    message_submission,
    notification,
    peer_sharing,
    submission,
)
from spark_analytics.judgement.circles import CLAIM as CIRCLE
from spark_analytics.judgement.conflicts import UNLIKE_FACTS
from spark_analytics.report.conflict_sentences import CLAIMS

ROOT = Path(__file__).parents[1]
PAPERS = [str(one.relative_to(ROOT)) for one in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))]


def paper(name: str) -> str:
    return (ROOT / name).read_text()


# -- generated parts ----------------------------------------------------------------------------------------


def settings() -> Iterator[tuple[str, str, str, str]]:
    """Yield (section, name, default, description) of every setting in the sample configuration."""
    section = ""
    for block in config.sample().split("\n\n"):
        lines = block.strip().splitlines()
        if heading := next((one for one in lines if re.fullmatch(r"#?\[+[\w.]+\]+", one)), None):
            section = heading.strip("#[]")
            continue
        said = " ".join(one.removeprefix("# ") for one in lines if one.startswith("# "))
        for line in lines:
            if found := re.fullmatch(r"#?(\w+) = (.*?)(?:  # (.*))?", line):
                yield section, found[1], f"`{found[2]}`" + (f" ({found[3]})" if found[3] else ""), said


def settings_read() -> set[tuple[str, str]]:
    """Return (section, name) of every setting that is read, as `config.limits.hello_s` or through a local name."""
    sections = {section for section, *_ in settings()}
    found = set[tuple[str, str]]()
    for path in (ROOT / "router").rglob("*.py"):
        if not path.name.startswith("config"):
            found |= set(_read_in(ast.parse(path.read_text()), sections))
    return found


def _read_in(tree: ast.Module, sections: set[str]) -> Iterator[tuple[str, str]]:
    names = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=True))
            for target, value in pairs:
                match target, value:
                    case ast.Name(id=name), ast.Attribute(attr=section) if section in sections:
                        names[name] = section
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            yield node.value.attr.lstrip("_"), node.attr
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            yield names[node.value.id], node.attr


def settings_table() -> str:
    before, lines = "", list[str]()
    for section, name, default, said in settings():
        if section != before:
            before = section
            brackets = f"[[{section}]]" if section in ("local", "peers") else f"[{section}]"
            lines += ["", f"**`{brackets}`**", "", "| setting | default | meaning |", "|---|---|---|"]
        lines.append(f"| `{name}` | {_cell(default)} | {_cell(said)} |")
    return "\n".join(lines).strip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def diagram(text: str) -> str:
    return f"```mermaid\n{text}```\n"


def drawn(table: Table) -> str:
    return diagram(mermaid(table))


MEETING = (of_router, of_discovery)
DMQ_TABLES = {
    "handshake": handshake.TABLE,
    "submission": submission.TABLE,
    **{f"notification {name}": one.table for name, one in notification.REVISIONS.items()},
    **{f"message submission {version}": one.table for version, one in message_submission.VERSIONS.items()},
    "keep-alive": keep_alive.TABLE,
    "peer sharing": peer_sharing.TABLE,
}
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "proven": ("docs/link.md", partial(drawn, PROVEN)),
    "proving": ("docs/link.md", partial(drawn, PROVING)),
    "settings": ("docs/settings.md", settings_table),
    "events": ("docs/services.md", partial(of_every_service, EVENTS)),
    "deeds": ("docs/services.md", partial(of_every_service, DEEDS)),
    "events of roles": ("docs/verbs.md", partial(of_roles, EVENTS)),
    "failures": ("docs/services.md", of_failures),
    "deeds of roles": ("docs/verbs.md", partial(of_roles, DEEDS)),
    **{name: ("docs/dmq.md", partial(drawn, table)) for name, table in DMQ_TABLES.items()},
}


def with_parts(text: str, name: str) -> str:
    """Return the paper with its generated parts made again."""
    opening, closing = f"<!-- generated: {name} -->\n", "<!-- end -->"
    before, found, rest = text.partition(opening)
    assert found, f"the mark {opening.strip()} is missing"
    return before + opening + PARTS[name][1]() + closing + rest.partition(closing)[2]


@pytest.mark.parametrize("name", PARTS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    text = paper(PARTS[name][0])
    assert text == with_parts(text, name), "run: python tests/test_docs.py"


def write_parts() -> None:
    for name, (file, _) in PARTS.items():
        (ROOT / file).write_text(with_parts(paper(file), name))


# -- what is written by hand --------------------------------------------------------------------------------


def table_rows(text: str, columns: int) -> list[list[str]]:
    rows = [one.strip().strip("|").split(" | ") for one in text.splitlines() if one.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if len(row) == columns]


def test_the_reasons_are_those_of_the_code() -> None:
    text = paper("docs/operators.md").partition("## Reasons\n")[2].partition("\n## ")[0]
    said = [(word.strip("`"), kind, sentence) for word, kind, sentence, _ in table_rows(text, 4) if word != "word"]
    declared = (one for module in MEETING for one in vars(module).values() if isinstance(one, Reason))
    named = sorted({one for one in declared if 192 <= one < 224})
    assert said == [(one.word, "later" if one.later else "final", one.sentence) for one in (*Reason, *named)]


def test_the_exit_codes_are_those_of_the_code() -> None:
    text = paper("docs/operators.md").partition("## Exit codes\n")[2].partition("\n## ")[0]
    assert [row[0] for row in table_rows(text, 2)[1:]] == [str(int(one)) for one in Exit]


def test_the_errors_that_are_explained_are_said_somewhere() -> None:
    text = paper("docs/operators.md").partition("## When something is wrong\n")[2].partition("\n## ")[0]
    files = (path for place in ("router", "transports") for path in (ROOT / place).rglob("*.py"))
    source = "".join(path.read_text() for path in files)
    for quoted, _ in table_rows(text, 2)[1:]:
        for part in quoted.strip("`").split("…"):
            assert part.strip(" ,()") in source, quoted


def test_the_link_items_are_those_of_the_code() -> None:
    said = re.findall(r"^\| `\[(\d+),[^`]*` \| (\w+) \|", paper("docs/link.md"), re.MULTILINE)
    assert said == [(str(number), form.name) for number, form in link._FORMS.items()]


def test_the_claims_are_those_of_the_code() -> None:
    text = (
        paper("docs/claims.md").partition("## What a router's own log contradicts\n")[2].partition("\n## By order\n")[0]
    )
    said = [word for cell in re.findall(r"^\| (`.*?) \| ", text, re.MULTILINE) for word in re.findall("`(.*?)`", cell)]
    assert sorted(said) == sorted((*CLAIMS, *UNLIKE_FACTS, CIRCLE))


READINGS = [
    *(f"A{n}" for n in range(1, 14)), *(f"B{n}" for n in range(1, 9)),
    *(f"C{n}" for n in (*range(1, 21), *range(22, 37))),
    *(f"D{n}" for n in (1, 2, 3, *range(5, 25))), *(f"E{n}" for n in (*range(1, 12), 24)),
]  # fmt: skip
CODE = ("router", "services", "transports", "spark_analytics", "release", "examples", "tests")


def test_every_reading_has_its_row() -> None:
    row = r"^\| ([A-E]\d+) \|.*\| (?:built|partly|planned|refused)\b"
    assert re.findall(row, paper("docs/specification.md"), re.MULTILINE) == READINGS


def test_readings_that_the_code_names_are_known() -> None:
    code = [path for room in CODE for path in (ROOT / room).rglob("*.py")]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in code}
    for path, text in texts.items():
        for number in re.findall(r"\bR-([A-E]\d+)", text):
            assert number in READINGS, f"{path}: R-{number}"
    bare = {path for path, text in texts.items() if re.search(r"\([A-E]\d+(, [A-E]\d+)*\)", text)}
    assert not bare, "a reading is cited as R-C7, so that a search for it finds all that rests on it"


@pytest.mark.parametrize("name", PAPERS)
def test_every_file_that_a_paper_names_is_there(name: str) -> None:
    text = paper(name)
    paths = re.findall(r"`((?:router|transports|services|cddl|tests|docs|requirements)/[\w./*-]*)`", text)
    paths += re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    missing = [one for one in paths if not any(_found(one))]
    assert not missing, missing


def _found(path: str) -> Iterator[Path]:
    for base in ("", "router/", "router/core/", "tests/"):
        yield from ROOT.glob(base + path.rstrip("/"))


@pytest.mark.parametrize("name", PAPERS)
def test_every_link_leads_somewhere(name: str) -> None:
    for target, mark in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", paper(name)):
        file = (ROOT / name).parent / target if target else ROOT / name
        assert file.exists(), target
        headings = {_slug(one) for one in re.findall(r"^#+ (.*)$", file.read_text(), re.M)} if mark else {""}
        assert mark in headings, f"{target}#{mark}"


def _slug(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_setting_is_read() -> None:
    own = re.compile(r"local|peers|services\..*")  # blocks, and settings that services read
    names = {(section, name) for section, name, *_ in settings() if not own.fullmatch(section)}
    assert names - settings_read() == set(), "a setting that does nothing"


def test_the_sample_settings_have_the_defaults_that_the_table_says() -> None:
    live = tomllib.loads(re.sub(r"(?m)^#(?=\[|\w+ = )", "", config.sample().replace('"ADDRESS"', '"x"')))
    assert ("limits", "hello_s") in {(section, name) for section, name, *_ in settings()}
    assert toml_value(live["limits"]["hello_s"]) == "10.0"


# -- what the papers tell people to type --------------------------------------------------------------------


def code(name: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", paper(name), re.MULTILINE | re.DOTALL)


@dataclass
class Player:
    """Runs the commands of a paper in a temporary home. Endless commands are started and waited for until ready."""

    directory: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ROUTER_HOME": str(self.directory / "home")}

    def _done(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=HANG_S
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def type(self, line: str) -> str:
        name, *args = shlex.split(line, comments=True)
        assert name == "router", line
        if args[0] not in ("serve", "sub"):
            return self._done(program("router", *args))
        process = subprocess.Popen(
            program("router", *args), cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        self.running.append(process)
        if args[0] == "serve":
            assert process.stdout is not None
            assert process.stdout.readline().startswith("address")
        else:
            while "[]" in self._done(program("router", "groups", "--json")):
                assert process.poll() is None
        return ""

    def run(self, text: str) -> str:
        return self._done([sys.executable, "-W", "default", "-c", text])

    def end(self) -> list[str]:
        """Stop the running commands by Ctrl-C, the last one first, and return the output of each."""
        said = []
        for process in reversed(self.running):
            process.send_signal(signal.SIGINT)
            said.append(process.communicate(timeout=HANG_S)[0])
            assert process.returncode == 0
        self.running.clear()
        return said


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    made = Player(tmp_path)
    yield made
    for process in made.running:
        process.kill()
        process.communicate()


def test_what_the_readme_says_works(player: Player) -> None:
    for block in code("README.md", "sh"):
        for line in block.splitlines() if "make " not in block else ():
            player.type(line)
    said = [player.run(text) for text in code("README.md", "python")]
    assert said == ["hello\nbye\n", "while you were away\n"]
    heard, _ = player.end()
    assert heard.splitlines() == ["hello", "hello", "bye", "while you were away"]


def test_the_programs_for_apps_work(player: Player) -> None:
    for line in ("router init", "router group new friends", "router serve"):
        player.type(line)
    programs = [one for one in code("docs/apps.md", "python") if one.startswith("import")]
    told, heard, ordered, alone = map(player.run, programs)
    assert alone == "b'for you alone' True\n"
    assert "queued" in told and ordered == "a question 0 False\n"
    assert [line.split(" ", 1)[1] for line in heard.splitlines()] == [
        f"{said} False" for said in ("one", "two", *(f"number {n}" for n in range(10)))
    ]
    player.end()


@pytest.mark.parametrize("name", PAPERS)
def test_every_program_in_a_paper_is_one(name: str) -> None:
    for text in code(name, "python"):
        compile(text, name, "exec")


COMMAND = re.compile(r"\brouter ([a-z]+)")


@pytest.mark.parametrize("name", PAPERS)
def test_every_command_that_a_paper_names_is_there(name: str) -> None:
    text = re.sub(r"## What is not done yet\n.*?\n## ", "", paper(name), flags=re.DOTALL)
    own = re.findall(r'^COMMANDS = \{"([a-z-]+)"', text, re.MULTILINE)  # of a service that the paper builds
    quoted = re.findall(r"`(router [^`]*)`", text) + "".join(code(name, "sh")).splitlines()
    for found in filter(None, map(COMMAND.search, quoted)):
        assert found[1] in (*COMMANDS, *service_commands.find(("--home", str(ROOT))), *own), found[0]


if __name__ == "__main__":
    write_parts()
