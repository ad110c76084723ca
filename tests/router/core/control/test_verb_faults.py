"""A verb without a part, and a part that fails: the service is told at once which class of which file it is."""

from __future__ import annotations

import gc
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples.core import ALICE
from test_verb_finder import BELL, House

from router.core.control.verb_finder import load_parts, load_verbs, news_of_verbs, requests_of
from router.core.control.verb_tables import deaf_parts, table_faults, without_part, word_faults
from router.core.wire.admin import Inquiry
from router.node.admin import Inquiries
from router.service.verbs.verb import VerbFault

VERBS = '''
"""Verbs."""
from typing import ClassVar
from router.service.verbs.verb import News, Request

class Toll(Request, frozen=True):
    WORD: ClassVar[str] = "toll"
    how: str = ""

class Lost(Request, frozen=True):
    WORD: ClassVar[str] = "toll-lost"

class LostLater(Request, frozen=True):
    WORD: ClassVar[str] = "toll-lost-later"
    ANSWERED_LATER: ClassVar[bool] = True

class TollAgain(Request, frozen=True):
    WORD: ClassVar[str] = "toll"

class Tolled(News, frozen=True):
    WORD: ClassVar[str] = "tolled"

class TolledAgain(News, frozen=True):
    WORD: ClassVar[str] = "tolled"
'''
PARTS = '''
"""Their parts."""
from typing import ClassVar
from router.core.control.part import Hears, Orders
from router.core.control.verb_part import VerbPart
from router.core.wire.crypto import InvalidKey
from toll_verbs import Toll

class Tolls(VerbPart):
    def __init__(self, kernel, rights):
        self.pending = kernel.pending

    def toll(self, link, said, now):
        match said.how:
            case "fail":
                return {}["rope"]
            case "decide":
                self.pending.changes.locals.append(bytes(32))
                raise ValueError("the rope broke")
            case "decide wrongly":
                self.pending.changes.locals.append(bytes(32))
                raise InvalidKey("no key")
            case "bytes":
                return {"rung": b"1"}
            case "number":
                return 17

    def show(self, argument, now):
        if argument:
            self.pending.changes.locals.append(bytes(32))
            raise ValueError("no such bell")
        raise TypeError("no bell")

    HEARS: ClassVar[Hears] = {Toll: toll}
    ORDERS: ClassVar[Orders] = {"bells": show}

class Deaf(VerbPart):
    def __init__(self, kernel, rights): ...
'''


@pytest.fixture(scope="module")
def tolls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let verbs and parts stand in two files of their own, until these tests are over."""
    place = tmp_path_factory.mktemp("tolls")
    (place / "toll_verbs.py").write_text(VERBS)
    (place / "toll_parts.py").write_text(PARTS)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(place)
        importlib.import_module("toll_parts")
    yield
    for name in ("toll_parts", "toll_verbs"):
        del sys.modules[name]
    gc.collect()  # a class is known until it is gone


def test_the_verbs_of_the_house_have_a_part_each() -> None:
    gc.collect()
    parts = load_parts()
    assert not list(table_faults(parts)) and not list(deaf_parts(parts))
    assert not list(without_part(parts, requests_of()))
    assert not list(word_faults(requests_of())) and not list(word_faults(news_of_verbs()))


def test_a_file_of_a_verb_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spoilt_verb.py").write_text("\n1 / 0\n")
    verbs = importlib.import_module("router.service.verbs")
    monkeypatch.setattr(verbs, "__path__", [*verbs.__path__, str(tmp_path)])
    with pytest.raises(VerbFault, match=r"^router/service/verbs/spoilt_verb.py cannot be loaded: ZeroDiv.*; mend that"):
        load_verbs()


@pytest.mark.usefixtures("tolls")
def test_a_request_that_no_part_carries_out_is_answered_by_the_node_with_its_class_and_file() -> None:
    for word, name in (("toll-lost", "Lost"), ("toll-lost-later", "LostLater")):
        assert json.loads(Inquiries([]).answer(None, Inquiry(word, "{}"))) == {  # type: ignore[arg-type]
            "error": f'{name} of toll_verbs.py, the verb "{word}", has no part: none in router/core/control/ names it '
            "in its HEARS; write the part there, or name it"
        }


@pytest.mark.usefixtures("tolls")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("fail", "Tolls of toll_parts.py, line 16, failed on Toll of toll_verbs.py: KeyError('rope')"),
        ("bytes", "answered Toll of toll_verbs.py with what JSON does not have (TypeError('Object of type bytes"),
        ("number", "Tolls of toll_parts.py answered Toll of toll_verbs.py with something of type int; return a JSON"),
        ("nothing", "Tolls of toll_parts.py answered Toll of toll_verbs.py with nothing; return a JSON object, or"),
    ],
)
def test_a_part_that_fails_is_named_in_the_answer_with_file_and_line(how: str, said: str) -> None:
    one = House()
    found = one.ask(BELL, Inquiry("toll", f'{{"how":"{how}"}}'))
    assert isinstance(found, dict) and said in found["error"]
    assert one.ask(BELL, Inquiry("dial", f'{{"key":"{"ab" * 32}"}}')) == {"connected": False}, "the router goes on"


@pytest.mark.usefixtures("tolls")
def test_a_part_that_fails_after_it_has_decided_ends_the_node_and_is_named() -> None:
    with pytest.raises(VerbFault, match=r"line 19, failed on Toll of toll_verbs.py: .*broke.*so the node ends"):
        House().ask(BELL, Inquiry("toll", '{"how":"decide"}'))
    with pytest.raises(VerbFault, match=r"line 22, failed on Toll of toll_verbs.py: .*no key.*so the node ends"):
        House().ask(BELL, Inquiry("toll", '{"how":"decide wrongly"}'))
    with pytest.raises(VerbFault, match=r"line 31, failed on the order \"bells\": .*no such bell.*so the node ends"):
        House().ask(ALICE, Inquiry("bells", "x"))


@pytest.mark.usefixtures("tolls")
@pytest.mark.parametrize("method", ["link_up", "link_down", "tick"])
def test_a_part_that_fails_as_links_or_time_pass_is_named_with_file_and_line(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("toll_parts")
    source = f"def {method}(self, *arguments):\n    raise LookupError('no rope')\n"
    made: dict[str, Any] = {}
    exec(compile(source, str(module.__file__), "exec"), made)
    monkeypatch.setattr(module.Tolls, method, made[method])
    said = rf"^Tolls of toll_parts.py, line 2, failed in {method}: LookupError\('no rope'\); .* node ends: mend"
    with pytest.raises(VerbFault, match=said):
        one = House()
        one.router.link_down(one.bell, one.now())
        one.router.tick(one.now())


@pytest.mark.usefixtures("tolls")
def test_an_order_on_which_its_part_fails_is_answered_with_file_and_line() -> None:
    said = House().ask(ALICE, Inquiry("bells"))
    assert said == {"error": "Tolls of toll_parts.py, line 32, failed on the order \"bells\": TypeError('no bell')"}


@pytest.mark.usefixtures("tolls")
def test_what_is_wrong_with_verbs_is_found_by_their_classes() -> None:
    parts, requests = load_parts(), requests_of(["toll_verbs"])
    lacking = [one.partition(", the verb ")[0] for one in without_part(parts, requests)]
    assert lacking == [f"{one} of toll_verbs.py" for one in ("Lost", "LostLater", "TollAgain")]
    [same] = word_faults(requests)
    assert (
        same
        == 'Toll of toll_verbs.py and TollAgain of toll_verbs.py have the word "toll"; give one of them another WORD'
    )
    assert 'TolledAgain of toll_verbs.py have the word "tolled"' in next(word_faults(news_of_verbs(["toll_verbs"])))
    assert list(deaf_parts(parts)) == ["Deaf of toll_parts.py hears nothing; write its table HEARS, {Verb: method}"]
