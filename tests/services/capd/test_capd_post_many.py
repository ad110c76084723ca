"""Messages that are posted together: each is judged as if it came alone, and all are kept in one transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from samples.capd import BORN, posted
from samples.capd_host import ASKERS, Host

from router.core.wire.codec import Malformed
from router.service import contract as c
from services.capd import reasons
from services.capd.core import messages as m
from services.capd.core import notes, searches
from services.capd.core.limits import Standing
from services.capd.core.message import CapdMessage
from services.capd.core.pattern import Pattern
from services.capd.file_commands import batches
from services.capd.settings import Settings

ALL = Pattern.prefix(b"")


def offers(amount: int, priority: float = 2.5, born: int = BORN) -> list[CapdMessage]:
    return [posted(b"TKD\x0c%d of %g" % (number, priority), priority, born) for number in range(amount)]


def request(*messages: CapdMessage | bytes, n: int = 7) -> m.PostMany:
    return m.PostMany(n, tuple(one if isinstance(one, bytes) else one.encoded() for one in messages))


def test_bad_message_among_others_stops_itself_alone_and_is_named() -> None:
    host = Host()
    known, good, last = offers(3)
    host.ask(m.Post(1, known.encoded()))
    late, weak = posted(b"tomorrow", 4.0, BORN + 1), posted(b"faded", 4.0, BORN - 590)
    unworked = CapdMessage(b"no work", BORN, good.difficulty_bits)
    answer = host.ask(request(good, b"?", known, late, weak, unworked, good, last))
    assert answer.n == 7
    assert [(one.result, one.id, one.held) for one in answer.outcomes] == [
        (0, good.own_id(), None),
        (reasons.MALFORMED, b"", None),
        (0, known.own_id(), Standing.RELAYED),
        (reasons.FUTURE, late.own_id(), None),
        (reasons.BELOW_LINE, weak.own_id(), None),
        (reasons.BAD_WORK, unworked.own_id(), None),
        (0, good.own_id(), Standing.RELAYED),
        (0, last.own_id(), None),
    ]
    assert "by 1 s" in answer.outcomes[3].text
    named = {(one.reason, one.message) for one in host.events("capd_turned_away")}
    assert (reasons.BAD_WORK, unworked.own_id()[::-1]) in named and len(named) == 4
    host.crash()
    assert set(host.ask(m.Query(1, ALL, True, 0, 9)).ids) == {one.own_id() for one in (known, good, last)}


def test_hundreds_are_kept_with_one_answer_and_an_event_for_each_64() -> None:
    host = Host()
    messages = offers(m.POST_MESSAGES_MAX)
    deeds = host.say(m.encode_message(request(*messages)))
    assert [type(one) for one in deeds if not isinstance(one, c.Put)] == [c.Send] + [c.LogEvent] * 4
    assert [len(one.messages) for one in host.events("capd_accepted")] == [notes.MESSAGES_MAX] * 4
    with pytest.raises(Malformed, match="more than 263 items"):
        m.encode_message(request(*messages, messages[0]))


def test_watcher_is_told_of_each_message_and_its_own_end_comes_behind_its_beginning() -> None:
    host = Host(Settings(pool_bytes=4096))
    host.ask(m.Watch(1, ALL, 600), ASKERS[1])
    weak, strong = offers(28, 2.5), offers(28, 4.0)
    assert not any(one.result for one in host.ask(request(*weak, *strong)).outcomes)
    assert [wire for _, wire, _ in host.matches] == [one.encoded() for one in (*weak, *strong)]
    owed = [own_id for one in host.events("capd_accepted") for own_id in one.messages]
    ended = [own_id for one in host.events("capd_evicted") for own_id in one.messages]
    assert owed == [one.own_id()[::-1] for one in (*weak, *strong)]
    held = host.ask(m.Info(1)).count
    assert len(ended) == 56 - held > 20 and set(ended) <= set(owed)
    kinds = [one.event for one in host.notes if one.event in ("capd_accepted", "capd_evicted")]
    assert kinds.index("capd_evicted") == kinds.count("capd_accepted"), (
        "what displaces comes in before what is displaced"
    )


def test_messages_that_are_not_taken_cost_units_and_those_that_are_cost_none() -> None:
    host = Host()
    paid = offers(m.POST_MESSAGES_MAX)
    for _ in range(1 + int(searches.UNITS_BURST) // m.POST_MESSAGES_MAX):  # the first time they are taken
        assert not host.ask(request(*paid)).outcomes[0].result
    deeds = host.say(m.encode_message(request(*paid)))
    [refused] = [one for one in deeds if isinstance(one, c.Refuse)]
    assert refused.reason is reasons.TOO_FAST and not [one for one in deeds if isinstance(one, c.Send)]
    assert host.ask(request(*paid), ASKERS[1]).outcomes[0].held is Standing.RELAYED, "another asker is undisturbed"
    free = Host()
    for number in range(30):
        free.rules._answers._searches._allowance(ASKERS[0])._left = 10.0 * (number + 1)
        assert free.ask(request(*(posted(b"%d %d" % (number, at)) for at in range(10)))).outcomes[9].result == 0


def test_batches_are_of_hundreds_of_a_page_of_bytes_and_end_before_damage() -> None:
    messages = offers(5)

    def damaged() -> Iterator[CapdMessage]:
        yield from messages
        raise Malformed("damaged")

    found: list[list[CapdMessage]] = []
    with pytest.raises(Malformed):
        for some in batches(damaged(), 2):
            found.append(some)
    assert found == [messages[:2], messages[2:4], messages[4:]] and [*batches([], 2)] == []
    large = [CapdMessage(bytes(size), BORN, 0) for size in (m.PAGE_BYTES, 9, 9, m.PAGE_BYTES - 80, 9, 2_000_000)]
    assert [len(some) for some in batches(large)] == [1, 3, 1, 1]
