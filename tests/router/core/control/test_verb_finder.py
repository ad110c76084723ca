"""A verb is added by two files: the router finds the part that carries it out by its class, and asks nobody else."""

from __future__ import annotations

import gc
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE

from router.core.control.verb_finder import load_verbs
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast

BELL = SigningKey(bytes((61,)) * 32)
VERB = '''
"""A verb."""
from typing import ClassVar
from router.service.verbs.verb import Request

class Ring(Request, frozen=True):
    WORD: ClassVar[str] = "ring"
    times: int
'''
PART = '''
"""Its part."""
from typing import Any, ClassVar
from router.core.control.part import Hears, Orders
from router.core.control.verb_part import VerbPart
from ring_verb import Ring

class Bells(VerbPart):
    def __init__(self, kernel, rights):
        self.me, self.rung = kernel.directory.me, 0

    def ring(self, link, said, now):
        self.rung += said.times
        return {"rung": self.rung}

    def show(self, argument, now):
        if argument:
            raise ValueError(f"the bell takes no {argument}")
        return [self.rung]

    HEARS: ClassVar[Hears] = {Ring: ring}
    ORDERS: ClassVar[Orders] = {"bell": show}
'''


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a verb and its part stand in two files of their own, until the test is over."""
    (tmp_path / "ring_verb.py").write_text(VERB)
    (tmp_path / "ring_part.py").write_text(PART)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("ring_part")
    yield
    for name in ("ring_part", "ring_verb"):
        del sys.modules[name]
    gc.collect()  # a class is known until it is gone


class House(OneRouter):
    """A router with a service and the owner's command."""

    def __init__(self) -> None:
        super().__init__(services={bytes(BELL.public): "bell"})
        self.bell, self.alice = self.link(BELL.public), self.link(ALICE.public)

    def ask(self, key: SigningKey, inquiry: Inquiry) -> object:
        """Return the answer to a question, and None if it is refused."""
        text = self.text(key, inquiry)
        return json.loads(text) if text else None

    def text(self, key: SigningKey, inquiry: Inquiry) -> bytes:
        """Return the text of the answer to a question, and none if it is refused."""
        link = self.bell if key is BELL else self.alice
        expiry = expiry_min(WALL_S + 600)
        self.bring(link, seal_unicast(key, ME.public, encode_inquiry(inquiry), ttl_s=0, expiry_min=expiry))
        self.cycle()
        told = [decode_inquiry(open_message(one).body) for one in self.told(link)]
        return told[-1].text if told and isinstance(told[-1], Answer) else b""


@pytest.mark.usefixtures("part")
def test_a_part_in_a_file_of_its_own_is_asked_its_verb_and_its_order() -> None:
    one = House()
    assert one.ask(BELL, Inquiry("ring", '{"times":2}')) == {"rung": 2}
    assert one.ask(BELL, Inquiry("ring", '{"times":1}')) == {"rung": 3}
    assert one.ask(ALICE, Inquiry("bell")) == [3]
    assert one.ask(ALICE, Inquiry("bell", "hammer")) == {"error": "the bell takes no hammer"}
    assert one.ask(ALICE, Inquiry("ring", '{"times":1}')) is None, "she is no service"
    wrong = one.ask(BELL, Inquiry("ring", '{"times":"often"}'))
    assert isinstance(wrong, dict) and wrong["error"].startswith("ring: Expected `int`")


@pytest.mark.usefixtures("part")
def test_a_request_with_a_number_is_answered_with_it_also_if_it_is_wrong() -> None:
    one = House()
    assert one.text(BELL, Inquiry("ring", '#17 {"times":2}')) == b'#17 {"rung": 2}'
    assert one.text(BELL, Inquiry("ring", '#18 {"times":"often"}')).startswith(b'#18 {"error": "ring: Expected `int`')
    assert one.text(BELL, Inquiry("ring", '#x {"times":2}')).startswith(b'{"error": "ring: ')


def test_without_the_files_the_router_does_not_know_the_word() -> None:
    gc.collect()
    assert all(one.__module__.startswith("router.core.control.") for one in load_verbs())
    assert House().ask(BELL, Inquiry("ring", '{"times":2}')) is None
