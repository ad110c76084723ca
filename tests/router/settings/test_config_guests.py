"""Guests become blocks of `router.toml`: rights are added, never taken, and a block ends as its grant does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from router.core.wire.crypto import PublicKey, SigningKey
from router.settings.config import edit_peers, load
from router.settings.config_guests import (
    NAME_MAX,
    GuestGrant,
    Written,
    check_writable,
    digest_of,
    free_name,
    write_guests,
)
from router.settings.config_peers import AddPeer, BlockPeer, Grant, Peer, RemovePeer, UpdatePeer, time_text
from router.settings.config_text import ConfigError

ANNA, BERTA = (SigningKey(bytes((n,)) * 32).public for n in (81, 82))
NOW_S = 1_800_000_000
LATER_S, LAST_S = NOW_S + 3600, NOW_S + 7200
KEPT = '# by hand\n[node]\nrole = "core"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "router.toml"
    path.write_text(KEPT)
    return path


def guest(key: PublicKey = ANNA, *rights: str, name: str = "anna", until_s: int = 0) -> GuestGrant:
    return GuestGrant(key, name, frozenset(rights or ("join", "store")), until_s)


def write(file: Path, *guests: GuestGrant) -> Written:
    done = write_guests(file, guests, digest_of(file), NOW_S)
    assert done is not None
    return done


def peers(file: Path) -> list[Peer]:
    return list(load(file)[0].peers)


def test_a_guest_is_a_block_and_the_rest_of_the_file_stays(file: Path) -> None:
    assert write(file, guest(), guest(BERTA, "why", until_s=LATER_S)) == Written((ANNA, BERTA), ())
    assert file.read_text().startswith(KEPT)
    anna, berta = peers(file)
    assert anna == Peer(address=ANNA, name="anna", grant=("join", "store"), learned="invited")
    assert 'learned = "invited"' in file.read_text()
    assert (berta.name, berta.grant, berta.until_s) == ("anna-2", ("why",), LATER_S), "the name was taken"
    before = file.read_bytes()
    assert write(file, guest()) == Written((ANNA,), ())
    assert file.read_bytes() == before, "it stands there already"


def test_another_file_is_not_changed(file: Path) -> None:
    expected = digest_of(file)
    file.write_text(KEPT + "# changed meanwhile\n")
    assert write_guests(file, [guest()], expected, NOW_S) is None and not peers(file)


def test_a_removed_block_and_a_blocked_one(file: Path) -> None:
    write(file, guest())
    edit_peers(file, BlockPeer(ANNA))
    assert write(file, guest(ANNA, "relay")) == Written((ANNA,), ()), "the file decides, and it blocks"
    assert peers(file)[0].grant == ("join", "store")
    edit_peers(file, RemovePeer(ANNA))
    assert file.read_text() == KEPT


def test_who_was_blocked_before_it_came_is_invited_all_the_same(file: Path) -> None:
    edit_peers(file, BlockPeer(ANNA))
    edit_peers(file, UpdatePeer(Peer(address=ANNA)))
    assert peers(file)[0].learned == "config"
    assert write(file, guest()) == Written((ANNA,), ())
    assert (peers(file)[0].learned, peers(file)[0].grant) == ("invited", ("join", "store"))
    edit_peers(file, UpdatePeer(Peer(address=ANNA, urls=("tls://ann.example:4100",))))
    before = peers(file)[0]
    assert before.learned == "config", "its operator has said where to dial it"
    write(file, guest())
    assert peers(file)[0] == replace(before, grant=("join", "store"))


@pytest.mark.parametrize(
    ("has", "ends_s", "gets", "until_s", "then", "then_s"),
    [
        (("join",), 0, ("store",), 0, ("join", "store"), 0),
        (("join",), LATER_S, ("store",), LATER_S, ("join", "store"), LATER_S),
        (("join", "store"), 0, ("join",), LATER_S, ("join", "store"), 0),
        (("join", "store"), LAST_S, ("join",), LATER_S, ("join", "store"), LAST_S),
        (("join",), LATER_S, ("join", "why"), LAST_S, ("join", "why"), LAST_S),
        (("join",), LATER_S, ("join",), 0, ("join",), 0),
        (("join",), NOW_S, ("why",), LATER_S, ("why",), LATER_S),
        ((), 0, ("join",), 0, ("join",), 0),
    ],
)  # fmt: skip
def test_rights_are_added_to_a_block_with_its_end(
    file: Path,
    has: tuple[Grant, ...],
    ends_s: int,
    gets: tuple[str, ...],
    until_s: int,
    then: tuple[str, ...],
    then_s: int,
) -> None:
    _has(file, has, ends_s)
    assert write(file, guest(ANNA, *gets, until_s=until_s)) == Written((ANNA,), ())
    [one] = peers(file)
    assert (one.name, one.grant, one.until_s) == ("by-hand", then, then_s)


@pytest.mark.parametrize(
    ("has", "ends_s", "gets", "until_s"),
    [(("join",), 0, ("store",), LATER_S), (("join",), LATER_S, ("store",), 0), ((), 0, ("join",), LATER_S)],
)
def test_a_grant_that_would_need_two_ends_is_left_to_the_store(
    file: Path, has: tuple[Grant, ...], ends_s: int, gets: tuple[str, ...], until_s: int
) -> None:
    _has(file, has, ends_s)
    before = file.read_bytes()
    done = write(file, guest(ANNA, *gets, until_s=until_s), guest(BERTA))
    assert done == Written((BERTA,), (ANNA,))
    assert file.read_bytes().startswith(before) and peers(file)[1].address == BERTA


def _has(file: Path, has: tuple[Grant, ...], ends_s: int) -> None:
    edit_peers(file, AddPeer(Peer(address=ANNA, name="by-hand", grant=has, until=time_text(ends_s))))


@pytest.mark.parametrize(
    ("name", "taken", "found"),
    [
        ("laptop", (), "laptop"), ("laptop", ("laptop", "laptop-2"), "laptop-3"), ("Anna's Mac!", (), "Anna-s-Mac"),
        ("", (), ""), ("ß…", (), ""), ("..", (), ""), ("n" * 64, (), "n" * NAME_MAX),
    ],
)  # fmt: skip
def test_names_fit_and_differ(name: str, taken: tuple[str, ...], found: str) -> None:
    assert free_name(name, taken.__contains__) == found


def test_a_file_that_is_read_only_says_so(file: Path) -> None:
    check_writable(file)
    file.chmod(0o400)
    with pytest.raises(ConfigError, match="is read-only; allow its owner to write it"):
        check_writable(file)
    if os.geteuid():
        file.chmod(0o600)
        file.parent.chmod(0o500)
        with pytest.raises(ConfigError, match="its directory may be written"):
            check_writable(file)
        file.parent.chmod(0o700)


def test_a_broken_file_is_not_changed(file: Path) -> None:
    file.write_text("[nodes]\n")
    with pytest.raises(ConfigError, match="unknown key"):
        write_guests(file, [guest()], digest_of(file), NOW_S)
    assert file.read_text() == "[nodes]\n"


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ('"2026-12-31"', "it must be a time like 2026-12-31T18:00Z"),
        ("2026-12-31T18:00:00Z", "it must be text in quotes"),
        ('"2026-02-30T18:00Z"', 'peers[0].until is "2026-02-30T18:00Z", which is no time'),
    ],
)
def test_an_end_is_judged(file: Path, until: str, said: str) -> None:
    file.write_text(f'[[peers]]\naddress = "{ANNA.hex()}"\nuntil = {until}\n')
    with pytest.raises(ConfigError) as error:
        load(file)
    assert said in str(error.value) and "line 3" in str(error.value)


def test_an_end_is_read_and_written() -> None:
    for until in ("2027-01-15T08:00Z", "2027-01-15T08:00:00Z"):
        assert Peer(address=ANNA, until=until).until_s == NOW_S
    assert time_text(NOW_S) == "2027-01-15T08:00:00Z" and Peer(address=ANNA).until_s == 0
