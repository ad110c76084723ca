"""A stopped node gets another key: each step may be the last one before a crash, and the next start finishes it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import cbor2
import lmdb
import pytest

from router.core.control.node_copies import COPY
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.succession import make_succession
from router.disk import private_file
from router.disk.limits import StoreLimits
from router.disk.store.file import give_to, owner
from router.disk.store.store import Store
from router.settings import keyring, node_rotation, own_successions
from router.settings.home import Home
from router.settings.node_rotation import FILE_NAME
from router.settings.own_successions import SuccessionError

NOW_S = 1_800_000_000


class Killed(Exception):
    pass


def made(path: Path) -> Home:
    """Return a home whose node has run."""
    home = Home(path / "home")
    home.create()
    key = keyring.load_or_create(home, keyring.NODE)
    with closing(Store(home.store_path, StoreLimits(), b"b" * 16)) as store:
        store.recover(bytes(key.public))
    return home


def check(home: Home, old: bytes, new: bytes) -> None:
    """Check that all parts of the home are of one key."""
    assert keyring.load(home, keyring.NODE).public == new and owner(home.store_path) == new
    [said] = own_successions.load(home.key_path.parent, keyring.load(home, keyring.NODE).public)
    assert (said.old, said.new) == (old, new)
    assert sorted(one.name for one in home.key_path.parent.iterdir()) == ["node.key", "node.successions"]


def test_key_store_and_statement_change_together_and_a_second_one_follows_the_first(tmp_path: Path) -> None:
    home = made(tmp_path)
    old = keyring.load(home, keyring.NODE).public
    first = node_rotation.rotate(home, NOW_S)
    check(home, old, first.new)
    second = node_rotation.rotate(home, NOW_S)
    assert (second.old, second.new) == (first.new, keyring.load(home, keyring.NODE).public)
    assert own_successions.load(home.key_path.parent, second.new) == [first, second]
    assert node_rotation.finish_begun(home) is None


@pytest.mark.parametrize("step", range(4))
def test_killed_at_any_step_it_is_the_old_one_or_finished_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    home = made(tmp_path)
    old, done = keyring.load(home, keyring.NODE).public, [0]

    def dies(inner: Any) -> Any:
        def act(*given: Any) -> Any:
            if done[0] == step:
                raise Killed
            done[0] += 1
            return inner(*given)

        return act

    with monkeypatch.context() as patched:
        patched.setattr(private_file, "replace", dies(private_file.replace))
        patched.setattr(private_file, "remove", dies(private_file.remove))
        patched.setattr(node_rotation, "give_to", dies(give_to))
        with pytest.raises(Killed):
            node_rotation.rotate(home, NOW_S)
    said = node_rotation.finish_begun(home)
    assert said is not None and said.old == old
    check(home, old, said.new)


def test_killed_before_it_has_begun_it_is_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = made(tmp_path)
    old = keyring.load(home, keyring.NODE).public

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(private_file, "create", full)
        with pytest.raises(SuccessionError, match="No space left on device; see that there is room"):
            node_rotation.rotate(home, NOW_S)
    assert node_rotation.finish_begun(home) is None
    assert keyring.load(home, keyring.NODE).public == old == owner(home.store_path)


def test_a_home_without_a_store_gets_another_key_as_well(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    old = keyring.load_or_create(home, keyring.NODE).public
    said = node_rotation.rotate(home, NOW_S)
    assert said.old == old and keyring.load(home, keyring.NODE).public == said.new and owner(home.store_path) is None


def test_what_has_begun_for_another_key_or_is_damaged_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    other, home = made(tmp_path / "other"), made(tmp_path)
    old, begun = keyring.load(home, keyring.NODE).public, home.key_path.parent / FILE_NAME
    seed = b"\x07" * 32
    said = make_succession(keyring.load(other, keyring.NODE), SigningKey(seed), NOW_S, NOW_S + 9)
    for text, because in (
        (f"{seed.hex()} {own_successions.line_of(said)}\n", "is of another key"),
        (f"{bytes(32).hex()} {own_successions.line_of(said)}\n", "should hold a rotation"),
        ("x", "should hold a rotation that has begun, and holds 1 other bytes"),
    ):
        private_file.replace(begun, text.encode())
        with pytest.raises(SuccessionError, match=because) as error:
            node_rotation.rotate(home, NOW_S)
        assert seed.hex() not in str(error.value)
        assert keyring.load(home, keyring.NODE).public == old == owner(home.store_path)


def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = made(tmp_path)
    node_rotation.rotate(home, NOW_S)
    monkeypatch.setattr(node_rotation, "KEPT_MAX", 1)
    with pytest.raises(SuccessionError, match="which is the most"):
        node_rotation.rotate(home, NOW_S)


def with_row(home: Home, name: str, key: bytes, value: object) -> None:
    with lmdb.open(str(home.store_path), max_dbs=16, lock=False) as environment, environment.begin(write=True) as txn:
        txn.put(key, cbor2.dumps(value), db=environment.open_db(name.encode(), txn))


@pytest.mark.parametrize("apart_s", [8 * 86_400, 62 * 365 * 86_400, -2 * 86_400])
def test_a_wrong_clock_makes_no_statement_that_no_neighbour_would_believe(tmp_path: Path, apart_s: int) -> None:
    """It could not be made again: the old key is kept nowhere."""
    home = made(tmp_path)
    old = keyring.load(home, keyring.NODE).public
    with_row(home, "meta", b"clock", [NOW_S * 10**9, NOW_S * 10**9, "believed"])
    with pytest.raises(SuccessionError, match=r"the last time that this node trusted.*router clock confirm"):
        node_rotation.rotate(home, NOW_S + apart_s)
    assert keyring.load(home, keyring.NODE).public == old and not node_rotation.has_begun(home)
    assert node_rotation.rotate(home, NOW_S + 86_400).old == old


def test_a_clock_that_no_statement_can_hold_is_named(tmp_path: Path) -> None:
    home = made(tmp_path)
    with pytest.raises(SuccessionError, match="2105"):
        node_rotation.rotate(home, UINT32_MAX - 9)
    assert not node_rotation.has_begun(home)


def test_a_home_of_which_a_copy_ran_is_decided_about_first(tmp_path: Path) -> None:
    home = made(tmp_path)
    with_row(home, "book", COPY, [0, 5, b"1" * 8, NOW_S, False])
    with pytest.raises(SuccessionError, match=r"router copy keep.*neighbours follow no key by which two nodes ran"):
        node_rotation.rotate(home, NOW_S)
    assert not node_rotation.has_begun(home)
    with_row(home, "meta", b"life", [1, 0, 0, 0, 1, 0])
    assert node_rotation.rotate(home, NOW_S).new == keyring.load(home, keyring.NODE).public


def test_a_large_store_without_free_pages_changes_its_owner(tmp_path: Path) -> None:
    home = made(tmp_path)
    with lmdb.open(str(home.store_path), max_dbs=16, lock=False, map_size=64 << 20) as environment:
        book = environment.open_db(b"book")
        with environment.begin(write=True) as txn:
            for number in range(12):
                txn.put(b"\xff%d" % number, bytes(1 << 20), db=book)
    old = keyring.load(home, keyring.NODE).public
    check(home, old, node_rotation.rotate(home, NOW_S).new)
