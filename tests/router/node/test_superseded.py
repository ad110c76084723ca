"""A node whose key another one has the place of, and a dialled node that shows a key of before its renewal."""

from __future__ import annotations

import pytest

from router.core.neighbours.directory import Directory, Neighbour
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short
from router.node.superseded import NAMED_MAX, Superseded, explained
from router.transport.contract import ConnectFailed

OLD, NEW, OTHER = (SigningKey(bytes((number,)) * 32).public for number in (1, 2, 3))


def directory(*neighbours: bytes) -> Directory:
    """Return the directory of a node with these neighbours, each called by its first byte."""
    made = Directory(b"m" * 32)
    made.replace_neighbours([Neighbour(key, str(key[0])) for key in neighbours])
    return made


def answered_by(key: PublicKey | None) -> ConnectFailed:
    return ConnectFailed(Reason.CONNECT_FAILED, "is the address still right?", has_answered=True, answered_by=key)


def test_former_key_that_answers_is_named_with_what_to_do() -> None:
    found = explained(answered_by(OLD), NEW, {bytes(NEW): [bytes(OLD)]}.__getitem__)
    new, old = (short(key_text("addr", one)) for one in (NEW, OLD))
    said = f"key {new} was dialled, but {old} answered, the key that it has followed: that node was restored from a"
    assert found.text.startswith(said) and "its operator restores a newer snapshot" in found.text
    assert (found.answered_by, found.has_answered, found.reason) == (OLD, True, Reason.CONNECT_FAILED)


def test_other_keys_that_answer_are_named_as_before() -> None:
    for key in (OTHER, None):
        failed = answered_by(key)
        assert explained(failed, NEW, lambda _: [bytes(OLD)]) is failed


def test_node_that_chosen_neighbours_refuse_as_renewed_says_where_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = Superseded(directory(bytes(OLD), bytes(NEW)))
    found.heard(OTHER, is_superseded=True)
    found.heard(None, is_superseded=True)
    assert (found.facts(), found.problem) == (None, "")
    for _ in range(2):
        found.heard(OLD, is_superseded=True)
    assert [one.getMessage() for one in caplog.records] == [found.problem], "logged once"
    facts = found.facts()
    assert facts is not None and facts["at"] == [OLD.hex()] and "has its place at 138, so this home" in facts["problem"]
    assert "restore a snapshot of after the renewal; if there is none, run `router keys rotate-node`" in found.problem
    found.heard(OLD, is_superseded=False)
    assert found.facts() is None


def test_only_so_many_neighbours_that_refuse_the_key_are_remembered_and_named() -> None:
    found = Superseded(directory(*(bytes((number,)) * 32 for number in range(NAMED_MAX + 9))))
    for number in range(NAMED_MAX + 9):
        found.heard(PublicKey(bytes((number,)) * 32), is_superseded=True)
    assert repr(found) == f"<superseded at {NAMED_MAX} neighbours>"
    assert f"at 9, 10, 11, {NAMED_MAX - 3} more, so" in found.problem
