"""Editing `[[peers]]` without losing a word: by example, and against a slow and simple model."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.text import key_text
from router.settings import config
from router.settings.config import edit_peers, load
from router.settings.config_peers import AddPeer, BlockPeer, Peer, PeerChange, RemovePeer, UpdatePeer, changed
from router.settings.config_text import ConfigError

KEYS = [SigningKey(bytes([n]) * 32).public for n in range(8)]
A, B = (key_text("addr", key) for key in KEYS[:2])


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "router.toml"
    path.write_text(text)
    return path


OLD = f"""\
# My node.
[node]
role = "core" # why not

# The office.
[[peers]]
address = "{A}"   # by the window
urls = [
  "tls://a.example:1", # first
]
  name = 'office'  # a # in a comment

# The last word.
"""


def test_add_then_remove_gives_the_same_text() -> None:
    added = changed(OLD, AddPeer(Peer(address=KEYS[1], name="b", urls=("tls://b:1",), grant=("join", "store"))))
    assert added == OLD + (
        f'\n[[peers]]\naddress = "{B}"\nname = "b"\nurls = ["tls://b:1"]\ngrant = ["join", "store"]\n'
    )
    assert changed(added, RemovePeer(KEYS[1])) == OLD


def test_update_touches_only_what_differs() -> None:
    peer = Peer(address=KEYS[0], name="attic", urls=("tls://a.example:1",), uplink=True)
    assert changed(OLD, UpdatePeer(peer)) == OLD.replace(
        "  name = 'office'  # a # in a comment\n", '  name = "attic"  # a # in a comment\nuplink = true\n'
    )
    assert changed(OLD, UpdatePeer(replace(peer, name="office", uplink=False))) == OLD


def test_update_of_a_list_over_lines() -> None:
    peer = Peer(address=KEYS[0], name="office", urls=())
    assert "window\nurls = []\n  name = 'office'" in changed(OLD, UpdatePeer(peer))


def test_block() -> None:
    assert changed(OLD, BlockPeer(KEYS[0])) == OLD.replace("a comment\n", "a comment\nblocked = true\n")
    assert changed(OLD, BlockPeer(KEYS[1])).endswith(f'\n[[peers]]\naddress = "{B}"\nblocked = true\n')
    blocked = changed(OLD, BlockPeer(KEYS[0]))
    assert changed(blocked, BlockPeer(KEYS[0])) == blocked


def test_line_ends_and_a_missing_last_one_are_kept() -> None:
    windows = OLD.replace("\n", "\r\n")
    assert changed(windows, BlockPeer(KEYS[0])) == changed(OLD, BlockPeer(KEYS[0])).replace("\n", "\r\n")
    bare = f'[[peers]]\naddress = "{A}"'
    assert changed(bare, BlockPeer(KEYS[0])) == bare + "\nblocked = true\n"
    assert changed(bare, AddPeer(Peer(address=KEYS[1]))) == bare + f'\n\n[[peers]]\naddress = "{B}"\n'


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        (OLD, AddPeer(Peer(address=KEYS[0])), f"{A} is a peer already, at line 6"),
        (OLD, RemovePeer(KEYS[1]), f"{B} is no peer in this file"),
        (OLD, UpdatePeer(Peer(address=KEYS[1])), f"{B} is no peer in this file"),
        (f"peers = [{{address = '{A}'}}]", BlockPeer(KEYS[1]), "write each as a [[peers]] block"),
    ],
)
def test_a_change_that_does_not_fit(text: str, change: PeerChange, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(text, change)
    assert said in str(caught.value)


PEERS = st.builds(
    Peer,
    address=st.sampled_from(KEYS),
    name=st.just(""),
    urls=st.lists(st.sampled_from(["tls://a:1", "unix:x#y", 'wss://"q"']), max_size=2).map(tuple),
    grant=st.sets(st.sampled_from(["join", "store", "relay"])).map(sorted).map(tuple),
    blocked=st.booleans(),
)
CHANGES = st.one_of(
    st.builds(AddPeer, PEERS),
    st.builds(UpdatePeer, PEERS),
    st.builds(RemovePeer, st.sampled_from(KEYS)),
    st.builds(BlockPeer, st.sampled_from(KEYS)),
)


def simply(peers: dict[PublicKey, Peer], change: PeerChange) -> dict[PublicKey, Peer] | None:
    """Apply the change to a slow and simple model: peers by key, None if the change does not fit."""
    match change:
        case AddPeer(peer):
            return None if peer.address in peers else {**peers, peer.address: peer}
        case UpdatePeer(peer):
            return {**peers, peer.address: peer} if peer.address in peers else None
        case RemovePeer(address):
            return {key: one for key, one in peers.items() if key != address} if address in peers else None
        case BlockPeer(address):
            return {**peers, address: replace(peers.get(address, Peer(address=address)), blocked=True)}


@given(st.lists(CHANGES, max_size=8))
def test_any_changes_say_what_a_simple_model_says_and_keep_all_else(changes: list[PeerChange]) -> None:
    around = "# one\n[node] # two\nname = 'n' # three\n"
    text, peers = around, dict[PublicKey, Peer]()
    for change in changes:
        after = simply(peers, change)
        if after is None:
            with pytest.raises(ConfigError):
                changed(text, change)
            continue
        text, peers = changed(text, change), after
        got, _ = config._judged(text, "router.toml", {})
        assert {one.address: one for one in got.peers} == peers
        assert text.startswith(around)


def test_editing_the_file_keeps_its_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = written(tmp_path, OLD)
    path.chmod(0o640)
    edit_peers(path, BlockPeer(KEYS[0]))
    assert load(path)[0].peers[0].blocked
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["router.toml"]


def test_editing_through_a_link_changes_the_file_behind_it(tmp_path: Path) -> None:
    path, link = written(tmp_path, OLD), tmp_path / "link.toml"
    link.symlink_to(path)
    edit_peers(link, RemovePeer(KEYS[0]))
    assert link.is_symlink() and load(path)[0].peers == ()


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (OLD + "zz = 1\n", BlockPeer(KEYS[0])),
        (OLD, AddPeer(Peer(address=KEYS[1], name="office"))),
        (OLD, AddPeer(Peer(address=KEYS[1], urls=("no url",)))),
        (OLD, RemovePeer(KEYS[1])),
    ],
)
def test_a_refused_edit_changes_nothing(tmp_path: Path, text: str, change: PeerChange) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError):
        edit_peers(path, change)
    assert path.read_text() == text


def test_editing_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be changed"):
        edit_peers(tmp_path / "none" / "router.toml", BlockPeer(KEYS[0]))
