"""An app's identity and its node: names, homes, sockets, and invalid combinations."""

from __future__ import annotations

import math
import socket
from pathlib import Path

import pytest
import trio
import trio.testing
from rigs.patience import HANG_S
from rigs.router_end import RouterEnd

import router
from router import ClientError, SigningKey
from router.client import link
from router.client.errors import NodeUnavailable
from router.client.options import Settings, SignOn
from router.core.wire.grouplink import new_group
from router.core.wire.message import Unicast, open_message
from router.settings import keyring
from router.settings.home import Home

FAMILY = new_group(b"g" * 32, b"k" * 32)


def test_a_throwaway_key(tmp_path: Path) -> None:
    one, two = SignOn(Settings(home=tmp_path)), SignOn(Settings(home=tmp_path))
    assert one.key.public != two.key.public and not one.durable
    assert one.state.path is None and not any(tmp_path.iterdir())
    offer = one.offer()
    assert (offer.role, offer.durable, offer.features, offer.name) == ("app", False, (), None)
    assert offer.nonce != one.offer().nonce
    assert repr(one).startswith("<sign-on of the throwaway key ") and repr(one).endswith(
        f"unix://{Home(tmp_path).socket_path}>"
    )


async def test_an_app_is_told_that_its_node_has_no_socket_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "home")
    home.create()
    monkeypatch.setattr(link, "SOCKET_S", 0.0)
    with home.lock(), pytest.raises(NodeUnavailable, match=r"there is no socket .*, though pid \d+ holds this home"):
        async with router.connect(home=home.path):
            pass
    assert SignOn(Settings(home=home.path, url="unix:///x")).dialling.known_cause() == ""


async def test_an_app_waits_a_moment_for_the_socket_of_a_node_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its home is held by then; a socket that was left behind by a node that was killed refuses meanwhile."""
    monkeypatch.setattr(link, "SOCKET_S", HANG_S)
    home = Home(tmp_path / "home")
    home.create()
    connected = trio.Event()

    async def sign_on() -> None:
        async with router.connect(home=home.path):
            connected.set()

    with home.lock(), socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(home.prepare_socket()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sign_on)
            await trio.testing.wait_all_tasks_blocked()
            assert not connected.is_set()
            home.socket_path.unlink()
            await nursery.start(RouterEnd(f"unix://{home.socket_path}").run)
            with trio.fail_after(HANG_S):
                await connected.wait()
            nursery.cancel_scope.cancel()


def test_a_name_keeps_its_key(tmp_path: Path) -> None:
    one = SignOn(Settings(home=tmp_path, as_name="sensor", outcomes=True, window_messages=7))
    assert SignOn(Settings(home=tmp_path, as_name="sensor")).key.public == one.key.public
    assert one.durable and one.state.path == tmp_path / "apps" / "sensor.state"
    offer = one.offer()
    assert (offer.durable, offer.features, offer.name, offer.window_messages) == (
        True,
        ("outcome", "outcome-runs"),
        "sensor",
        7,
    )


def test_an_app_that_comes_before_its_node_makes_a_private_home(tmp_path: Path) -> None:
    named, keyed = tmp_path / "named", tmp_path / "keyed"
    SignOn(Settings(home=named, as_name="sensor"))
    SignOn(Settings(home=keyed, key=SigningKey(b"k" * 32))).sequences().take(FAMILY.group)
    assert [one.stat().st_mode & 0o777 for one in (named, keyed)] == [0o700, 0o700]
    assert Home(named).create() and Home(keyed).create()
    (tmp_path / "file").touch()
    with pytest.raises(ClientError, match=r"cannot be made.*ROUTER_HOME"):
        SignOn(Settings(home=tmp_path / "file", as_name="sensor"))


def test_a_key_of_ones_own(tmp_path: Path) -> None:
    key = SigningKey(b"k" * 32)
    one = SignOn(Settings(home=tmp_path, key=key))
    assert one.key is key and one.durable
    assert one.state.path == tmp_path / "apps" / f"{key.public.hex()[:16]}.state"


def test_the_routers_key_is_expected_on_its_own_socket(tmp_path: Path) -> None:
    assert SignOn(Settings(home=tmp_path)).dialling.expect is None
    key = keyring.load_or_create(tmp_path, keyring.NODE).public
    assert SignOn(Settings(home=tmp_path)).dialling.expect == key
    assert SignOn(Settings(home=tmp_path, url="memory://x")).dialling.expect is None
    assert SignOn(Settings(home=tmp_path, url="memory://x", expect=key.hex())).dialling.expect == key


def test_how_long_to_wait(tmp_path: Path) -> None:
    assert SignOn(Settings(home=tmp_path, patience_s=3)).dialling.patience_s == 3
    assert SignOn(Settings(home=tmp_path, when_down="queue")).dialling.patience_s == math.inf


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (Settings(key=SigningKey(bytes(32)), as_name="x"), "not both"),
        (Settings(as_name="node"), "router's own key"),
        (Settings(when_down="panic"), "'panic'"),  # type: ignore[arg-type]
        (Settings(window_messages=0), "at least 1"),
    ],
)
def test_what_cannot_be(settings: Settings, why: str) -> None:
    with pytest.raises(ClientError, match=why):
        SignOn(settings)


async def test_by_home_name_and_group_name_over_the_owners_socket(tmp_path: Path, nursery: trio.Nursery) -> None:
    home = Home(tmp_path / "home")
    home.create()
    end = RouterEnd(f"unix://{home.prepare_socket()}")
    end.key = keyring.load_or_create(home, keyring.NODE)
    keyring.add_group(home, "family", FAMILY)
    await nursery.start(end.run)
    seqs = []
    for _ in range(2):
        async with router.connect(home=home) as reader, router.connect(home=home, as_name="sensor") as node:
            his = await reader.join("family")
            for body in (b"one", b"two"):
                await node.group("family").publish(body)
            async for message in his:
                assert message.sender == keyring.load(home, "sensor").public == node.key
                seqs.append(message.seq)
                if message.body == b"two":
                    break
            with pytest.raises(router.KeyringError, match="did you mean"):
                await node.join("famly")
            assert his.name == "family" and repr(his).startswith('<group "family" group1')
    assert seqs == [0, 1, 2, 3]


async def test_names_of_the_home_are_addresses(tmp_path: Path, nursery: trio.Nursery) -> None:
    end = RouterEnd()
    await nursery.start(end.run)
    laptop = keyring.load_or_create(tmp_path, "laptop").public
    bob = SigningKey(b"b" * 32).public
    (tmp_path / "router.toml").write_text(f'[[peers]]\naddress = "{bob.hex()}"\nname = "bob"\n')
    async with router.connect(home=tmp_path, url=end.url) as node:
        for name in ("laptop", "bob", laptop.hex()):
            await node.send(name, b"x", plain=True)
        with pytest.raises(router.UnknownName, match="names are: bob, laptop;"):
            await node.send("carol", b"x", plain=True)
    sent = [open_message(wire) for wire in end.heard[0]]
    assert [one.destination for one in sent if isinstance(one, Unicast)] == [laptop, bob, laptop]


async def test_a_group_joined_by_an_earlier_run_is_opened_by_the_homes_keys(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    end = RouterEnd()
    await nursery.start(end.run)
    key = SigningKey(b"k" * 32)
    async with router.connect(home=tmp_path, url=end.url, key=key) as node:
        await node.join(FAMILY)
    keyring.add_group(tmp_path, "family", FAMILY)
    async with router.connect(url=end.url) as other:
        await other.group(FAMILY).publish(b"hello")
    async with router.connect(home=tmp_path, url=end.url, key=key) as node:
        message = await anext(aiter(node))
        assert (message.body, message.sender) == (b"hello", other.key)
        await node.leave(FAMILY.group)
