"""Secrets of a state: sealed on the disk, unreadable once forgotten, and the errors for a state that cannot be used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest
from nacl import bindings

from router.disk import private_file
from router.disk.state.app_rows import AppBatch, AppRows
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError
from router.disk.state.secrets import KEY_FILE, NEXT_FILE
from router.disk.state.service_state import Batch, State


def everything(folder: Path) -> bytes:
    """Return the bytes of all files of a state, also of holes and freed pages."""
    return b"\0".join(one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file())


def put(state: AppState, rows: dict[bytes, bytes | None], *, forgets: bool = False) -> None:
    batch = AppBatch(forgets=forgets)
    for key, value in rows.items():
        if value is None:
            batch.remove("prekeys", key)
        else:
            batch.put("prekeys", key, value, secret=True)
    state.commit(batch)


def key_in(folder: Path) -> bytes:
    return (folder / KEY_FILE).read_bytes()


def test_an_app_s_secrets_are_nowhere_on_the_disk_and_their_old_key_neither(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    put(state, {b"old": b"an old secret", b"new": b"a new secret"})
    before, copy = key_in(tmp_path), tmp_path.with_name("copy")
    shutil.copytree(tmp_path, copy)
    put(state, {b"old": None})
    assert key_in(tmp_path) == before
    state.commit(AppBatch(forgets=True))
    assert state.rows("prekeys") == [(b"new", b"a new secret")]
    state.close()
    found = everything(tmp_path)
    old_key = before.split()[-1]
    for gone in (b"old secret", b"new secret", old_key, bytes.fromhex(old_key.decode())):
        assert gone not in found
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data.mdb", "lock.mdb", KEY_FILE]
    assert AppState(tmp_path).rows("prekeys") == [(b"new", b"a new secret")]
    assert AppState(copy).get("prekeys", b"old") == b"an old secret", "a copy of then, with its key, is one"
    shutil.copy(copy / "data.mdb", tmp_path / "data.mdb")
    with pytest.raises(StateError, match="is not the key that has sealed them; restore folder and key of one moment"):
        AppState(tmp_path).get("prekeys", b"old")


def test_a_service_s_secrets_are_read_like_others_and_can_be_forgotten(tmp_path: Path) -> None:
    state = State(tmp_path / "bell")
    batch = Batch()
    batch.put(b"a/1", b"plain")
    batch.put(b"a/2", b"very secret", secret=True)
    batch.put(b"a/3", b"also secret", secret=True)
    state.commit(batch, 0)
    before = key_in(tmp_path / "bell")
    assert [*state] == [b"a/1", b"a/2", b"a/3"] and len(state) == 3
    assert state.under(b"a/") == [(b"1", b"plain"), (b"2", b"very secret"), (b"3", b"also secret")]
    assert state.several([b"a/2", b"a/1"]) == [b"very secret", b"plain"] and state[b"a/3"] == b"also secret"
    state.commit(Batch(kept={b"a/2": None, b"a/3": b"no longer secret"}, forgets=True), 0)
    assert dict(state) == {b"a/1": b"plain", b"a/3": b"no longer secret"} and b"a/2" not in state
    state.close()
    found = everything(tmp_path / "bell")
    assert b"very secret" not in found and b"also secret" not in found and before.split()[-1] not in found
    again = State(tmp_path / "bell")
    batch = Batch()
    batch.put(b"a/1", b"now a secret", secret=True)
    again.commit(batch, 0)
    assert dict(again) == {b"a/1": b"now a secret", b"a/3": b"no longer secret"}
    again.close()


def test_of_one_cycle_s_values_the_last_counts_secret_or_not() -> None:
    first, second = Batch(), Batch()
    first.put(b"a", b"1", secret=True)
    first.put(b"b", b"1", secret=True)
    second.put(b"a", b"2")
    second.put(b"c", b"2", secret=True)
    first.take(second)
    assert (first.kept, first.secret) == ({b"a": b"2", b"b": b"1", b"c": b"2"}, {b"b", b"c"})
    first.put(b"b", None)
    assert first.secret == {b"c"} and Batch(forgets=True)


def test_a_secret_is_bound_to_its_row(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    put(state, {b"one": b"first", b"two": b"second"})
    state.close()
    with lmdb.open(str(tmp_path), max_dbs=10) as env:
        table = env.open_db(b"secrets")
        with env.begin(write=True) as txn:
            txn.put(b"prekeys/two", txn.get(b"prekeys/one", db=table) or b"", db=table)
    state = AppState(tmp_path)
    assert state.get("prekeys", b"one") == b"first"
    with pytest.raises(StateError, match="was changed: it cannot be opened; see to its disk"):
        state.get("prekeys", b"two")
    state.close()


def test_the_form_of_a_sealed_row_is_what_the_paper_says(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    put(state, {b"one": b"first"})
    state.close()
    with lmdb.open(str(tmp_path), max_dbs=10) as env, env.begin() as txn:
        sealed = bytes(txn.get(b"prekeys/one", db=env.open_db(b"secrets", txn, create=False)) or b"")
    _, _, _, _, key = key_in(tmp_path).split(b" ")
    opened = bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
        sealed[24:], b"prekeys/one", sealed[:24], bytes.fromhex(key.decode())
    )
    assert opened == b"first" and oct((tmp_path / KEY_FILE).stat().st_mode & 0o777) == "0o600"


def test_each_value_has_a_nonce_of_its_own(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    put(state, {b"%d" % number: b"same" for number in range(50)})
    state.commit(AppBatch(forgets=True))
    state.close()
    with lmdb.open(str(tmp_path), max_dbs=10) as env, env.begin() as txn:
        rows = [bytes(value) for _, value in txn.cursor(env.open_db(b"secrets", txn, create=False))]
    assert len(rows) == 50 and len({row[:24] for row in rows}) == 50


def test_another_user_of_the_state_goes_on_after_it_was_forgotten(tmp_path: Path) -> None:
    one, other = AppState(tmp_path), AppState(tmp_path)
    put(one, {b"a": b"1", b"b": b"2"})
    assert other.get("prekeys", b"a") == b"1"
    put(one, {b"b": None}, forgets=True)
    assert other.get("prekeys", b"a") == b"1"
    put(other, {b"c": b"3"})
    assert one.rows("prekeys") == [(b"a", b"1"), (b"c", b"3")]
    one.close()
    other.close()


def test_a_key_that_a_crash_left_beside_is_overwritten_when_the_state_is_opened(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    put(state, {b"a": b"1"})
    state.close()
    kept = os.open(tmp_path / NEXT_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(kept, b"router secrets 1 %b %b\n" % (b"0" * 16, b"1" * 64))
    assert AppState(tmp_path).get("prekeys", b"a") == b"1"
    assert not (tmp_path / NEXT_FILE).exists()
    assert not os.pread(kept, 200, 0).strip(b"\0"), "overwritten, not only removed"
    os.close(kept)


def test_an_old_key_is_overwritten_where_it_lay(tmp_path: Path) -> None:
    state = AppState(tmp_path)
    put(state, {b"a": b"1"})
    kept = os.open(tmp_path / KEY_FILE, os.O_RDONLY)
    state.commit(AppBatch(forgets=True))
    assert not os.pread(kept, 200, 0).strip(b"\0")
    os.close(kept)
    state.close()


# -- a state that cannot be used -------------------------------------------------------------------------------------


def damaged(folder: Path) -> None:
    (folder / "data.mdb").write_bytes(b"rubbish\n" * 2000)


def cut(folder: Path) -> None:
    os.truncate(folder / "data.mdb", 100)


def newer(folder: Path) -> None:
    with lmdb.open(str(folder), max_dbs=10) as env, env.begin(write=True) as txn:
        txn.put(b"version", b"2", db=env.open_db(b"meta", txn))


def without_key(folder: Path) -> None:
    (folder / KEY_FILE).unlink()


def key_for_all(folder: Path) -> None:
    (folder / KEY_FILE).chmod(0o644)


def key_by_link(folder: Path) -> None:
    (folder / KEY_FILE).rename(folder.with_name("elsewhere"))
    (folder / KEY_FILE).symlink_to(folder.with_name("elsewhere"))


def key_as_folder(folder: Path) -> None:
    (folder / KEY_FILE).unlink()
    (folder / KEY_FILE).mkdir()


def key_as_pipe(folder: Path) -> None:
    (folder / KEY_FILE).unlink()
    os.mkfifo(folder / KEY_FILE, 0o600)


def dangling(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.with_name("nowhere"))


def a_file(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.touch()


FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (damaged, r"cannot be opened: .*; see to its disk; to begin anew, stop the"),
    (cut, r"cannot be opened: .*; see to its disk; to begin anew, stop the"),
    (newer, r"has the version 2, and this program reads version 1: run the program that wrote it; to begin anew"),
    (without_key, r"is not the key that has sealed them; restore folder and key of one moment, or move the state away"),
    (key_for_all, r"secrets.key can be read by others \(mode 644\); run: chmod 600 "),
    (key_by_link, r"secrets.key is a symbolic link, and a key that can be forgotten is a file: put it there itself"),
    (key_as_folder, r"secrets.key cannot be read: .*; it must be a file of the user who runs this; put it back, or "),
    (key_as_pipe, r"secrets.key cannot be read: it is no regular file; it must be a file of the user who runs this"),
    (dangling, r"it is a symbolic link to .*nowhere, which is not there; make that folder, or remove the link"),
    (a_file, r"cannot be opened: .*; see to its disk; to begin anew, stop the"),
]


@pytest.mark.parametrize(("fault", "said"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_what_cannot_be_used_says_why_and_what_to_do(tmp_path: Path, fault: Any, said: str) -> None:
    app, service = tmp_path / "app", tmp_path / "service"
    state, kept = AppState(app), Batch()
    put(state, {b"a": b"1"})
    state.close()
    of_service = State(service)
    kept.put(b"a", b"1", secret=True)
    of_service.commit(kept, 0)
    of_service.close()
    fault(app)
    with pytest.raises(StateError, match=said):
        AppState(app).get("prekeys", b"a")
    shutil.rmtree(tmp_path / "moved", ignore_errors=True)
    (tmp_path / "elsewhere").unlink(missing_ok=True)
    fault(service)
    with pytest.raises(StateError, match=said):
        State(service)[b"a"]


def test_a_fault_of_the_disk_while_it_is_read_is_an_error_of_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app goes on then, and says it; whoever asks for its prekey would end it otherwise."""
    state = AppState(tmp_path)
    put(state, {b"a": b"1"})
    state.close()
    state = AppState(tmp_path)

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(StateError, match=r"cannot be read: .*Permission denied"):
        state.get("prekeys", b"a")
    monkeypatch.undo()
    assert state.get("prekeys", b"a") == b"1"
    state.close()


def test_a_state_that_was_removed_while_it_is_used_is_not_written_into_nothing(tmp_path: Path) -> None:
    state = AppState(tmp_path / "app")
    put(state, {b"a": b"1"})
    (tmp_path / "app").rename(tmp_path / "moved")
    with pytest.raises(StateError, match="renamed or removed while it was in use; put it back"):
        put(state, {b"a": b"2"})
    (tmp_path / "moved").rename(tmp_path / "app")
    put(state, {b"a": b"3"})
    assert state.get("prekeys", b"a") == b"3"
    state.close()


def test_who_reads_while_the_key_is_replaced_reads_all_the_same(tmp_path: Path) -> None:
    """By this process, which knows the old key, or by another one before this one has read it."""
    one = AppState(tmp_path)
    put(one, {b"a": b"1", b"b": b"2"})
    with one.reading() as rows:
        put(one, {b"a": b"3"}, forgets=True)
        assert rows.rows("prekeys") == [(b"a", b"1"), (b"b", b"2")]
    new, asked = AppState(tmp_path), list[AppRows]()

    def read(rows: AppRows) -> list[tuple[bytes, bytes]]:
        asked.append(rows)
        if len(asked) == 1:
            put(one, {b"b": b"4"}, forgets=True)
        return rows.rows("prekeys")

    assert new.read(read) == [(b"a", b"3"), (b"b", b"4")] and len(asked) == 2
    one.close()
    new.close()


def test_erase_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError):
        private_file.overwrite(tmp_path / "link")
    private_file.erase(tmp_path / "link")
    assert (tmp_path / "file").read_bytes() == b"x" * 200_000
    kept = os.open(tmp_path / "file", os.O_RDONLY)
    private_file.erase(tmp_path / "file")
    assert os.pread(kept, 300_000, 0) == bytes(200_000) and not list(tmp_path.iterdir())
    os.close(kept)


def test_a_service_s_state_of_an_older_version_opens_and_may_keep_secrets(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with lmdb.open(str(tmp_path), max_dbs=5) as env:
        tables = {name: env.open_db(name) for name in (b"kept", b"events", b"outbox", b"heard", b"meta")}
        with env.begin(write=True) as txn:
            txn.put(b"count", b"17", db=tables[b"kept"])
            txn.put(b"epoch", b"12345678", db=tables[b"meta"])
    state, batch = State(tmp_path), Batch()
    assert dict(state) == {b"count": b"17"} and state.epoch == b"12345678"
    batch.put(b"code", b"secret", secret=True)
    state.commit(batch, 0)
    assert dict(state) == {b"count": b"17", b"code": b"secret"}
    state.close()
