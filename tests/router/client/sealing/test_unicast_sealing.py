"""What seals and opens an app's unicasts, under every order of loss, repeat, delay and restart."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from router.client.sealing.correspondents import CorrespondentLimits, Correspondents, Verdict, Writing
from router.client.sealing.own_prekeys import DAY_MIN, PrekeyLimits
from router.client.sealing.rows import CORRESPONDENTS, OWN_PREKEYS, PrekeyRow, PrekeyRows
from router.client.sealing.unicast_sealing import SealingLimits, UnicastSealing, UnknownPrekey
from router.client.sequence import Sequences
from router.core.wire.application import BadSeal, SealError
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.prekey import Prekey, make_prekey
from router.core.wire.unicast_seal import read_body
from router.disk.state.app_state import AppState

NOW_MIN = 3_000_000
WEEK_MIN = 7 * DAY_MIN
LIFE_MIN = PrekeyLimits().life_min


class App:
    """An app as its machine sees it: rows that stay, a clock that may be off."""

    def __init__(self, name: bytes, seed: int = 0, off_min: int = 0, correspondents: CorrespondentLimits | None = None):
        self.key = SigningKey(name * 32)
        self.state = AppState.memory()
        self.rows = PrekeyRows(self.state, self.state.commit)
        self.off_min = off_min
        self._entropy = random.Random(f"{name!r} {seed}").randbytes
        self._correspondents = correspondents
        self.restart()

    @property
    def address(self) -> PublicKey:
        return self.key.public

    def restart(self) -> None:
        self.machine = UnicastSealing(
            self.key, self.rows, self._entropy, SealingLimits(messages_max=3), self._correspondents
        )

    def prekey(self, now_min: int) -> Prekey:
        self.machine.renew(now_min + self.off_min)
        return self.machine.current()

    def tick(self, now_min: int) -> None:
        self.rows.gather(self.machine.tick(now_min + self.off_min))

    def ask(self, other: App, now_min: int) -> None:
        self.rows.gather(self.machine.correspondents.asked(other.address, now_min + self.off_min))

    def hear_answer(self, source: PublicKey, prekey: Prekey | None, now_min: int) -> Verdict:
        verdict, rows = self.machine.correspondents.answered(source, prekey, now_min + self.off_min)
        self.rows.gather(rows)
        return verdict

    def way(self, other: App, now_min: int) -> Prekey | Writing:
        return self.machine.prekey_of(other.address, now_min + self.off_min)

    def seal(self, other: App, content: bytes, now_min: int) -> bytes:
        self.prekey(now_min)
        found = self.way(other, now_min)
        assert isinstance(found, Prekey)
        return self.machine.seal(found, 0, content)

    def open(self, source: App, body: bytes, now_min: int) -> bytes:
        opened = self.machine.open(body, source.address, now_min + self.off_min)
        self.rows.gather(opened.rows)
        return opened.message.content


def acquainted(now_min: int = NOW_MIN) -> tuple[App, App]:
    alice, bob = App(b"a"), App(b"b")
    alice.ask(bob, now_min)
    assert alice.hear_answer(bob.address, bob.prekey(now_min), now_min) is Verdict.TAKEN
    return alice, bob


def test_a_stranger_is_asked_once_and_then_sealed_to() -> None:
    alice, bob = App(b"a"), App(b"b")
    assert alice.way(bob, NOW_MIN) is Writing.ASK
    alice.ask(bob, NOW_MIN)
    assert alice.way(bob, NOW_MIN + 9) is Writing.WAIT and alice.way(bob, NOW_MIN + 10) is Writing.ASK
    alice.restart()
    assert alice.way(bob, NOW_MIN) is Writing.WAIT
    assert alice.hear_answer(bob.address, bob.prekey(NOW_MIN), NOW_MIN + 3 * DAY_MIN) is Verdict.TAKEN  # a late one
    assert bob.open(alice, alice.seal(bob, b"psst", NOW_MIN), NOW_MIN) == b"psst"


def test_the_answer_is_sealed_at_once_and_the_prekey_is_not_brought_twice() -> None:
    alice, bob = acquainted()
    first, second, third, fourth = (len(alice.seal(bob, b"x" * 100, NOW_MIN)) for _ in range(4))
    assert first - second > 150 and (third, fourth) == (second, first)  # with each ephemeral key
    alice.prekey(NOW_MIN + DAY_MIN)
    assert len(alice.seal(bob, b"x" * 100, NOW_MIN + DAY_MIN)) == first  # a new one is brought
    bob.open(alice, alice.seal(bob, b"question", NOW_MIN), NOW_MIN)
    alice.restart()
    body = alice.seal(bob, b"question", NOW_MIN)
    bob.open(alice, body, NOW_MIN)
    assert alice.open(bob, bob.seal(alice, b"answer", NOW_MIN), NOW_MIN) == b"answer"


def test_no_nonce_is_used_twice_with_a_key_and_a_key_seals_so_many() -> None:
    alice, bob = acquainted()
    sealed = [read_body(alice.seal(bob, b"same", NOW_MIN)) for _ in range(7)]
    assert len({(one.ephemeral, one.nonce) for one in sealed}) == 7
    assert [len({one.ephemeral for one in sealed[at : at + 3]}) for at in (0, 3)] == [1, 1]
    assert len({one.ephemeral for one in sealed}) == 3


def test_what_is_sealed_is_opened_until_the_prekey_ends_and_never_after() -> None:
    alice, bob = acquainted()
    body = alice.seal(bob, b"psst", NOW_MIN)
    assert bob.open(alice, body, NOW_MIN) == b"psst"  # also a key that is in use goes
    for day in range(1, 8):
        bob.prekey(NOW_MIN + day * DAY_MIN)
        bob.tick(NOW_MIN + day * DAY_MIN)
        bob.restart()
        assert len(bob.machine.own) == day + 1
    assert bob.open(alice, body, NOW_MIN + LIFE_MIN - 1) == b"psst"
    assert alice.way(bob, NOW_MIN + LIFE_MIN) is Writing.ASK
    bob.restart()
    with pytest.raises(UnknownPrekey, match="not ours, or no longer"):  # although it is still on the disk
        bob.open(alice, body, NOW_MIN + LIFE_MIN)
    seeds = [value[-32:] for _, value in bob.rows.under(OWN_PREKEYS)]
    bob.tick(NOW_MIN + LIFE_MIN)
    left = [value[-32:] for _, value in bob.rows.under(OWN_PREKEYS)]
    assert left == seeds[1:]
    with pytest.raises(UnknownPrekey, match="not ours, or no longer"):
        bob.open(alice, body, NOW_MIN + LIFE_MIN)
    bob.prekey(NOW_MIN + LIFE_MIN)
    assert len(bob.rows.under(OWN_PREKEYS)) == PrekeyLimits().kept_max


def test_at_most_so_many_prekeys_are_kept() -> None:
    bob = App(b"b")
    for number in range(20):
        bob.rows.gather(bob.machine.own.renew(NOW_MIN, bytes([number]) * 32))
    kept = [value[-32:] for _, value in bob.rows.under(OWN_PREKEYS)]
    assert sorted(kept) == [bytes([number]) * 32 for number in range(12, 20)]
    bob.restart()
    assert bob.machine.current() == make_prekey(bob.key, bytes([19]) * 32, NOW_MIN + LIFE_MIN)


def test_a_clock_that_was_ahead_makes_a_new_prekey_and_no_prekey_that_nobody_takes() -> None:
    bob = App(b"b")
    ahead = bob.prekey(NOW_MIN + 365 * DAY_MIN)
    now = bob.prekey(NOW_MIN)
    assert now.id != ahead.id and now.until_min == NOW_MIN + LIFE_MIN


def test_another_process_of_the_same_name_may_have_made_the_prekey() -> None:
    alice, bob = acquainted()
    other = UnicastSealing(bob.key, bob.rows, random.Random(7).randbytes)
    bob.rows.gather(other.own.renew(NOW_MIN, b"n" * 32))
    alice.hear_answer(bob.address, other.current(), NOW_MIN)
    assert bob.open(alice, alice.seal(bob, b"psst", NOW_MIN), NOW_MIN) == b"psst"


def test_what_is_sealed_to_no_prekey_makes_none_of_them_anew() -> None:
    """Which costs more than all else, and whoever likes may send such."""
    alice, bob = acquainted()
    own, body = bob.machine.own, bytearray(alice.seal(bob, b"psst", NOW_MIN))
    body[3] ^= 1
    with pytest.raises(UnknownPrekey):
        bob.machine.open(bytes(body), alice.address, NOW_MIN)
    assert bob.machine.own is own


def test_who_forgets_an_ended_prekey_forgets_none_that_another_process_has_made_since() -> None:
    bob = App(b"b")
    bob.prekey(NOW_MIN)
    other = App(b"b", seed=1)
    other.rows = bob.rows
    other.restart()
    later_min = NOW_MIN + LIFE_MIN
    other.tick(later_min)
    made = other.prekey(later_min)
    bob.tick(later_min)
    other.restart()
    assert other.machine.current().id == made.id and bob.prekey(later_min).id == made.id


def test_the_keys_made_of_prekeys_go_with_them_also_if_another_process_has_forgotten_these() -> None:
    alice, bob = acquainted()
    body = alice.seal(bob, b"psst", NOW_MIN)
    assert bob.open(alice, body, NOW_MIN) == b"psst"
    other = UnicastSealing(bob.key, bob.rows, random.Random(7).randbytes)
    later_min = NOW_MIN + LIFE_MIN
    other.tick(later_min)
    with pytest.raises(UnknownPrekey):  # which reads the prekeys on the disk again
        bob.machine.open(body[:3] + bytes(8) + body[11:], alice.address, later_min)
    alice.tick(later_min)
    bob.tick(later_min)
    with pytest.raises(UnknownPrekey):
        bob.open(alice, body, NOW_MIN)
    assert not alice.machine._sealing and not bob.machine._opening, "nor does memory hold any"


def test_who_seals_to_a_prekey_that_is_a_day_old_needs_a_newer_one() -> None:
    alice, bob = acquainted()
    for after_min, needs in ((0, False), (DAY_MIN - 1, False), (DAY_MIN, True), (LIFE_MIN - 1, True)):
        body = alice.seal(bob, b"psst", NOW_MIN + after_min)
        assert bob.machine.open(body, alice.address, NOW_MIN + after_min).needs_prekey is needs
    assert not bob.machine.open(bob.seal(bob, b"psst", NOW_MIN), bob.address, NOW_MIN).needs_prekey


# -- bad input -----------------------------------------------------------------------------------------------


def test_prekeys_that_are_not_to_be_used() -> None:
    alice, bob = acquainted()
    mallory = App(b"m")
    good = bob.prekey(NOW_MIN)
    assert good.until_min is not None

    def dated(owner: SigningKey, until_min: int) -> Prekey:
        return make_prekey(owner, b"z" * 32, until_min)

    newer = dated(bob.key, good.until_min + 1)
    for prekey, why in (
        (good, Verdict.KNOWN),
        (dated(bob.key, good.until_min - 1), Verdict.OLDER),
        (dated(bob.key, NOW_MIN), Verdict.EXPIRED),
        (dated(bob.key, NOW_MIN + 365 * DAY_MIN), Verdict.TOO_FAR_AHEAD),
        (dated(mallory.key, good.until_min + 1), Verdict.NOT_OWN),
        (Prekey(bob.address, newer.x25519, good.signature, newer.until_min), Verdict.FORGED),
        (make_prekey(bob.key, b"z" * 32), Verdict.EXPIRED),  # it names no end
    ):
        assert alice.hear_answer(bob.address, prekey, NOW_MIN) is why
        assert alice.way(bob, NOW_MIN) == good
    assert alice.hear_answer(mallory.address, mallory.prekey(NOW_MIN), NOW_MIN) is Verdict.NOT_ASKED
    assert alice.hear_answer(bob.address, newer, NOW_MIN) is Verdict.TAKEN
    assert alice.hear_answer(bob.address, good, NOW_MIN) is Verdict.OLDER  # a replay


def test_an_x25519_key_of_another_shares_no_secret_and_no_count_with_it() -> None:
    """Mallory signs bob's X25519 key as its own."""
    alice, bob = acquainted()
    mallory = App(b"m")
    stolen = make_prekey(mallory.key, dict(bob.rows.under(OWN_PREKEYS))[bytes(8)][-32:], NOW_MIN + LIFE_MIN)
    assert stolen.x25519 == bob.prekey(NOW_MIN).x25519
    alice.ask(mallory, NOW_MIN)
    assert alice.hear_answer(mallory.address, stolen, NOW_MIN) is Verdict.TAKEN
    to_mallory = read_body(alice.seal(mallory, b"psst", NOW_MIN))
    body = alice.seal(bob, b"psst", NOW_MIN)
    assert read_body(body).ephemeral != to_mallory.ephemeral
    assert bob.machine.open(body, alice.address, NOW_MIN).verdict is Verdict.TAKEN, "alice's prekey came with it"
    with pytest.raises(BadSeal):  # what alice says to mallory is not shown as said to bob, nor by bob's app at all
        bob.machine.open(alice.seal(mallory, b"psst", NOW_MIN), alice.address, NOW_MIN, mallory.address)


def test_null_is_believed_for_a_day_and_only_where_no_prekey_is_valid() -> None:
    alice, bob = App(b"a"), App(b"b")
    alice.ask(bob, NOW_MIN)
    assert alice.hear_answer(bob.address, None, NOW_MIN) is Verdict.TAKEN
    alice.ask(bob, NOW_MIN)  # which another process did at the same time
    alice.restart()
    assert alice.way(bob, NOW_MIN + DAY_MIN - 1) is Writing.PLAIN and alice.way(bob, NOW_MIN + DAY_MIN) is Writing.ASK
    prekey = bob.prekey(NOW_MIN)
    assert alice.hear_answer(bob.address, prekey, NOW_MIN) is Verdict.TAKEN  # null, then a prekey
    assert alice.hear_answer(bob.address, None, NOW_MIN) is Verdict.STILL_SEALED  # and the reverse
    assert alice.way(bob, NOW_MIN) == prekey


def test_the_correspondents_that_were_used_longest_ago_go_first() -> None:
    alice = App(b"a", correspondents=CorrespondentLimits(correspondents_max=3))
    others = [App(bytes([number])) for number in range(1, 6)]
    for other in others:
        alice.ask(other, NOW_MIN)
        assert alice.way(others[0], NOW_MIN) is Writing.WAIT  # it is in use
    assert [alice.way(one, NOW_MIN) is Writing.WAIT for one in others] == [True, False, False, True, True]
    assert len(alice.rows.under(CORRESPONDENTS)) == 3
    alice.restart()
    assert len(alice.machine.correspondents) == 3
    alice.tick(NOW_MIN + 30 * DAY_MIN)
    assert not alice.rows.under(CORRESPONDENTS)


def test_ten_thousand_correspondents_are_remembered_and_the_oldest_go_for_more() -> None:
    most, more = CorrespondentLimits().correspondents_max, 50
    known, rows = Correspondents(), dict[bytes, bytes]()
    addresses = [PublicKey(number.to_bytes(32, "big")) for number in range(most + more)]
    for at, address in enumerate(addresses):
        for row in known.asked(address, NOW_MIN + at // 10):
            rows.pop(row.key, None)
            rows |= {} if row.value is None else {row.key: row.value}
    assert most == 10_000 and [*rows] == known.addresses == addresses[more:]
    again = Correspondents(rows.items())
    assert again.addresses == addresses[more:]
    asked = [again.prekey_of(one, NOW_MIN + len(addresses) // 10) for one in (addresses[more - 1], addresses[-1])]
    assert asked == [Writing.ASK, Writing.WAIT], "who has gone is asked again"


def test_two_devices_of_one_key_ask_at_once_and_each_opens_what_is_sealed_to_its_own_prekey() -> None:
    """They have a state each. The other of both says why it opens nothing, and then its prekey is the one in use."""
    bob, devices = App(b"b"), (App(b"a", 1), App(b"a", 2))
    for one in devices:
        one.ask(bob, NOW_MIN)
    answer = bob.prekey(NOW_MIN)
    assert [one.hear_answer(bob.address, answer, NOW_MIN) for one in devices] == [Verdict.TAKEN] * 2
    for one, other in (devices, devices[::-1]):
        assert bob.open(one, one.seal(bob, b"psst", NOW_MIN), NOW_MIN) == b"psst"
        bob.hear_answer(one.address, one.prekey(NOW_MIN), NOW_MIN)
        body = bob.seal(one, b"answer", NOW_MIN)
        assert one.open(bob, body, NOW_MIN) == b"answer"
        with pytest.raises(UnknownPrekey, match="should send it again"):
            other.open(bob, body, NOW_MIN)


def test_strangers_that_only_write_push_out_nobody_to_whom_the_app_writes() -> None:
    alice = App(b"a", correspondents=CorrespondentLimits(correspondents_max=4))
    friends, strangers = (
        [App(bytes([number])) for number in (1, 2, 3)],
        [App(bytes([9 + number])) for number in range(5)],
    )
    for friend in friends:
        alice.ask(friend, NOW_MIN)
        alice.hear_answer(friend.address, friend.prekey(NOW_MIN), NOW_MIN)
        alice.seal(friend, b"hello", NOW_MIN)
        Sequences(alice.state).take(friend.address)
    for stranger in strangers:
        stranger.ask(alice, NOW_MIN)
        stranger.hear_answer(alice.address, alice.prekey(NOW_MIN), NOW_MIN)
        alice.open(stranger, stranger.seal(alice, b"buy this", NOW_MIN), NOW_MIN)
        assert isinstance(alice.way(friends[0], NOW_MIN), Prekey)
        alice.restart()
        assert {one.address for one in (*friends, stranger)} == {*alice.machine.correspondents.addresses}
    assert isinstance(alice.way(stranger, NOW_MIN), Prekey), "it is answered at once, and is no stranger then"
    alice.ask(strangers[0], NOW_MIN)
    assert friends[1].address not in alice.machine.correspondents


def test_a_row_of_another_version_is_asked_for_again() -> None:
    alice, bob = acquainted()
    [(key, value)] = alice.rows.under(CORRESPONDENTS)
    alice.rows.gather([PrekeyRow(CORRESPONDENTS, key, value[:4] + b"\xff")])
    alice.restart()
    assert alice.way(bob, NOW_MIN) is Writing.ASK


# -- every order ---------------------------------------------------------------------------------------------


@dataclass
class Sent:
    """A unicast under way; `body` is None for a request, bytes for what is sealed, else the answer in a list."""

    source: App
    to: App
    until_min: int
    body: bytes | list[Prekey | None] | None
    content: bytes = b""


@dataclass
class Net:
    """Two apps, and what is under way between them."""

    random: random.Random
    apps: list[App]
    now_min: int = NOW_MIN
    under_way: list[Sent] = field(default_factory=list)
    opened: int = 0

    def say(self) -> None:
        source, to = self.random.sample(self.apps, 2)
        source.prekey(self.now_min)
        found, now_min = source.way(to, self.now_min), self.now_min + source.off_min
        if isinstance(found, Prekey):
            content = self.random.randbytes(8)
            assert found.until_min is not None
            until_min = min(now_min + WEEK_MIN, found.until_min)
            self.under_way.append(Sent(source, to, until_min, source.machine.seal(found, 0, content), content))
        elif found is Writing.ASK:
            source.ask(to, self.now_min)
            self.under_way.append(Sent(source, to, now_min + WEEK_MIN, None))
        else:
            assert found is Writing.WAIT, "nobody has asked for messages in the open"

    def deliver(self) -> None:
        """Deliver a message that is under way, in any order, by the clocks of the recipient's node and of others."""
        if not self.under_way:
            return
        one = self.under_way.pop(self.random.randrange(len(self.under_way)))
        if self.random.random() < 0.2:
            self.under_way.append(one)  # and once more later
        if one.until_min <= max(self.now_min, self.now_min + one.to.off_min) or self.random.random() < 0.1:
            return
        if one.body is None:
            answer = one.to.prekey(self.now_min)
            self.under_way.append(Sent(one.to, one.source, self.now_min + one.to.off_min + WEEK_MIN, [answer]))
        elif isinstance(one.body, list):
            verdict = one.to.hear_answer(one.source.address, one.body[0], self.now_min)
            assert verdict in (Verdict.TAKEN, Verdict.KNOWN, Verdict.OLDER, Verdict.EXPIRED, Verdict.NOT_ASKED)
        else:
            self.opened += one.to.open(one.source, one.body, self.now_min) == one.content
            with pytest.raises(SealError):
                one.source.open(one.to, one.body, self.now_min)

    def step(self) -> None:
        act = self.random.choice((self.say, self.say, self.deliver, self.deliver, self.deliver, self.pass_time))
        act()

    def pass_time(self) -> None:
        self.now_min += self.random.choice((1, 30, DAY_MIN // 2, DAY_MIN, 5 * DAY_MIN, WEEK_MIN))
        for app in self.apps:
            if self.random.random() < 0.5:  # it is away, and does not even look
                app.tick(self.now_min)
            if self.random.random() < 0.5:
                app.restart()


@pytest.mark.parametrize("off_min", (0, -DAY_MIN, DAY_MIN))
@pytest.mark.parametrize("seed", range(8))
def test_all_that_is_sealed_and_arrives_in_time_is_opened(seed: int, off_min: int) -> None:
    net = Net(random.Random(f"{seed} {off_min}"), [App(b"a", seed, off_min), App(b"b", seed)])
    for _ in range(300):
        net.step()
    assert net.opened > 10, seed
