"""The house rules hold in this tree (ARCHITECTURE.md, Laws), and each of them catches what it forbids."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from house import (
    FUNCTION_LINES_MAX,
    LINES_MAX,
    RULES,
    Tree,
    circles,
    forget,
    hooked,
    limits_once,
    read,
    shared,
    shared_names,
    verbs,
    worlds,
)
from house_debts import HOOKED, LONG, SHARED_NAMES
from house_reading import EXPLAINED_LINES, READING_RULES

ROOT = Path(__file__).parents[1]
Rule = Callable[[Tree], Iterator[str]]
EVERY_RULE: tuple[Rule, ...] = (*RULES, *READING_RULES)


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget the trees at the end; until then they stay, and collections that go through them cost half of the time."""
    gc.disable()
    yield
    forget()
    gc.enable()


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.__name__)
def test_the_tree_keeps(rule: Rule) -> None:
    broken = list(rule(read(ROOT)))
    assert not broken, "\n" + "\n".join(broken)


FORBIDDEN = [
    ("layers", "router/core/clock.py", "import time"),
    ("layers", "router/core/clock.py", "from random import random"),
    ("layers", "router/core/clock.py", "from ..store import Store"),
    ("layers", "router/core/clock.py", "def load():\n    import os"),
    ("layers", "router/node/node.py", "from transports.tls import dial"),
    ("layers", "router/node/node.py", "from spark_analytics import evidence"),
    ("layers", "router/disk/log/search.py", "from spark_analytics.judgement.evidence import weighed"),
    ("layers", "router/audit/local.py", "from services.dmq import pool"),
    ("layers", "transports/tls.py", "from router.node import Node"),
    ("layers", "transports/tls.py", "from transports import unix"),
    ("layers", "services/web.py", "from router.store import Store"),
    ("layers", "services/capd/cache.py", "from services.dmq import pool"),
    ("layers", "services/dmq/rules.py", "from router.core.router import Router"),
    ("layers", "services/dmq/settings.py", "from router.settings.config import Config"),
    ("layers", "services/dmq/service.py", "import router.node.node"),
    ("purity", "services/dmq/rules.py", "import trio"),
    ("purity", "services/dmq/core/pool.py", "from router.client.node import connect"),
    ("purity", "services/dmq/rules_of_pools.py", "text = open('file').read()"),
    ("purity", "router/service/contract.py", "import time"),
    ("layers", "spark_analytics/gold.py", "import pandas"),
    ("layers", "spark_analytics/gold.py", "from router.core import events"),
    ("floors", "router/core/wire/codec.py", "from router.core.link import session"),
    ("floors", "router/core/link/session.py", "from router.core.log.line import Line"),
    ("floors", "router/disk/store/rows.py", "from router.settings import home"),
    ("floors", "router/client/link.py", "import router.service"),
    ("floors", "spark_analytics/judgement/chain.py", "from spark_analytics.report.summary import build"),
    (
        "late_imports",
        "router/store.py",
        "class Store:\n    async def get(self):\n        from lmdb import Cursor",
    ),
    ("purity", "router/core/clock.py", "import datetime\nnow = datetime.datetime.now()"),
    ("purity", "router/core/clock.py", "text = open('file').read()"),
    ("parameters", "router/core/queues.py", "def f(a, b, c, d, e, f, g, h, i, j): ..."),
    ("parameters", "router/core/router.py", "x = lambda: 1"),
    ("schemes", "router/node/node.py", "more = {} if url.startswith('tls:') else None"),
    ("schemes", "transports/tls.py", "NOT_OURS = 'unix:'"),
    ("roles", "router/core/groups.py", "if service_called(name): ..."),
    ("roles", "router/core/groups.py", "# DISCOVERY finds routers"),
    ("sizes", "router/long.py", "pass\n" * (LINES_MAX + 1)),
    ("sizes", "services/web/static/long.js", "x;\n" * (LINES_MAX + 1)),
    ("sizes", "router/long.py", "def f():\n" + "    x\n" * FUNCTION_LINES_MAX),
    ("tables", "router/laid_out.py", "print(\n  1,\n)  # fmt: skip"),
    ("names", "router/utils.py", ""),
    ("words", "docs/plan.md", "TO" + "DO: write this"),
    ("words", "docs/plan.md", "see /ro" + "ot/notes"),
    ("words", "requirements/dev.txt", "--index-url https://py" + "pi.org/simple"),
    ("swallowing", "router/store.py", "try:\n    x\nexcept Exception:\n    pass\n"),
    ("swallowing", "router/store.py", "with suppress(Exception):\n    x\n"),
    ("hooks", "router/client/node.py", "self._inbox, self._readers.inbox = inbox, inbox"),
    ("hooks", "router/core/router.py", "self._is_used = self._queues.is_entered = True"),
    ("certainties", "tests/test_store.py", "assert [one in said for one in words]"),
    ("certainties", "tests/test_store.py", "assert (one == 1 for one in counts)"),
    ("certainties", "tests/test_store.py", "assert (found, 'there is none')"),
    ("docstrings", "router/store.py", "x = 1"),
    ("hanging", "router/store.py", 'MOVED_MAX = 8\n"""The same for a neighbour that moved."""'),
    ("hanging", "services/bell/commands.py", 'loud = option("--loud", help="As --soft, but loud.")'),
    ("unused", "router/store.py", "MOVED_MAX = 8"),
    ("unused", "services/bell/core/rope.py", "class Rope:\n    @property\n    def rope_length(self): return Rope"),
    ("explained", "router/store.py", "class Store:\n    def copy(self):\n" + "        x\n" * EXPLAINED_LINES),
    ("hurry", "tests/test_store.py", "with trio.fail_after(30):\n    x"),
    ("hurry", "tests/test_store.py", "process.communicate(timeout=20)"),
]
ALLOWED = [
    (
        "router/core/clock.py",
        "from datetime import UTC\nimport cbor2\nfrom .codec import encode\nfrom router.core import a",
    ),
    (
        "router/cli/__init__.py",
        "import importlib\nfrom .core import codec\ndef load():\n    from router.store import Store\nload()",
    ),
    ("router/audit/local.py", "import duckdb\nfrom router.core import line\nfrom spark_analytics import evidence"),
    ("router/cli/bench.py", "def bench():\n    import rich\nbench()"),
    (
        "transports/tls.py",
        "from OpenSSL import SSL\nfrom router.core.wire.crypto import PublicKey\nimport router.transport.contract",
    ),
    ("services/dmq/pool.py", "import router.client\nfrom router import Client\nfrom services.dmq import mux"),
    (
        "services/dmq/rules.py",
        "import json\nfrom router.core.wire.crypto import PublicKey\nfrom router.service.contract import Deed\n"
        "from services.dmq.reasons import FULL",
    ),
    ("services/dmq/commands.py", "import click\nfrom router.cli.services import ask_service"),
    (
        "spark_analytics/gold.py",
        "import json\nfrom pyspark.sql import functions\nfrom spark_analytics import silver",
    ),
    ("router/store.py", "try:\n    x\nexcept KeyError:\n    pass"),
    ("tests/test_store.py", "assert [*found]\nassert [one for one in found if one]\nassert not [1]\nassert all(found)"),
    ("router/client/node.py", "self._inbox = self.inbox = inbox\none.done = True\nself._counts.settled += 1"),
    ("tests/test_store.py", "async def test_x(autojump_clock):\n    with trio.fail_after(1):\n        x"),
    ("tests/test_store.py", "process.communicate(timeout=HANG_S)"),
    ("tests/test_store.py", "process.communicate(timeout=None)"),
]


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(("rule", "path", "text"), FORBIDDEN)
def test_the_rule_catches(rule: str, path: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, path, text)
    assert {each.__name__: [found[: len(path)] for found in each(read(tmp_path))] for each in EVERY_RULE}[rule] == [
        path
    ]


def test_what_is_allowed_to_be_long_still_is() -> None:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    tree = read(ROOT)
    for one in LONG:
        path, _, name = one.partition(":")
        if not name:
            assert tree[path].count("\n") > LINES_MAX, f"{path} is short now: strike it from house_debts.LONG"
            continue
        found = [node for node in ast.walk(ast.parse(tree.get(path, ""))) if isinstance(node, kinds)]
        lines = [(node.end_lineno or 0) - node.lineno + 1 for node in found if node.name == name]
        assert lines and max(lines) > FUNCTION_LINES_MAX, f"{one} is short now: strike it from house_debts.LONG"


def test_what_is_allowed_to_be_hooked_still_is() -> None:
    found = {f"{path}:{part}" for path, _, part in hooked(read(ROOT))}
    assert not HOOKED - found, f"{HOOKED - found} are hooked no more: strike them from house_debts.HOOKED"


def test_what_is_allowed_to_be_a_shared_name_still_is() -> None:
    listed = {(room, name) for room, names in SHARED_NAMES.items() for name in names.split()}
    unique = listed - {(room, name) for room, name, _ in shared(read(ROOT))}
    assert not unique, f"{sorted(unique)} are unique now: strike them from house_debts.SHARED_NAMES"


def test_a_class_name_that_stands_for_two_things_is_caught(tmp_path: Path) -> None:
    write(tmp_path, "router/core/bell.py", "class Bell: ...\nclass _Rope: ...")
    write(tmp_path, "services/tower/bell.py", "class Bell: ...\nclass _Rope: ...")
    write(tmp_path, "services/chapel/rules.py", "class Bell: ...\nclass _Rope: ...")
    assert list(shared_names(read(tmp_path))) == []
    write(tmp_path, "router/demo/bell.py", "class Bell: ...\nclass _Rope: ...")
    write(tmp_path, "services/tower/core/bell.py", "class Bell: ...")
    read.cache_clear()
    assert len(list(shared_names(read(tmp_path)))) == 2
    assert sorted((room, name, len(places)) for room, name, places in shared(read(tmp_path))) == [
        ("router", "Bell", 2),
        ("services/tower", "Bell", 2),
    ]


@pytest.mark.parametrize(("path", "text"), ALLOWED)
def test_the_rules_allow(path: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, path, '"""Its duty."""\n' + text)
    assert [found for rule in EVERY_RULE for found in rule(read(tmp_path))] == []


def test_a_circle_is_caught(tmp_path: Path) -> None:
    write(tmp_path, "router/node.py", "from router import store")
    write(tmp_path, "router/store.py", "from .core import words")
    write(tmp_path, "router/core/words.py", "x = 1")
    assert list(circles(read(tmp_path))) == []
    write(tmp_path, "router/core/words.py", "import router.node")
    read.cache_clear()
    [found] = circles(read(tmp_path))
    assert all(name in found for name in ("router.node", "router.store", "router.core.words"))


@pytest.mark.parametrize(
    ("third", "is_caught"),
    [
        ("Inquiry('ring', text)", True),
        ("node.ask('ring')", True),
        ("x = inquiry.ask in ('ring', 'sing')", True),
        ("class Rung:\n    WORD: ClassVar[str] = 'ring'", True),
        ("Inquiry(Ring.WORD, text)", False),
        ("STATES = ('ring', 'sing')", False),
    ],
)
def test_a_verb_that_is_spelled_in_a_third_file_is_caught(third: str, is_caught: bool, tmp_path: Path) -> None:
    write(tmp_path, "router/service/verbs/ring.py", "class Ring(Request):\n    WORD: ClassVar[str] = 'ring'")
    write(tmp_path, "router/core/control/ring.py", "is_ours = inquiry.ask == 'ring'\nINQUIRY = Inquiry('ring')")
    write(tmp_path, "router/service/third.py", third)
    assert len(list(verbs(read(tmp_path)))) == is_caught


@pytest.mark.parametrize(
    ("setting", "part", "is_caught"),
    [
        ("30.0", "30.0", True),
        ("15 * DAY_S", "1_296_000", True),
        ("PingLimits().every_s", "30.0", False),
        ("30.0", "Link().ping_s", False),
    ],
)
def test_a_default_that_stands_twice_is_caught(setting: str, part: str, is_caught: bool, tmp_path: Path) -> None:
    write(tmp_path, "router/settings/config.py", f"class Link:\n    ping_s: float = {setting}")
    write(tmp_path, "router/node/pings.py", f"class PingLimits:\n    every_s: float = {part}")
    write(
        tmp_path, "router/node/limits.py", "def ping_limits(config):\n    return PingLimits(every_s=config.link.ping_s)"
    )
    assert [found.partition(" ")[0] for found in limits_once(read(tmp_path))] == ["router/node/limits.py:2"] * is_caught


def test_limits_that_cannot_be_followed_by_name_are_caught(tmp_path: Path) -> None:
    write(tmp_path, "router/node/limits.py", "def ping_limits(config):\n    return PingLimits(config.link.ping_s)")
    [found] = limits_once(read(tmp_path))
    assert "by position" in found


def test_a_world_with_a_cycle_of_its_own_is_caught(tmp_path: Path) -> None:
    write(tmp_path, "router/node/cycle.py", "class Cycle: ...")
    write(tmp_path, "services/bell/rules.py", "class Bell: ...")
    write(tmp_path, "tests/world/node.py", "from router.node.cycle import Cycle\nclass Node: ...")
    assert list(worlds(read(tmp_path))) == []
    write(tmp_path, "tests/world/node.py", "class Cycle: ...\nclass Bell: ...")
    read.cache_clear()
    assert [found.partition(" defines ")[2].partition(",")[0] for found in worlds(read(tmp_path))] == ["Cycle", "Bell"]


def test_what_tests_share_stands_in_rigs_and_no_conftest_is_imported() -> None:
    """Several folders have a conftest.py: given to pytest together, only one of these is found under that name."""
    tests = {path: text for path, text in read(ROOT).items() if path.startswith("tests/") and path.endswith(".py")}
    importing = [path for path, text in tests.items() if re.search(r"^(from|import) conftest\b", text, re.MULTILINE)]
    ports = [path for path, text in tests.items() if re.search(r"^def free_port\b", text, re.MULTILINE)]
    assert not importing and ports == ["tests/rigs/ports.py"]
