"""What seals an app's unicasts goes on after a disk that failed, and after a correspondent that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from rigs.router_end import RouterEnd, later
from samples.apps import settled, sign_on
from trio.testing import MockClock, wait_all_tasks_blocked

import router
from router.client.options import APPS
from router.client.sealing.rows import OWN_PREKEYS, RENEWALS
from router.client.sealing.telling import AGAIN_S
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.message import Unicast, open_message, seal_unicast
from router.core.wire.prekey import make_prekey
from router.core.wire.prekey_exchange import ASK, encode_answer
from router.core.wire.reasons import Reason
from router.core.wire.renewal import encode_renewal_notice, is_renewal_notice, make_renewal
from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError
from router.settings import keyring, renewed_keys
from router.settings.home import Home

BOB = SigningKey(b"b" * 32)


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


def owe(end: RouterEnd, to: router.Node, body: bytes) -> None:
    end.owe(to.key, seal_unicast(BOB, to.key, body, ttl_s=60, expiry_min=later()))


def to_nowhere(home: Path, app: SigningKey) -> Path:
    """Let the state of an app be a link to a folder that is not there, as of a disk that is not mounted."""
    (home / APPS).mkdir(parents=True)
    state = home / APPS / f"{app.public.hex()[:16]}.state"
    state.symlink_to(home / "missing")
    return state


async def test_a_request_that_the_disk_kept_from_an_answer_is_answered_when_it_comes_again(
    end: RouterEnd, tmp_path: Path
) -> None:
    state = tmp_path / APPS / f"{SigningKey(b'a' * 32).public.hex()[:16]}.state"
    begun = AppState(state)
    begun.open()
    begun.close()
    async with sign_on(end, seed=b"a", home=tmp_path) as alice:
        await wait_all_tasks_blocked()
        away = state.rename(tmp_path / "away")
        owe(end, alice, ASK)
        await wait_all_tasks_blocked()
        assert end.refusals == [(1, Reason.INTERNAL)]
        away.rename(state)
        owe(end, alice, ASK)
        await wait_all_tasks_blocked()
        assert settled(end, alice) == 2 and len(end.queues[BOB.public].wires) == 1


async def test_without_a_journal_a_full_disk_is_told_and_keeps_no_message_from_an_app(
    end: RouterEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the app knows of who has written to it waits for room, and is written with what comes later."""

    def full(batch: AppBatch, now_min: int = 0) -> None:
        raise StateError("the disk is full")

    given: list[bytes] = []

    async def read(node: router.Node) -> None:
        async for message in node.unicasts():
            given.append(message.body)

    async with sign_on(end) as alice, sign_on(end) as bob, sign_on(end) as carol, trio.open_nursery() as nursery:
        nursery.start_soon(read, bob)
        await alice.send(bob.key, b"before")
        with monkeypatch.context() as patch:
            patch.setattr(bob._writer.state, "commit", full)
            await carol.send(bob.key, b"while it is full")
            assert await anext(bob.problems) == "the disk is full; until then messages are given all the same"
            await carol.send(bob.key, b"again")
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert given == [b"before", b"while it is full", b"again"]


async def test_an_answer_or_a_renewal_that_comes_while_the_disk_fails_ends_no_app(
    end: RouterEnd, tmp_path: Path
) -> None:
    state = to_nowhere(tmp_path, SigningKey(b"a" * 32))
    said = make_renewal(BOB, SigningKey(b"n" * 32), 1_800_000_000, 1_800_000_100)
    async with sign_on(end, seed=b"a", home=tmp_path) as alice:
        owe(end, alice, encode_answer(make_prekey(BOB, b"x" * 32, later())))
        owe(end, alice, encode_renewal_notice(said))
        await wait_all_tasks_blocked()
        assert end.refusals == [(1, Reason.INTERNAL), (2, Reason.INTERNAL)]
        assert any("make that folder, or remove the link" in one for one in alice.problems.unread())
        state.unlink()


@pytest.mark.parametrize("table", [OWN_PREKEYS, RENEWALS])
async def test_a_row_that_cannot_be_read_is_told_and_ends_no_app(end: RouterEnd, tmp_path: Path, table: str) -> None:
    kept, batch = AppState(tmp_path / APPS / "laptop.state"), AppBatch()
    batch.put(table, bytes(8), b"of another form")
    kept.commit(batch)
    kept.close()
    async with laptop(end, tmp_path) as app:
        await wait_all_tasks_blocked()
        assert any(
            "laptop.state" in said and "run the version that wrote them" in said for said in app.problems.unread()
        )
        with pytest.raises(router.ClientError, match="cannot be read"):
            await app.send(BOB.public, b"psst")


async def renewed(end: RouterEnd, home: Path) -> tuple[PublicKey, PublicKey]:
    """Return two correspondents of the app "laptop", whose key was renewed since."""
    old = keyring.load_or_create(Home(home), "laptop")
    others = {"home": home.with_name("others")}
    async with laptop(end, home) as app, sign_on(end, b"b", **others) as one, sign_on(end, b"c", **others) as other:
        await app.send(one.key, b"hello")
        await app.send(other.key, b"hello")
    keys = Home(home).key_path.parent
    renewal = renewed_keys.begin(keys, "laptop", lambda: old, 1_800_000_000)
    renewed_keys.finish(keys, "laptop", renewal)
    return one.key, other.key


def laptop(end: RouterEnd, home: Path) -> router.Node:
    return router.connect(url=end.url, home=home, as_name="laptop")


async def test_a_correspondent_that_cannot_be_reached_keeps_no_other_from_being_told_of_a_renewal(
    end: RouterEnd, tmp_path: Path
) -> None:
    gone, friend = await renewed(end, tmp_path)
    end.refuse = lambda message: Reason.NO_ROUTE if _to(message) == gone else None
    async with laptop(end, tmp_path) as app:
        await wait_all_tasks_blocked()
        assert friend in map(_to, _notices(end))
        [said] = [said for said in app.problems.unread() if "could not be told" in said]
        assert "1 correspondent could" in said and "no-route" in said and "the others at the next start" in said


async def test_where_messages_live_for_a_day_at_most_correspondents_are_told_of_a_renewal_all_the_same(
    end: RouterEnd, tmp_path: Path
) -> None:
    both = await renewed(end, tmp_path)
    [renewal] = renewed_keys.statements(Home(tmp_path).key_path.parent, "laptop")
    end.refuse = lambda said: Reason.EXPIRY_TOO_FAR if said.expiry_min > later() - 60 + 1441 else None
    async with laptop(end, tmp_path) as app:
        await wait_all_tasks_blocked()
        assert not [said for said in app.problems.unread() if "could not be told" in said]
        end.owe(app.key, seal_unicast(BOB, renewal.old, ASK, ttl_s=60, expiry_min=later()))
        await wait_all_tasks_blocked()
    told = [_to(one) for one in _notices(end) if one.expiry_min <= later() - 60 + 1441]
    assert {*told} == {*both, BOB.public}


async def test_who_could_not_be_told_of_a_renewal_as_the_disk_failed_is_told_later(
    end: RouterEnd, tmp_path: Path, autojump_clock: MockClock
) -> None:
    both = await renewed(end, tmp_path)
    state = tmp_path / APPS / "laptop.state"
    away = state.rename(tmp_path / "away")
    state.touch()
    async with laptop(end, tmp_path) as app:
        await trio.sleep(3 * AGAIN_S)
        assert not _notices(end)
        said = "a state that cannot be used is told of once, whatever has failed of it"
        assert sum("laptop.state" in one for one in app.problems.unread()) == 1, said
        state.unlink()
        away.rename(state)
        while {*map(_to, _notices(end))} != {*both}:
            await trio.sleep(AGAIN_S)


def _to(message: object) -> PublicKey | None:
    return message.destination if isinstance(message, Unicast) else None


def _notices(end: RouterEnd) -> list[Unicast]:
    found = [open_message(wire) for connection in end.heard for wire in connection]
    return [one for one in found if isinstance(one, Unicast) and is_renewal_notice(one.body)]
