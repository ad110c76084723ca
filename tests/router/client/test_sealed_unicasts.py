"""What an app says to one other is sealed: by default, before anything leaves, and never silently in the open."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
from rigs.router_end import RouterEnd, later
from samples.apps import FAMILY, sign_on
from trio.testing import MockClock, wait_all_tasks_blocked

from router import ClientError, Node, NoPrekey, Refused
from router.client.options import Settings, state_of
from router.client.received import Received
from router.client.sealing.exchange import ANSWERS_MAX
from router.client.sealing.rows import OWN_PREKEYS, PrekeyRows
from router.client.sealing.unicast_sealing import UnicastSealing, UnknownPrekey
from router.core.wire.control import Report
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.message import Multicast, Unicast, message_id, open_message, seal_unicast
from router.core.wire.prekey import make_prekey
from router.core.wire.prekey_exchange import ASK, NULL_ANSWER, decode_answer, encode_answer
from router.core.wire.reasons import Reason
from router.core.wire.renewal import encode_renewal_notice, make_renewal
from router.core.wire.unicast_seal import BEGINS, seal_body, sealing_key
from router.disk.state.secrets import KEY_FILE
from router.settings import keyring
from router.settings.home import Home

PREKEY_ANSWER = b"\x82\x15\xa4"
SECRET = b"nobody on the way may read this"
BOB = SigningKey(b"b" * 32)


@pytest.fixture
async def end(nursery: trio.Nursery) -> RouterEnd:
    made = RouterEnd()
    await nursery.start(made.run)
    return made


def service(end: RouterEnd) -> Node:
    return Node(Settings(url=end.url, key=BOB, seals=False))


def bodies(end: RouterEnd) -> list[bytes]:
    return [body for connection in range(len(end.heard)) for body in end.bodies(connection)]


async def one_of(node: Node) -> Received:
    message = await anext(node.unicasts())
    await message.settle()
    return message


async def test_send_seals_and_the_answer_is_sealed_at_once(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        id = await alice.send(bob.key, SECRET)
        message = await one_of(bob)
        assert (message.id, message.body, message.sealed) == (id, SECRET, True)
        assert (message.source, message.sender, message.seq) == (alice.key, alice.key, 0)
        before = len(bodies(end))
        await bob.send(alice.key, SECRET)
        assert (await one_of(alice)).body == SECRET
        assert len(bodies(end)) == before + 1, "nothing was asked"
    assert bodies(end).count(ASK) == sum(body.startswith(PREKEY_ANSWER) for body in bodies(end)) == 1, "one round trip"
    assert all(SECRET not in body and b"psst" not in body for body in bodies(end))
    assert sum(body.startswith(BEGINS) for body in bodies(end)) == 2


async def test_an_answer_is_given_without_a_loop_and_the_request_is_settled_after_it(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob, trio.open_nursery() as nursery:
        nursery.start_soon(alice.send, bob.key, SECRET)
        await wait_all_tasks_blocked()
        assert end.link_to(bob.key).settled == 1 and len(end.queues[bob.key].wires) == 1


async def test_no_prekey_sends_nothing_and_the_late_answer_serves_the_next(
    end: RouterEnd, autojump_clock: MockClock, tmp_path: Path
) -> None:
    bob = BOB.public
    async with sign_on(end) as alice:
        begun_s = trio.current_time()
        with pytest.raises(NoPrekey, match=r"came within 30 s, so nothing was sent: .*plain=True") as caught:
            await alice.send(bob, SECRET)
        assert caught.value.address == bob and trio.current_time() - begun_s == pytest.approx(30)
        with pytest.raises(NoPrekey):
            await alice.send(bob, SECRET)
        assert bodies(end) == [ASK], "it is asked once in ten minutes"
        async with sign_on(end, seed=b"b", home=tmp_path) as node:
            await wait_all_tasks_blocked()
            await alice.send(bob, SECRET)
            assert (await one_of(node)).body == SECRET
    assert all(SECRET not in body for body in bodies(end))


async def test_the_reason_for_which_a_request_is_refused_is_raised_at_once(end: RouterEnd) -> None:
    end.refuse = lambda message: Reason.NO_ROUTE
    async with sign_on(end) as alice:
        with pytest.raises(Refused) as caught:
            await alice.send(BOB.public, SECRET)
        assert caught.value.reason is Reason.NO_ROUTE
        assert caught.value.message == message_id(end.heard[-1][-1])


async def test_a_request_that_is_refused_further_on_ends_the_wait(end: RouterEnd) -> None:
    async with sign_on(end) as alice, trio.open_nursery() as nursery:

        async def send() -> None:
            with pytest.raises(Refused, match="it was refused on its way") as caught:
                await alice.send(BOB.public, SECRET)
            assert caught.value.reason is Reason.NO_ROUTE

        for _ in range(2):
            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            ask = message_id(end.heard[-1][-1])
            end.link_to(alice.key).tell(Report(ask, BOB.public, "refused", Reason.NO_ROUTE, 0))
            await wait_all_tasks_blocked()
    assert bodies(end) == [ASK, ASK], "it is asked again"


def lives_min(end: RouterEnd, body: bytes) -> list[int]:
    """Return for how many minutes the requests, or answers, that begin like this are valid."""
    return [one.expiry_min - (later() - 60) for one in _unicasts(end) if one.body.startswith(body)]


def refused_beyond(days: int) -> Callable[[Multicast | Unicast], Reason | None]:
    return lambda message: Reason.EXPIRY_TOO_FAR if message.expiry_min > later() - 60 + days * 1440 + 1 else None


SEVEN_SIX_ONE = [pytest.approx(minutes, abs=2) for minutes in (7 * 1440 - 10, 6 * 1440, 1440)]


async def test_a_first_request_and_its_answer_wait_for_seven_days(end: RouterEnd, tmp_path: Path) -> None:
    end.refuse = refused_beyond(7)
    async with sign_on(end, seed=b"a", home=tmp_path) as alice, sign_on(end, seed=b"b", home=tmp_path) as bob:
        await alice.send(bob.key, SECRET)
    assert lives_min(end, ASK) == lives_min(end, PREKEY_ANSWER) == SEVEN_SIX_ONE[:1]


async def test_where_messages_live_for_a_day_at_most_requests_and_answers_do_so(end: RouterEnd, tmp_path: Path) -> None:
    end.refuse = refused_beyond(1)
    async with (
        sign_on(end, seed=b"a", home=tmp_path) as alice,
        sign_on(end, seed=b"b", home=tmp_path) as bob,
        trio.open_nursery() as nursery,
    ):
        for _ in range(3):
            nursery.start_soon(alice.send, bob.key, SECRET)
        assert [(await one_of(bob)).body for _ in range(3)] == [SECRET] * 3
    assert lives_min(end, ASK) == lives_min(end, PREKEY_ANSWER) == SEVEN_SIX_ONE


async def test_requests_and_answers_that_a_router_further_on_finds_too_long_are_sent_with_a_shorter_life(
    end: RouterEnd, tmp_path: Path
) -> None:
    def refuse(node: Node, to: PublicKey, body: bytes) -> None:
        wire = next(wire for wire in reversed(end.heard[-1]) if open_message(wire).body.startswith(body))
        end.link_to(node.key).tell(Report(message_id(wire), to, "refused", Reason.EXPIRY_TOO_FAR, 0))

    async with sign_on(end, seed=b"a", home=tmp_path) as alice, trio.open_nursery() as nursery:
        nursery.start_soon(alice.send, BOB.public, SECRET)
        await wait_all_tasks_blocked()
        refuse(alice, BOB.public, ASK)
        await wait_all_tasks_blocked()
        assert lives_min(end, ASK) == SEVEN_SIX_ONE[:2]
        async with sign_on(end, seed=b"b", home=tmp_path) as bob:
            await wait_all_tasks_blocked()
            refuse(bob, alice.key, PREKEY_ANSWER)
            await wait_all_tasks_blocked()
            assert lives_min(end, PREKEY_ANSWER) == SEVEN_SIX_ONE[:2]


async def test_several_who_wait_ask_once(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(alice.send, bob.key, b"%d" % number)
        assert sorted([(await one_of(bob)).body for _ in range(5)]) == [b"%d" % number for number in range(5)]
    assert bodies(end).count(ASK) == 1


async def test_two_who_ask_each_other_at_once(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(alice.send, bob.key, b"to bob")
            nursery.start_soon(bob.send, alice.key, b"to alice")
        assert ((await one_of(bob)).body, (await one_of(alice)).body) == (b"to bob", b"to alice")


async def test_plain_is_a_choice(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        await alice.send(bob.key, b"for all to read", plain=True)
        message = await one_of(bob)
        assert (message.body, message.sealed, message.seq) == (b"for all to read", False, None)
        for body in (ASK, NULL_ANSWER, BEGINS + b"x"):
            with pytest.raises(ClientError, match="begins like a sealed one"):
                await alice.send(bob.key, body, plain=True)
    assert bodies(end) == [b"for all to read"]


async def test_the_sender_hears_whether_what_it_sent_was_sealed(end: RouterEnd) -> None:
    async with sign_on(end, outcomes=True) as alice, sign_on(end) as bob:
        await bob.join(FAMILY)
        family, to = alice.group(FAMILY), bob.key
        assert (await alice.send(to, SECRET, wait=True)).sealed and (await family.publish(SECRET, wait=True)).sealed
        assert not (await alice.send(to, SECRET, wait=True, plain=True)).sealed
        raw = alice.group(FAMILY, raw=True)
        assert not (await raw.publish(SECRET, wait=True)).sealed


async def test_a_body_in_the_open_that_only_begins_like_a_renewal_is_given_to_the_app(end: RouterEnd) -> None:
    async with sign_on(end) as alice, service(end) as echo:
        for body in (b"\x82\x16", b"\x82\x16\x45hello", b"\x82\x15\xa0"):
            await echo.send(alice.key, body)
            await wait_all_tasks_blocked()
            assert not end.refusals and (await one_of(alice)).body == body


async def test_a_service_says_null_and_stays_in_the_open(end: RouterEnd) -> None:
    async with sign_on(end) as alice, service(end) as echo:
        await alice.send(echo.key, b"hello")
        assert (await one_of(echo)).body == b"hello"
        await echo.send(alice.key, b"echo")
        message = await one_of(alice)
        assert (message.body, message.sealed) == (b"echo", False)
        await alice.send(echo.key, b"again")
    assert bodies(end) == [ASK, b"hello", b"again", NULL_ANSWER, b"echo"]


async def test_what_one_says_to_oneself_is_sealed_too(end: RouterEnd) -> None:
    async with sign_on(end) as node:
        await node.send(node.key, SECRET)
        message = await one_of(node)
        assert (message.body, message.sealed) == (SECRET, True)
    assert bodies(end)[0].startswith(BEGINS)


async def test_a_sealed_message_expires_with_the_prekey(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        id = await alice.send(bob.key, SECRET, expiry_min=30 * 1440)
        week = await alice.send(bob.key, SECRET)
        unicasts = {message_id(wire): open_message(wire) for wire in end.heard[0]}
    assert unicasts[id].expiry_min - (later() - 60) == pytest.approx(8 * 1440, abs=2)
    assert unicasts[week].expiry_min - (later() - 60) == pytest.approx(1440, abs=2)


async def test_who_only_writes_gets_the_newer_prekeys_of_who_only_reads(end: RouterEnd, tmp_path: Path) -> None:
    """Otherwise its messages would live ever shorter, down to a minute at the end of the prekey."""
    days = [0.0]

    def now_s() -> float:
        return time.time() + days[0] * 86_400

    def at(key: bytes) -> Node:
        return Node(Settings(url=end.url, home=tmp_path, key=SigningKey(key * 32), wall_s=now_s))

    async with at(b"a") as alice, at(b"b") as bob:
        for day in (0.0, 2.5, 2.5, 7.9, 7.9):
            days[0] = day
            await alice.send(bob.key, SECRET, expiry_min=30 * 1440)
            assert (await one_of(bob)).sealed
            await wait_all_tasks_blocked()
    sealed = [one for one in _unicasts(end) if one.body.startswith(BEGINS)]
    lives_min = [one.expiry_min - (later() - 60) for one in sealed]
    assert lives_min == [pytest.approx(days * 1440, abs=2) for days in (8, 8, 10.5, 10.5, 15.9)]
    assert bodies(end).count(ASK) == 1


async def test_a_restarted_app_opens_what_came_and_needs_no_prekey_again(end: RouterEnd, tmp_path: Path) -> None:
    homes = {"alice": tmp_path / "alice", "bob": tmp_path / "bob"}
    async with sign_on(end, seed=b"a", home=homes["alice"]) as alice, sign_on(end, seed=b"b", home=homes["bob"]) as bob:
        await alice.send(bob.key, b"first")
    async with sign_on(end, seed=b"a", home=tmp_path / "alice") as alice:
        await alice.send(bob.key, b"while you were away")
    async with sign_on(end, seed=b"b", home=tmp_path / "bob") as bob:
        assert [(await one_of(bob)).body for _ in range(2)] == [b"first", b"while you were away"]
    assert bodies(end).count(ASK) == 1


async def test_a_home_copied_once_its_prekeys_have_gone_opens_none_of_what_was_recorded(
    end: RouterEnd, tmp_path: Path
) -> None:
    """With any clock, and although all of its files are searched as bytes, freed pages among them."""
    days, homes = [0.0], {name: tmp_path / name for name in ("alice", "bob")}

    def at(name: str) -> Node:
        return Node(
            Settings(url=end.url, home=homes[name], as_name=name, wall_s=lambda: time.time() + days[0] * 86_400)
        )

    def secrets() -> list[bytes]:
        with closing(state_of(Home(homes["bob"]), "bob")) as state:
            seeds = [value[-32:] for _, value in state.rows(OWN_PREKEYS)]
        sealed_by = (homes["bob"] / "apps" / "bob.state" / KEY_FILE).read_bytes().split()[-1]
        return [*seeds, *(one.hex().encode() for one in seeds), sealed_by, bytes.fromhex(sealed_by.decode())]

    async with at("alice") as alice, at("bob") as bob:
        for day in (0.0, 1.5):
            days[0] = day
            await alice.send(bob.key, SECRET, expiry_min=30 * 1440)
            await one_of(bob)
    gone, recorded = secrets(), [one for one in _unicasts(end) if one.body.startswith(BEGINS)]
    days[0] = 9.5
    async with at("bob"):
        await wait_all_tasks_blocked()
    copy = Home(Path(shutil.copytree(homes["bob"], tmp_path / "copy")))
    found = b"\0".join(one.read_bytes() for one in copy.path.rglob("*") if one.is_file())
    assert not [one for one in gone if one in found]
    with closing(state_of(copy, "bob")) as state:
        thief = UnicastSealing(keyring.load(copy, "bob"), PrekeyRows(state, state.commit), os.urandom)
        assert len(recorded) == 2
        for one in recorded:
            with pytest.raises(UnknownPrekey):
                thief.open(one.body, one.source, one.expiry_min - 1)


# -- bad input -----------------------------------------------------------------------------------------------


def owe(end: RouterEnd, to: Node, body: bytes, source: SigningKey = BOB) -> MessageId:
    wire = seal_unicast(source, to.key, body, ttl_s=60, expiry_min=later())
    end.owe(to.key, wire)
    return message_id(wire)


async def test_prekeys_that_nobody_asked_for_or_that_are_forged_are_refused_and_reported(end: RouterEnd) -> None:
    until_min = later() + 1440
    forged = make_prekey(BOB, b"x" * 32, until_min)
    async with sign_on(end) as alice:
        owe(end, alice, encode_answer(forged))
        await wait_all_tasks_blocked()
        assert end.refusals == [(1, Reason.PEER_REFUSED)]
        assert "nobody asked this address for it" in alice.problems.unread()[0]
        wire = bytearray(seal_unicast(BOB, alice.key, encode_answer(forged), ttl_s=60, expiry_min=later()))
        wire[-1] ^= 1
        end.owe(alice.key, bytes(wire))
        await wait_all_tasks_blocked()
        assert "its signature does not fit" in alice.problems.unread()[1]
        assert settled(end, alice) == 2


async def test_an_answer_that_has_expired_is_refused_although_it_was_asked_for(end: RouterEnd) -> None:
    """Somebody on the way may have kept it."""
    async with sign_on(end) as alice, trio.open_nursery() as sending:
        sending.start_soon(alice.send, BOB.public, SECRET)
        await wait_all_tasks_blocked()
        now_min = later() - 60
        old = encode_answer(make_prekey(BOB, b"x" * 32, now_min + 1440))
        end.owe(alice.key, seal_unicast(BOB, alice.key, old, ttl_s=60, expiry_min=now_min - 2))
        await wait_all_tasks_blocked()
        assert end.refusals[-1][1] is Reason.PEER_REFUSED and "answer has expired" in alice.problems.unread()[0]
        assert not [body for body in bodies(end) if body.startswith(BEGINS)]
        sending.cancel_scope.cancel()


async def test_news_of_a_renewal_are_believed_of_correspondents_and_if_signed(end: RouterEnd) -> None:
    """Others could fill the bounded list of renewals, which are kept for good."""
    new = SigningKey(b"n" * 32)
    news = encode_renewal_notice(make_renewal(BOB, new, 1_800_000_000, 1_800_000_100))
    async with sign_on(end) as alice:
        forged = bytearray(seal_unicast(BOB, alice.key, news, ttl_s=60, expiry_min=later()))
        forged[-1] ^= 1
        end.owe(alice.key, bytes(forged))
        owe(end, alice, news, SigningKey(b"s" * 32))
        await wait_all_tasks_blocked()
        forged_said, stranger_said = alice.problems.unread()
        assert "its signature does not fit" in forged_said
        assert "this app has exchanged no sealed messages with that address" in stranger_said
        assert [reason for _, reason in end.refusals] == [Reason.PEER_REFUSED] * 2


async def test_what_is_sealed_to_an_unknown_prekey_is_refused_and_its_sender_is_told_the_present_one(
    end: RouterEnd, tmp_path: Path
) -> None:
    async with sign_on(end, seed=b"a", home=tmp_path / "alice") as alice:
        async with sign_on(end, seed=b"b", home=tmp_path / "bob") as bob:
            await alice.send(bob.key, b"first")
            assert (await one_of(bob)).body == b"first"
        # Bob has lost his prekeys.
        async with sign_on(end, seed=b"b", home=tmp_path / "anew") as bob, trio.open_nursery() as nursery:
            nursery.start_soon(one_of, bob)
            await alice.send(bob.key, b"lost")
            await wait_all_tasks_blocked()
            assert end.refusals == [(1, Reason.PEER_REFUSED)]
            assert "the sender gets the one of today" in bob.problems.unread()[0]
            await alice.send(bob.key, b"found")


async def test_bad_prekeys_inside_messages_are_reported_once_in_a_while(end: RouterEnd) -> None:
    async with sign_on(end) as alice, sign_on(end) as bob:
        await alice.send(bob.key, SECRET)
        await one_of(bob)
        [key] = [one for one in _unicasts(end) if one.body.startswith(PREKEY_ANSWER)]
        prekey = decode_answer(key.body)
        assert prekey is not None
        until_min = later() + 365 * 1440
        for number in range(20):
            made = sealing_key(prekey, bytes([number]) * 32)
            bad = make_prekey(BOB, b"x" * 32, until_min)
            owe(end, bob, seal_body(made, BOB.public, bob.key, number, b"hello", nonce=b"n" * 24, prekey=bad))
            assert (await one_of(bob)).body == b"hello"
        assert sum("a prekey inside a sealed message is not used" in said for said in bob.problems.unread()) == 1


async def test_what_was_sealed_for_another_or_by_another_is_refused(end: RouterEnd) -> None:
    mallory = SigningKey(b"m" * 32)
    async with sign_on(end) as alice, sign_on(end) as bob:
        await alice.send(bob.key, SECRET)
        await one_of(bob)
        body = next(body for body in bodies(end) if body.startswith(BEGINS))
        owe(end, bob, body, mallory)
        owe(end, bob, body[:-1] + bytes([body[-1] ^ 1]))
        owe(end, bob, BEGINS)
        owe(end, bob, b"the next one", mallory)
        assert (await one_of(bob)).body == b"the next one"
        await wait_all_tasks_blocked()
        assert [reason for _, reason in end.refusals] == [Reason.PEER_REFUSED] * 3
        assert sum("cannot be opened: the seal does not fit" in said for said in bob.problems.unread()) == 1
        assert any("its body is no sealed one" in said for said in bob.problems.unread())


async def test_requests_beyond_the_bound_wait_at_the_node(end: RouterEnd) -> None:
    async with sign_on(end) as alice:
        end.holding = True
        for number in range(ANSWERS_MAX + 2):
            owe(end, alice, ASK, SigningKey(number.to_bytes(32, "big")))
        owe(end, alice, ASK, SigningKey((0).to_bytes(32, "big")))
        await wait_all_tasks_blocked()
        assert [reason for _, reason in end.refusals] == [Reason.RATE_LIMITED] * 2
        assert settled(end, alice) == 0
        end.release()
        await wait_all_tasks_blocked()
        assert settled(end, alice) == ANSWERS_MAX + 3
        assert len({message.destination for message in _unicasts(end)}) == ANSWERS_MAX


def _unicasts(end: RouterEnd) -> list[Unicast]:
    found = (open_message(wire) for connection in end.heard for wire in connection)
    return [one for one in found if isinstance(one, Unicast)]


def settled(end: RouterEnd, node: Node) -> int:
    return end.link_to(node.key).settled


async def test_a_request_is_answered_again_after_a_connection_was_lost(end: RouterEnd, tmp_path: Path) -> None:
    async with sign_on(end, seed=b"a", home=tmp_path) as alice:
        end.holding = True
        owe(end, alice, ASK)
        await wait_all_tasks_blocked()
        assert settled(end, alice) == 0
        end.cut()
        end.holding = False
        await alice.until_up()
        while not (end.queues.get(BOB.public) and settled(end, alice)):
            await wait_all_tasks_blocked()
        assert not end.queues[alice.key].wires
