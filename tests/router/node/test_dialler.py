"""Dialling on a mock clock over memory and loopback: whom, where, how often, and the effect of a new configuration."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from router.core.neighbours.dial_budget import DialBudgets
from router.core.neighbours.directory import Neighbour
from router.core.service.refusals import Refusals
from router.core.wire.crypto import PublicKey, SigningKey
from router.node.asked_listeners import AskedListeners
from router.node.dialler import Dialler, LastWords
from router.settings.config import Link
from router.transport import contract as transport
from router.transport.contract import Stream


def seeded(number: int) -> SigningKey:
    return SigningKey(bytes((number,)) * 32)


ME, THERE, OTHER = map(seeded, (91, 92, 93))
SHORTEST_S, LONGEST_S = 0.5, 60.0
NOBODY_THERE = "memory://nobody"
DAY_S = 86_400.0
NOTHING_WRONG = LastWords()


@dataclass
class House:
    """A dialler, and the other ends that it reaches: `connected` has the time and the expected key of each connection.

    A connection lasts `lasts_s`, then ends with `last_words`; `failed`: the reports about neighbours not reached.
    `owed`: keys with waiting messages; `asked`: how often that was asked; `back_off_s`: the shortest and the longest
    pause between dials.
    """

    nursery: trio.Nursery
    lasts_s: float = 0.0
    last_words: LastWords = NOTHING_WRONG
    me: SigningKey = ME
    back_off_s: tuple[float, float] = (SHORTEST_S, LONGEST_S)
    owed: set[bytes] = field(default_factory=set)
    asked: int = 0
    failed: list[tuple[bytes, str, bool]] = field(default_factory=list)
    connected: list[tuple[float, PublicKey]] = field(default_factory=list)
    while_asked: Callable[[], None] = lambda: None

    def dialler(self, *neighbours: Neighbour, dials_max: int = 64, jitter: float = 0.999_999) -> Dialler:
        shortest_s, longest_s = self.back_off_s
        limits = Link(dial_backoff_s_min=shortest_s, dial_backoff_s_max=longest_s, dials_max=dials_max)
        return Dialler(
            self.me,
            neighbours,
            limits,
            self.nursery,
            self._run,
            self._waiting,
            lambda: jitter,
            lambda: True,
            DialBudgets(Refusals()),
            lambda neighbour, text, let_in: self.failed.append((neighbour.key, text, let_in)),
        )

    async def _run(self, stream: Stream, expect: PublicKey) -> LastWords:
        self.connected.append((round(trio.current_time(), 3), expect))
        try:
            await trio.sleep(self.lasts_s)
        finally:
            await stream.aclose()
        return self.last_words

    async def _waiting(self, key: bytes) -> bool:
        self.asked += 1
        answer = key in self.owed
        await trio.lowlevel.checkpoint()
        self.while_asked()
        return answer

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.connected]


@pytest.fixture
async def house(nursery: trio.Nursery) -> House:
    await nursery.start(partial(transport.load("memory").listen, "memory://there", THERE, _hold))
    return House(nursery)


async def _hold(stream: Stream) -> None:
    """Hold the other end of a connection, and send nothing."""
    await trio.sleep_forever()


def there(*urls: str, uplink: bool = True, blocked: bool = False, name: str = "there") -> Neighbour:
    return Neighbour(THERE.public, name, uplink=uplink, blocked=blocked, urls=urls or ("memory://there",))


# -- whom, and how often -----------------------------------------------------------------------------------------


async def test_an_uplink_is_dialled_again_for_ever_with_pauses_twice_as_long(
    house: House, autojump_clock: MockClock
) -> None:
    dialler = house.dialler(there())
    dialler.reconcile([there()])
    await trio.sleep(130.0)
    pauses = [round(later - earlier, 2) for earlier, later in zip(house.times, house.times[1:], strict=False)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    assert {expect for _, expect in house.connected} == {THERE.public}
    assert repr(dialler) == "<dialler: 1 keys being dialled or connected>"


async def test_who_is_waited_for_is_dialled_soon(house: House, autojump_clock: MockClock) -> None:
    dialler = house.dialler(there())
    dialler.reconcile([there()])
    await trio.sleep(40.0)  # in the midst of a pause of 32 s
    dialler.hurry([THERE.public, OTHER.public])
    await trio.sleep(0.001)
    assert house.times[-1] == pytest.approx(40.0, abs=0.01)
    for _ in range(60):  # as often as a command asks that waits for the answer
        dialler.hurry([THERE.public])
        await trio.sleep(0.1)
    assert [round(at - 40.0, 2) for at in house.times[-3:]] == [2.0, 4.0, 6.0]


async def test_who_lets_us_in_after_all_is_dialled_again_at_once(house: House, autojump_clock: MockClock) -> None:
    house.last_words = LastWords("it does not let us in", lets_in=False)
    dialler = house.dialler(there())
    dialler.reconcile([there()])
    await trio.sleep(40.0)
    house.last_words = NOTHING_WRONG  # the stranger's connection ends once it is let in
    await trio.sleep(30.0)
    assert [round(at, 1) for at in house.times[-4:]] == [63.5, 64.0, 65.0, 67.0]


async def test_what_the_neighbour_has_told_before_is_logged_once(
    house: House, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for told, warnings in ((False, 1), (True, 1)):
        house.last_words = LastWords(f"told: {told}", lets_in=False, is_logged=told)
        dialler = house.dialler(there())
        dialler.reconcile([there()])
        await trio.sleep(3.0)
        assert dialler.problems[THERE.public] == house.last_words.text
        assert sum("told: " in one.message for one in caplog.records) == warnings
        dialler.reconcile([])


async def test_a_connection_that_lasted_makes_the_pauses_short_again(house: House, autojump_clock: MockClock) -> None:
    house.lasts_s = LONGEST_S + 1
    house.dialler(there()).reconcile([there()])
    await trio.sleep(4 * house.lasts_s)
    pauses = [
        round(later - earlier - house.lasts_s, 2) for earlier, later in zip(house.times, house.times[1:], strict=False)
    ]
    assert pauses == [0.5] * 3


async def test_a_crowd_does_not_come_back_at_once(house: House, autojump_clock: MockClock) -> None:
    house.dialler(there(), jitter=0.0).reconcile([there()])
    await trio.sleep(0.3)
    assert house.times == [0.0, 0.25], "half the pause at the least"


async def test_others_are_dialled_while_something_waits(house: House, autojump_clock: MockClock) -> None:
    one = there(uplink=False)
    dialler = house.dialler(one)
    dialler.reconcile([one])
    await trio.sleep(10.0)
    assert house.connected == []
    house.owed.add(THERE.public)
    dialler.want(THERE.public)
    dialler.want(THERE.public)
    await trio.sleep(1.0)
    assert len(house.connected) == 2, "one task for a key, and again while something still waits"
    house.owed.clear()
    await trio.sleep(DAY_S)
    assert len(house.connected) == 2 and repr(dialler) == "<dialler: 0 keys being dialled or connected>"
    dialler.want(OTHER.public)
    await trio.sleep(1.0)
    assert len(house.connected) == 2, "nobody knows where that is"


async def test_what_comes_to_wait_while_it_is_asked_is_not_forgotten(house: House, autojump_clock: MockClock) -> None:
    """The answer "nothing waits" may be on its way when a message comes and asks for a dial."""
    one = there(uplink=False)
    dialler = house.dialler(one)

    def meanwhile() -> None:
        if house.asked == 1:
            house.owed.add(THERE.public)
            dialler.want(THERE.public)

    house.while_asked = meanwhile
    dialler.want(THERE.public)
    await trio.sleep(1.0)
    assert len(house.connected) == 2


async def test_urls_are_tried_in_order_and_a_problem_is_told_once(
    house: House, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    one = there(NOBODY_THERE, NOBODY_THERE, "memory://there")
    house.last_words = LastWords("it does not let us in", lets_in=False)
    with caplog.at_level(logging.WARNING):
        dialler = house.dialler(one)
        dialler.reconcile([one])
        await trio.sleep(100.0)
    assert len(house.connected) > 3 and dialler.problems[THERE.public] == house.last_words.text
    told = [row.getMessage() for row in caplog.records]
    assert told[:2] == [
        f"there: nobody in this process is listening on {NOBODY_THERE}",
        f"there: {house.last_words.text}",
    ]


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    """Return a listener whose connections the system takes, and nobody says a word."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.setblocking(False)
        yield silent


async def test_mute_first_url_does_not_hold_up_the_next_and_is_left_alone_then(
    house: House, autojump_clock: MockClock, mute: socket.socket
) -> None:
    one = there(f"tls://127.0.0.1:{mute.getsockname()[1]}", "memory://there")
    dialler = house.dialler(one)
    dialler.reconcile([one])
    await trio.sleep(3.0)
    assert house.times == [0.25, 0.75, 1.75] and not dialler.problems.get(THERE.public)
    with mute.accept()[0] as taken:
        while taken.recv(4096):
            pass  # the beginning of a handshake; its end means that the other side has closed
    with pytest.raises(BlockingIOError):
        mute.accept()


async def test_change_of_network_ends_pauses_and_makes_them_short_again(
    house: House, autojump_clock: MockClock
) -> None:
    dialler = house.dialler(there())
    dialler.reconcile([there()])
    await trio.sleep(40.0)  # in the midst of a pause of 32 s
    dialler.network_changed()
    await trio.sleep(2.0)
    assert [round(at - 40.0, 2) for at in house.times[-3:]] == [0.0, 0.5, 1.5]


async def test_dial_that_fails_after_a_change_of_network_is_followed_by_a_short_pause(
    house: House, autojump_clock: MockClock, mute: socket.socket
) -> None:
    one = there(f"tls://127.0.0.1:{mute.getsockname()[1]}")
    dialler = house.dialler(one)
    dialler.reconcile([one])
    await trio.sleep(95.0)  # in the midst of the seventh dial of 10 s, after which a pause of 32 s would follow
    before = len(house.failed)
    dialler.network_changed()
    await trio.sleep(18.0)
    assert (before, len(house.failed)) == (6, 8)


async def test_network_that_changes_all_the_time_is_no_reason_to_dial_all_the_time(
    house: House, autojump_clock: MockClock
) -> None:
    dialler = house.dialler(there())
    dialler.reconcile([there()])
    await trio.sleep(40.0)
    before = len(house.times)
    for _ in range(100):
        dialler.network_changed()
        await trio.sleep(0.1)
    assert len(house.times) - before <= 10 / SHORTEST_S + 1


# -- what a new configuration changes ----------------------------------------------------------------------------


async def test_a_blocked_key_is_dialled_no_more_and_at_once_when_it_may_come_again(
    house: House, autojump_clock: MockClock
) -> None:
    dialler = house.dialler(there())
    dialler.reconcile([there()])
    await trio.sleep(4.0)
    before = len(house.connected)
    dialler.reconcile([there(blocked=True)])
    await trio.sleep(DAY_S)
    assert len(house.connected) == before and repr(dialler) == "<dialler: 0 keys being dialled or connected>"
    dialler.want(THERE.public)
    await wait_all_tasks_blocked()
    assert len(house.connected) == before
    again_s = trio.current_time()
    dialler.reconcile([there()])
    await trio.sleep(0.1)
    assert house.times[before:] == [pytest.approx(again_s)]


@pytest.mark.parametrize("gone", [(), (there(uplink=False),)], ids=["removed", "no uplink any more"])
@pytest.mark.parametrize("lasts_s", [0.0, 50.0], ids=["while it waits", "while it is connected"])
async def test_who_need_not_be_kept_is_not(
    house: House, autojump_clock: MockClock, gone: tuple[Neighbour, ...], lasts_s: float
) -> None:
    """Only the message router closes an open connection."""
    house.lasts_s = lasts_s
    dialler = house.dialler(there())
    dialler.reconcile([there()])
    await trio.sleep(20.0)
    before = len(house.connected)
    dialler.reconcile(gone)
    await trio.sleep(DAY_S)
    assert len(house.connected) == before and repr(dialler) == "<dialler: 0 keys being dialled or connected>"
    assert THERE.public not in dialler.problems or gone


async def test_a_new_address_is_used_at_once(house: House, autojump_clock: MockClock) -> None:
    """Even if the old address has failed for so long that the next attempt is a minute away, dialling starts as if for
    the first time."""
    dialler = house.dialler(there(NOBODY_THERE))
    dialler.reconcile([there(NOBODY_THERE)])
    await trio.sleep(1000.0)
    assert house.connected == [] and "nobody" in dialler.problems[THERE.public]
    dialler.reconcile([there()])
    await trio.sleep(0.6)
    assert house.times == [1000.0, 1000.5] and dialler.problems[THERE.public] == ""


async def test_for_whom_something_waits_that_is_so_too(house: House, autojump_clock: MockClock) -> None:
    house.owed.add(THERE.public)
    old, new = there(NOBODY_THERE, uplink=False), there(uplink=False)
    dialler = house.dialler(old)
    dialler.want(THERE.public)
    await trio.sleep(1000.0)
    dialler.reconcile([new])
    await wait_all_tasks_blocked()
    assert house.times == [1000.0]


async def test_an_address_that_never_answers_does_not_hold_up_the_new_one(
    house: House, autojump_clock: MockClock
) -> None:
    """A dial in progress ends when its address is no longer one of the neighbour."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        old = there(f"tls://127.0.0.1:{silent.getsockname()[1]}")
        dialler = house.dialler(old, dials_max=1)
        dialler.reconcile([old])
        await trio.sleep(3.0)
        dialler.reconcile([there()])
        await trio.sleep(0.1)
    assert house.times == [3.0]


async def test_a_dial_that_was_wanted_goes_on_where_the_neighbour_is_now(
    house: House, autojump_clock: MockClock
) -> None:
    """A neighbour on a LAN is heard by IPv4 and then by IPv6 while it is dialled, and no message waits for it."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        old = there(f"tls://127.0.0.1:{silent.getsockname()[1]}", uplink=False)
        dialler = house.dialler(old)
        dialler.want(THERE.public)
        await trio.sleep(1.0)
        dialler.reconcile([there("memory://there", uplink=False)])
        await trio.sleep(0.1)
    assert house.times == [1.0] and not house.failed


async def test_addresses_that_only_others_name_do_not_hold_up_a_configured_one_by_not_answering(
    house: House, autojump_clock: MockClock
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        ports = [replace(there(f"tls://127.0.0.1:{silent.getsockname()[1]}", uplink=False), key=bytes((n,)) * 32,
                         learned="lan", doubted=True) for n in range(1, 4)]  # fmt: skip
        dialler = house.dialler(there(), *ports, dials_max=2)
        for one in ports:
            dialler.want(one.key)
        await trio.sleep(1.0)
        dialler.reconcile([there(), *ports])
        await trio.sleep(0.1)
    assert house.times == [1.0]


@pytest.mark.parametrize("let_in", [True, False])
async def test_who_made_a_neighbour_known_is_told_that_it_was_not_reached(
    house: House, autojump_clock: MockClock, let_in: bool
) -> None:
    house.last_words = NOTHING_WRONG if let_in else LastWords("it does not let us in", lets_in=False)
    dialler = house.dialler(there(NOBODY_THERE if let_in else "memory://there", uplink=False))
    dialler.want(THERE.public)
    await trio.sleep(1.0)
    [(key, text, found)] = house.failed
    assert (key, found) == (THERE.public, let_in) and ("nobody" if let_in else "let us in") in text


async def test_who_only_waits_is_not_said_to_refuse_this_node(house: House, autojump_clock: MockClock) -> None:
    house.last_words = LastWords("it does not take this node now")
    house.dialler(there(uplink=False)).want(THERE.public)
    await trio.sleep(1.0)
    assert house.failed == [(THERE.public, "it does not take this node now", True)]


@pytest.mark.parametrize(
    ("is_lower", "is_uplink", "lasts_s", "is_told"),
    [(True, False, 1.0, False), (False, False, 1.0, True), (True, True, 1.0, True), (True, False, 11.0, True)],
)
async def test_another_connection_that_takes_over_is_no_problem_if_the_other_end_may_have_dialled_it(
    house: House, autojump_clock: MockClock, is_lower: bool, is_uplink: bool, lasts_s: float, is_told: bool
) -> None:
    house.last_words, house.lasts_s = LastWords("another node has this key", is_displaced=True), lasts_s
    house.me = next(one for one in map(seeded, range(1, 91)) if (THERE.public < one.public) is is_lower)
    dialler = house.dialler(one := there(uplink=is_uplink))
    dialler.want(one.key)
    await trio.sleep(lasts_s + SHORTEST_S / 4)
    assert dialler.problems == {THERE.public: house.last_words.text if is_told else ""}
    assert bool(house.failed) is is_told


async def test_only_of_neighbours_that_the_operator_chose_a_problem_is_a_warning(
    house: House, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for learned in ("lan", "config"):
            dialler = house.dialler(replace(there(NOBODY_THERE), learned=learned))
            dialler.want(THERE.public)
            await trio.sleep(SHORTEST_S / 2)
    assert [row.levelno for row in caplog.records] == [logging.INFO, logging.WARNING]


async def test_a_configuration_that_says_the_same_disturbs_nothing(house: House, autojump_clock: MockClock) -> None:
    dialler = house.dialler(there(NOBODY_THERE))
    dialler.reconcile([there(NOBODY_THERE)])
    await trio.sleep(1000.0)
    dialler.reconcile([there(NOBODY_THERE), Neighbour(OTHER.public, uplink=True, urls=("memory://there",))])
    await wait_all_tasks_blocked()
    assert [expect for _, expect in house.connected] == [OTHER.public] and "nobody" in dialler.problems[THERE.public]


async def test_a_node_that_stops_dials_nobody_and_listens_nowhere_any_more() -> None:
    """After its connections have ended, the router still decides until all that it has logged is on disk."""
    told: list[bytes] = []

    async def listen(_: trio.Nursery, url: str) -> str:
        return url

    async with trio.open_nursery() as nursery:
        dialler = House(nursery).dialler(Neighbour(THERE.public, urls=(NOBODY_THERE,)))
        listeners = AskedListeners(nursery, listen, lambda service, url, problem: told.append(service))
        nursery.cancel_scope.cancel()
    dialler.want(THERE.public)
    dialler.reconcile([Neighbour(THERE.public, urls=(NOBODY_THERE,), uplink=True)])
    listeners.want(OTHER.public, "memory://here")
    assert repr(dialler) == "<dialler: 0 keys being dialled or connected>" and not told
