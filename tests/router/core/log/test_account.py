"""What the log leaves open, compared with a store that is read in pieces while transactions go on."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.log.account import Account, Difference, QueuedRow, difference, measure
from router.core.log.alarms import RAISED, REPEATED, UNACCOUNTED, NodeAlarm
from router.core.log.events import RENEWAL, Accepted, Event, Logged, Noted, Outward, span

ALICE, BOB, CAROL = (bytes((n,)) * 32 for n in (1, 2, 3))
BOOT = bytes(16)
numbers = st.sets(st.integers(0, 1 << 62), max_size=5)


@given(st.integers(0, 1 << 62), st.integers(1, 1 << 20), st.data())
def test_a_measure_is_that_of_its_numbers_however_they_are_cut(first: int, count: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, count))
    assert measure([(first, count)]) == measure([(first, cut), (first + cut, count - cut)])
    few = min(count, 5)
    each = [(first + at, 1) for at in range(few)]
    assert measure(each) == measure([(first, few)])
    total = few + (sum(one for one, _ in each) << 64) + (sum(one * one for one, _ in each) << 192)
    assert measure(each) == total


@given(numbers, numbers)
def test_a_difference_tells_how_many_and_up_to_two_which(log: set[int], store: set[int]) -> None:
    measured = measure((one, 1) for one in log) - measure((one, 1) for one in store)
    if not measured:
        assert log == store or len(log ^ store) > 4, "up to two on each side cannot cancel out"
        return
    found = difference(measured)
    assert found.messages == len(log) - len(store)
    more, fewer = log - store, store - log
    if len(more | fewer) <= 2 and not (more and fewer):
        assert found.arrivals == tuple(sorted(more | fewer))


class Model:
    """Queues as sets, with the events of their changes. `moved`: keys that were renewed."""

    def __init__(self) -> None:
        self.rows: dict[tuple[bytes, int], tuple[bytes, set[int]]] = {}  # (holder, parcel): owed as, arrivals
        self.newer: dict[bytes, bytes] = {}
        self.arrival = self.seq = 1

    def newest(self, key: bytes) -> bytes:
        while key in self.newer:
            key = self.newer[key]
        return key

    def accept(self, recipients: list[bytes], count: int) -> Event:
        words = bytes(4 * count)
        first, self.arrival = self.arrival, self.arrival + count
        for one in recipients:
            self.rows[self.newest(one), first] = one, set(range(first, first + count))
        return Accepted(1, 1, first, 1, CAROL, None, None, 1, tuple(recipients), bytes(32 * count), words, words, words)

    def end(self, random: Random) -> list[Event]:
        if not self.rows:
            return []
        holder, first = random.choice(sorted(self.rows))
        owed, left = self.rows[holder, first]
        at = random.choice(sorted(left))
        ranges = ((at, 1),) if random.random() < 0.7 else tuple((one, 1) for one in sorted(left))
        left.difference_update(one for one, _ in ranges)
        if not left:
            del self.rows[holder, first]
        word = random.choice(("delivered", "acked", "expired", "dropped"))
        return [Outward(1, 1, "forwarded", owed, 1, ranges, None, 0, 0, 0, first),
                Outward(1, 1, word, owed, 1, ranges, None, 0, 0, 0, first)]  # fmt: skip

    def renew(self, old: bytes, new: bytes) -> Event:
        self.newer[old] = new
        self.rows = {(new if holder == old else holder, first): row for (holder, first), row in self.rows.items()}
        return Noted(1, 1, RENEWAL, CAROL, b"", None, ())

    def logged(self, *events: Event) -> Logged:
        first, self.seq = self.seq, self.seq + sum(map(span, events))
        return Logged(first, BOOT, events)

    def queued(self, after: bytes, most: int) -> list[QueuedRow]:
        keys = sorted(holder + first.to_bytes(8, "big") for holder, first in self.rows)
        rows = [(key[:32], int.from_bytes(key[32:], "big")) for key in keys if key > after][:most]
        return [
            QueuedRow(
                holder, first, tuple((one - first, one - first + 1) for one in sorted(self.rows[holder, first][1]))
            )
            for holder, first in rows
        ]


def compared(account: Account, model: Model) -> dict[bytes, Difference]:
    account.begin(model.newest)
    account.read(model.queued(b"", 1 << 30))
    return account.compared()


@pytest.mark.parametrize("seed", range(20))
def test_log_and_store_agree_while_the_store_is_read_in_pieces_and_a_loss_is_told(seed: int) -> None:
    random, model, account, keys = Random(seed), Model(), Account(), [ALICE, BOB]
    agreed = 0
    for _ in range(400):
        chance = random.random()
        if chance < 0.01 and len(model.newer) < 3:
            old = keys.pop(random.randrange(len(keys)))
            keys.append(bytes((len(model.newer) + 10,)) * 32)
            events = [model.renew(old, keys[-1])]
        elif chance < 0.5:
            events = [model.accept(random.sample(keys, random.randrange(1, len(keys) + 1)), random.randrange(1, 5))]
        else:
            events = model.end(random)
        if events:
            account.note(model.logged(*events))
        if not account.is_comparing:
            account.begin(model.newest)
        rows = model.queued(account.position, 3)
        account.read(rows)
        if len(rows) < 3:
            assert account.compared() == {}
            agreed += 1
    assert agreed > 5
    (holder, _), (_, left) = random.choice(sorted(model.rows.items()))
    lost = random.choice(sorted(left))
    left.remove(lost)
    assert compared(account, model) == {holder: Difference(1, (lost,))}
    doubled = max(one for _, row in model.rows.values() for one in row) + 7
    left.add(doubled)
    assert compared(account, model) == {holder: Difference(0)}, "a loss and a double do not cancel out"
    left.remove(doubled)
    left.add(lost)
    assert compared(account, model) == {}


def test_missing_events_make_it_take_the_word_of_the_store() -> None:
    model, account = Model(), Account()
    account.note(model.logged(model.accept([ALICE], 2)))
    model.logged(model.accept([BOB], 1))
    assert account.note(model.logged(model.accept([BOB], 1))) is False
    assert account.units is None
    assert compared(account, model) == {} and account.units is not None
    assert compared(account, model) == {}
    [(_, left)] = [row for key, row in model.rows.items() if key == (ALICE, 1)]
    left.remove(2)
    assert compared(account, model) == {ALICE: Difference(1, (2,))}
    account.adopt(ALICE)
    assert compared(account, model) == {}


@pytest.mark.parametrize(("number", "arrival"), [(1, 77), (1, -1), (2, 77), (2, -1), (3, 77), (0, -1)])
def test_a_loss_that_was_said_stays_different_though_missing_events_make_it_take_the_word_of_the_store(
    number: int, arrival: int
) -> None:
    model, account = Model(), Account()
    account.note(model.logged(model.accept([ALICE, BOB], 2)))
    for alarm in (NodeAlarm(UNACCOUNTED, ALICE, number, arrival), NodeAlarm(UNACCOUNTED, b"", 5)):
        account.alarms.note(alarm.fields(RAISED))
    told = {ALICE: Difference(number, (77,) if (number, arrival) == (1, 77) else ()), b"": Difference(5)}
    for _ in range(2):
        account.forget()
        assert compared(account, model) == told == compared(account, model)
    account.note(model.logged(model.accept([ALICE], 1)))
    assert compared(account, model) == told
    kept = account.copy(9)
    again = Account(kept.next_seq, kept.units)
    assert compared(again, model) == told, "also after a restart"
    for recipient in told:
        again.adopt(recipient)
    assert compared(again, model) == {}


def test_what_was_there_twice_stays_different_as_far_as_the_store_has_anything_for_that_recipient() -> None:
    model, account = Model(), Account()
    model.logged(model.accept([ALICE], 2))
    account.forget()
    for recipient, number in ((ALICE, 3), (BOB, 1), (b"", 1)):
        account.alarms.note(NodeAlarm(REPEATED, recipient, number).fields(RAISED))
    account.alarms.note(NodeAlarm(UNACCOUNTED, b"", 4).fields(RAISED))
    assert compared(account, model) == {ALICE: Difference(-2), b"": Difference(4)}, "the loss counts"
    account.forget()
    account.alarms.note(NodeAlarm(REPEATED, ALICE, 1, 2).fields(RAISED))
    assert compared(account, model)[ALICE] == Difference(-1, (2,))


def test_events_that_come_again_change_nothing_and_units_of_many_are_not_kept() -> None:
    model, account = Model(), Account()
    logged = model.logged(model.accept([ALICE, BOB], 2))
    account.note(logged)
    account.note(logged)
    assert compared(account, model) == {}
    assert account.copy(2).units == {ALICE: measure([(1, 2)]), BOB: measure([(1, 2)])}
    assert account.copy(1) == (3, None, ())
    assert account.copy(2).next_seq == 3
