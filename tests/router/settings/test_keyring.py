"""Keys and groups on disk: made once, kept private, refused when damaged, never shown."""

from __future__ import annotations

import os
import re
import secrets
import stat
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from router.core.wire.address import parse_address
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import GroupLink, new_group
from router.core.wire.hint import Hint
from router.core.wire.text import key_text
from router.disk import private_file
from router.settings import keyring
from router.settings.keyring import MORE_GROUPS, KeyringError, add_group, find, groups, load, load_or_create, names


def key_file(home: Path, name: str = "node") -> Path:
    return home / "keys" / f"{name}.key"


def new_link(name: str | None = None) -> GroupLink:
    return new_group(secrets.token_bytes(32), secrets.token_bytes(32), name)


def failure(act: Callable[[], object]) -> tuple[str, str]:
    """Return the error's text, with everything that a traceback with all local variables could show."""
    with pytest.raises(KeyringError) as caught:
        act()
    shown, one = repr(caught.value), caught.value
    shown += "".join(traceback.TracebackException.from_exception(one, capture_locals=True).format())
    for hidden in (one.__context__, one.__cause__):
        shown += repr(hidden)
    return str(caught.value), shown


# Keys


def test_a_key_is_made_once(tmp_path: Path) -> None:
    key = load_or_create(tmp_path, "node")
    assert load_or_create(tmp_path, "node").seed == load(tmp_path, "node").seed == key.seed
    assert key_file(tmp_path).read_text() == key.seed.hex() + "\n"
    assert stat.S_IMODE(key_file(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file(tmp_path).parent.stat().st_mode) == 0o700


def test_names(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    for name in ("node", "bob", "_.-", "a" * 64):
        load_or_create(tmp_path, name)
    (tmp_path / "keys" / "notes.txt").touch()
    (tmp_path / "keys" / ".x.key").touch()
    assert names(tmp_path) == ["_.-", "a" * 64, "bob", "node"]


def test_many_at_once_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = {key.seed for key in pool.map(lambda _: load_or_create(tmp_path, "node"), range(32))}
    assert len(found) == 1
    assert [one.name for one in (tmp_path / "keys").iterdir()] == ["node.key"]


def test_a_missing_key(tmp_path: Path) -> None:
    assert failure(lambda: load(tmp_path, "bob"))[0].endswith("; none is known yet")
    load_or_create(tmp_path, "alice")
    assert failure(lambda: load(tmp_path, "alcie"))[0].endswith('; did you mean "alice"?')
    assert failure(lambda: load(tmp_path, "zz"))[0].endswith("; known are alice")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/etc/x", "a\\b", "a\0b", "a\n", "-x", ".x", "é", "a b", "a" * 65]
)
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    for act in (load, load_or_create):
        said, _ = failure(lambda act=act: act(tmp_path, name))  # type: ignore[misc]
        assert "cannot be a name; a name has 1 to 64 letters" in said
        assert all(one.isprintable() for one in said)
    with pytest.raises(KeyringError):
        add_group(tmp_path, name, new_link())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    load_or_create(tmp_path, "node")
    path = key_file(tmp_path)
    path.chmod(mode)
    for act in (load, load_or_create):
        said, _ = failure(lambda act=act: act(tmp_path, "node"))  # type: ignore[misc]
        assert said == f"{path} can be read by others (mode {mode:o}); run: chmod 600 {path}"


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"",
        lambda line: line[:-2],
        lambda line: line[:40],
        lambda line: b"\0" * len(line),
        lambda line: b"x" + line[1:],
        lambda line: line.strip() + b"0\n",
        lambda line: line + line,
        lambda line: line * 1000,
        lambda line: b" " + line,
        lambda line: b"\xff\xfe" + line,
    ],
)
def test_a_damaged_key_is_refused_and_not_replaced(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    seed = load_or_create(tmp_path, "node").seed.hex()
    path = key_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    for act in (load, load_or_create):
        said, shown = failure(lambda act=act: act(tmp_path, "node"))  # type: ignore[misc]
        assert said.startswith(f"{path} should hold a key")
        assert not re.search("|".join(seed[at : at + 12] for at in range(0, 52)), shown)
    assert path.read_bytes() == before


def test_line_ends_and_capitals_do_no_harm(tmp_path: Path) -> None:
    key = load_or_create(tmp_path, "node")
    for text in (key.seed.hex(), key.seed.hex().upper() + "\r\n", key.seed.hex() + "\n\n"):
        key_file(tmp_path).write_text(text, newline="")
        assert load(tmp_path, "node").public == key.public


def test_something_else_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("")
    assert "cannot be read: Not a directory" in failure(lambda: load_or_create(tmp_path, "node"))[0]
    (tmp_path / "keys").unlink()
    key_file(tmp_path).mkdir(parents=True)
    key_file(tmp_path).chmod(0o700)
    assert "cannot be read: Is a directory" in failure(lambda: load_or_create(tmp_path, "node"))[0]
    key_file(tmp_path, "bob").symlink_to("nowhere")
    assert "something else stands there" in failure(lambda: load_or_create(tmp_path, "bob"))[0]


def test_no_secret_in_the_failure_of_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = secrets.token_bytes(32)
    monkeypatch.setattr(secrets, "token_bytes", lambda _: seed)
    (tmp_path / "real" / "keys").mkdir(parents=True)
    (tmp_path / "real" / "keys" / "x.key").symlink_to("nowhere")
    link = new_group(seed, seed)
    (tmp_path / "real" / "groups").mkdir()
    (tmp_path / "real" / "groups" / "x").symlink_to("nowhere")
    for act in (
        lambda: load_or_create(tmp_path / "real", "x"),
        lambda: add_group(tmp_path / "real", "x", link),
    ):
        said, shown = failure(act)
        assert said.endswith("something else stands there; move it away")
        assert seed.hex() not in shown and link.text() not in shown and repr(seed) not in shown


def test_no_more_keys_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "KEYS_MAX", 1)
    load_or_create(tmp_path, "a")
    assert "holds 1 keys, which is the most" in failure(lambda: load_or_create(tmp_path, "b"))[0]
    load_or_create(tmp_path, "a")


# Groups


def test_groups(tmp_path: Path) -> None:
    assert groups(tmp_path) == {}
    link, other = new_link("friends"), new_link().read_only()
    assert add_group(tmp_path, "friends", link) == "friends"
    assert add_group(tmp_path, "b", other) == "b"
    assert groups(tmp_path) == {"b": other, "friends": link}
    assert stat.S_IMODE((tmp_path / "groups" / "b").stat().st_mode) == 0o600
    for text in ("friends", key_text("group", link.group), link.group.hex(), link.group.hex().upper()):
        assert find(tmp_path, text) == ("friends", link)


def test_a_group_added_again_keeps_its_name_and_gains_rights(tmp_path: Path) -> None:
    link = new_link()
    add_group(tmp_path, "a", link.read_only())
    assert add_group(tmp_path, "b", link) == "a"
    assert add_group(tmp_path, "a", link.read_only()) == "a"
    assert groups(tmp_path) == {"a": link}


def test_a_group_added_again_gains_newer_hints_and_keeps_what_it_has(tmp_path: Path) -> None:
    one = new_link("news")
    first, later = (
        one.with_hints((Hint(SigningKey(seed * 32).public, (parse_address("tls://198.51.100.7:1"),)),))
        for seed in (b"1", b"2")
    )
    for link, found in ((one, one), (first.read_only(), first), (one, first), (later, later)):
        add_group(tmp_path, "news", link)
        assert groups(tmp_path) == {"news": found}


def test_a_name_stands_for_one_group(tmp_path: Path) -> None:
    first = new_link()
    add_group(tmp_path, "a", first)
    said, _ = failure(lambda: add_group(tmp_path, "a", new_link()))
    assert said == f'"a" is the name of another group here, {key_text("group", first.group)}; choose another name'
    assert groups(tmp_path) == {"a": first}


def test_groups_that_are_not_found(tmp_path: Path) -> None:
    add_group(tmp_path, "friends", new_link())
    assert failure(lambda: find(tmp_path, "freinds"))[0] == (
        'there is no group "freinds"; did you mean "friends"?; ' + MORE_GROUPS
    )
    stranger = key_text("group", new_link().group)
    assert failure(lambda: find(tmp_path, stranger))[0].startswith(f"{stranger} is no group of this home")
    assert "checksum" in failure(lambda: find(tmp_path, stranger[:-1]))[0]
    assert "is an address" in failure(lambda: find(tmp_path, key_text("addr", new_link().group)))[0]


def test_a_link_typed_as_a_name_is_not_repeated(tmp_path: Path) -> None:
    text = new_link().text()
    assert text[24:] not in failure(lambda: find(tmp_path, text))[0]
    assert text[24:] not in failure(lambda: add_group(tmp_path, text, new_link()))[0]


@pytest.mark.parametrize("damage", [lambda text: text[:-5], lambda text: "", lambda text: text + "é", str.swapcase])
def test_a_damaged_group_is_refused_without_its_secret(tmp_path: Path, damage: Callable[[str], str]) -> None:
    link = new_link()
    add_group(tmp_path, "a", link)
    path = tmp_path / "groups" / "a"
    text = damage(link.text())
    path.write_text(text + "\n")
    for act in (lambda: find(tmp_path, "a"), lambda: add_group(tmp_path, "a", new_link())):
        said, shown = failure(act)
        assert said.startswith(f"{path} should hold a whole group link")
        assert not text or text[60:90] not in shown


def test_a_group_that_others_can_read_is_refused(tmp_path: Path) -> None:
    add_group(tmp_path, "a", new_link())
    path = tmp_path / "groups" / "a"
    path.chmod(0o644)
    assert failure(lambda: find(tmp_path, "a"))[0].endswith(f"run: chmod 600 {path}")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [one.getMessage() for one in caplog.records]
    caplog.clear()
    return said


def test_groups_goes_on_without_files_that_hold_no_link(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    link, directory = new_link(), tmp_path / "groups"
    add_group(tmp_path, "own", link)
    for name, text in (("notes.txt", "hello\n"), ("empty", "")):
        (directory / name).write_text(text)
        (directory / name).chmod(0o600)
    (directory / "folder").mkdir()
    (directory / "nowhere").symlink_to("gone")
    os.mkfifo(directory / "pipe", 0o600)
    assert groups(tmp_path) == {"own": link}
    none = "should hold a whole group link, and holds {} bytes; move it away, and add the group again if it was one"
    assert warnings(caplog) == [
        f"{directory}/empty {none.format(0)}",
        f"{directory}/folder cannot be read: Is a directory; it must be a file of the user who runs this",
        f"{directory}/notes.txt {none.format(6)}",
        f"{directory}/nowhere is a symbolic link to a file that is not there; mend it or remove it",
        f"{directory}/pipe cannot be read: it is no regular file; it must be a file of the user who runs this",
    ]
    assert groups(tmp_path) == {"own": link} and warnings(caplog) == [], "each is named once"
    assert find(tmp_path, link.group.hex()) == ("own", link)
    assert add_group(tmp_path, "other", new_link()) == "other"
    assert keyring.add_given_group(tmp_path, new_link("empty")) == "empty-2"


def test_addresses_goes_on_without_files_that_hold_no_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = load_or_create(tmp_path, "node")
    key_file(tmp_path, "old").touch(0o600)
    assert keyring.addresses(tmp_path) == {"node": key.public}
    assert [one.partition(" should hold a key")[0] for one in warnings(caplog)] == [str(key_file(tmp_path, "old"))]
    assert names(tmp_path) == ["node", "old"], "a key whose file is damaged is not made anew"


def test_of_many_who_make_one_group_only_the_one_that_is_kept_hears_so(tmp_path: Path) -> None:
    start = threading.Barrier(8)

    def make(link: GroupLink) -> GroupLink | None:
        start.wait()
        try:
            add_group(tmp_path, "a", link)
        except keyring.NameTaken:
            return None
        return link

    with ThreadPoolExecutor(8) as pool:
        made = [one for one in pool.map(make, [new_link() for _ in range(8)]) if one is not None]
    assert groups(tmp_path) == {"a": made[0]} and len(made) == 1


def test_a_group_that_appears_while_one_is_made_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, create = new_link(), private_file.create

    def after_another(path: Path, data: bytes) -> None:
        create(path, other.text().encode() + b"\n")  # as a program does that does not lock the directory
        create(path, data)

    monkeypatch.setattr(private_file, "create", after_another)
    assert failure(lambda: add_group(tmp_path, "a", new_link()))[0].startswith('"a" is the name of another group here')
    assert groups(tmp_path) == {"a": other}


def test_of_many_who_add_one_group_none_undoes_what_another_brings(tmp_path: Path) -> None:
    link = new_link()
    hints = (Hint(SigningKey(b"1" * 32).public, (parse_address("tls://198.51.100.7:1"),)),)
    given = [link.read_only(), link, link.read_only().with_hints(hints), link.read_only()]
    for at in range(20):
        home, start = tmp_path / str(at), threading.Barrier(4)
        add_group(home, "a", link.read_only())

        def add(one: GroupLink, home: Path = home, start: threading.Barrier = start) -> str:
            start.wait()
            return add_group(home, "b", one)

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(add, given)) == {"a"}
        assert groups(home) == {"a": link.with_hints(hints)}


def test_given_groups_of_one_name_are_all_kept(tmp_path: Path) -> None:
    links = [new_link("friends") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda link: keyring.add_given_group(tmp_path, link), links))
    assert sorted(found) == ["friends", *(f"friends-{at}" for at in range(2, 9))]
    assert {found[at]: link for at, link in enumerate(links)} == groups(tmp_path)
    assert keyring.add_given_group(tmp_path, links[3]) == found[3], "a group that is kept keeps its name"


def test_find_sees_at_once_what_another_process_adds_replaces_or_removes(tmp_path: Path) -> None:
    add_group(tmp_path, "a", new_link())
    groups(tmp_path)
    directory = tmp_path / "groups"
    for at in range(50):
        link, other, path = new_link(), new_link(), directory / f"g{at % 7}"
        private_file.create(path, link.text().encode())
        assert find(tmp_path, link.group.hex()) == find(tmp_path, path.name) == (path.name, link)
        private_file.replace(path, other.text().encode())
        assert find(tmp_path, other.group.hex()) == find(tmp_path, path.name) == (path.name, other)
        failure(lambda link=link: find(tmp_path, link.group.hex()))  # type: ignore[misc]
        path.rename(moved := directory / "moved")
        assert find(tmp_path, other.group.hex()) == ("moved", other)
        moved.unlink()
        failure(lambda other=other: find(tmp_path, other.group.hex()))  # type: ignore[misc]
        failure(lambda path=path: find(tmp_path, path.name))  # type: ignore[misc]


def test_find_reads_no_file_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links, opened = [new_link() for _ in range(20)], list[Path]()
    for at, link in enumerate(links):
        add_group(tmp_path, f"g{at}", link)
    read = private_file.read

    def noted(path: Path, bytes_max: int) -> bytes:
        opened.append(path)
        return read(path, bytes_max)

    monkeypatch.setattr(private_file, "read", noted)
    keyring.read_all(tmp_path)
    opened.clear()
    for at, link in enumerate(links):
        assert keyring.is_at_hand(tmp_path, link.group.hex()) and keyring.is_at_hand(tmp_path, f"g{at}")
        assert find(tmp_path, link.group.hex()) == find(tmp_path, f"g{at}") == (f"g{at}", link)
    assert opened == []
    private_file.replace(tmp_path / "groups" / "g3", new_link().text().encode())
    assert not keyring.is_at_hand(tmp_path, "g3") and not keyring.is_at_hand(tmp_path, links[3].group.hex())
    find(tmp_path, "g3")
    assert opened == [tmp_path / "groups" / "g3"]


def test_no_more_groups_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "GROUPS_MAX", 1)
    add_group(tmp_path, "a", new_link())
    assert "holds 1 groups, which is the most" in failure(lambda: add_group(tmp_path, "b", new_link()))[0]


def test_no_secret_in_a_repr(tmp_path: Path) -> None:
    key, link = load_or_create(tmp_path, "node"), new_link("friends")
    shown = repr((key, link, {"a": link}))
    for secret in (key.seed, link.content_key, link.seed or b""):
        assert secret.hex() not in shown and repr(secret)[2:20] not in shown
    assert link.text() not in shown
