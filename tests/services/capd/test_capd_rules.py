"""A CAPD pool's rules: what is kept before an answer, which matches are sent to whom, and what survives a crash."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.capd import BORN, posted
from samples.capd_host import ASKERS, Host

from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd import reasons
from services.capd.core import messages as m
from services.capd.core import rows, searches
from services.capd.core.limits import Standing
from services.capd.core.lives import Life
from services.capd.core.message import CapdMessage, rescind_hash_of
from services.capd.core.nexa.limits import QUERY_UNITS
from services.capd.core.pattern import Pattern
from services.capd.core.watches import WATCHES_OF_ONE_MAX
from services.capd.metrics import families
from services.capd.settings import Settings

OFFER = posted(b"TKD\x0coffer of something", 4.0)
TKD = Pattern.prefix(b"TKD\x0c")
ALL = Pattern.prefix(b"")
SECRET = b"s" * 32


def post(host: Host, message: CapdMessage) -> m.PostAnswer:
    found = host.ask(m.Post(7, message.encoded()))
    assert isinstance(found, m.PostAnswer) and found.n == 7
    return found


def query(host: Host, pattern: Pattern = ALL, start: int = 0, limit: int = 100) -> list[tuple[Standing, bytes]]:
    return list(host.ask(m.Query(1, pattern, False, start, limit)).messages)


def test_post_is_kept_and_logged_before_it_is_answered() -> None:
    host = Host()
    deeds = host.say(m.encode_message(m.Post(1, OFFER.encoded())))
    assert [type(one).__name__ for one in deeds] == ["Put", "Put", "Send", "LogEvent"], "in one transaction"
    [note] = host.events("capd_accepted")
    assert note.message == OFFER.own_id()[::-1] and note.fields["raw"] == OFFER.own_id().hex()
    assert note.fields["relay_until"] == BORN + 300 and note.fields["by"] == ASKERS[0].hex()


def test_crash_loses_no_message_and_nothing_decided_about_one() -> None:
    host = Host()
    rescindable = posted(b"TKD\x0cof another", secret_hash=rescind_hash_of(SECRET))
    for message in (OFFER, rescindable, posted(b"something else")):
        assert post(host, message) == m.PostAnswer(7, 0, message.own_id())
    assert host.ask(m.Rescind(2, SECRET)) == m.Rescinded(2, (rescindable.own_id(),))
    info = host.ask(m.Info(3))
    host.crash()
    assert host.ask(m.Info(3)) == info and info.count == 3
    assert query(host, TKD) == [(Standing.RELAYED, OFFER.encoded())]
    assert host.ask(m.Get(4, rescindable.own_id())).messages == ((Standing.RESCINDED, rescindable.encoded()),)
    assert host.ask(m.Rescind(2, SECRET)) == m.Rescinded(2, ()), "it ends once"
    assert [one.reason for one in host.events("capd_rescinded")] == [reasons.RESCINDED]
    assert post(host, OFFER) == m.PostAnswer(7, 0, OFFER.own_id(), held=Standing.RELAYED)
    assert post(host, rescindable).held is Standing.RESCINDED and len(host.events("capd_accepted")) == 3


def test_pool_says_that_it_holds_no_message_of_a_secret_but_not_of_one_that_has_rescinded() -> None:
    host, unknown = Host(), m.Done(1, int(reasons.NO_SUCH_SECRET))
    rescindable = posted(b"TKD\x0cof another", secret_hash=rescind_hash_of(SECRET))
    assert host.ask(m.Rescind(1, SECRET)) == unknown
    post(host, rescindable)
    assert host.ask(m.Rescind(1, b"no secret at all")) == unknown
    for ids in ((rescindable.own_id(),), (), ()):
        assert host.ask(m.Rescind(1, SECRET)) == m.Rescinded(1, ids)
        host.crash()


def test_ends_of_messages_have_an_event_each() -> None:
    host = Host(Settings(pool_bytes=4096))
    short = posted(b"short", 2.5, expiration=20)
    post(host, short)
    for number in range(30):
        post(host, posted(b"%d" % number, 3.0 + number / 10))
    host.pass_time(20)
    [note] = host.events("capd_expired")
    assert (note.message, note.reason) == (short.own_id()[::-1], reasons.EXPIRED)
    assert query(host, Pattern.prefix(b"short")) == []
    now_s = int(host.now.wall_s)
    for number in range(2):
        post(host, posted(b"new %d" % number, 90.0, now_s))
    [note] = host.events("capd_evicted")
    assert note.reason == reasons.DISPLACED and note.message == posted(b"0", 3.0).own_id()[::-1]
    kept = [key for key in host.kept if key.startswith(rows.MESSAGE)]
    assert len(kept) == host.ask(m.Info(1)).count == 31


def test_message_ends_once_even_across_a_crash() -> None:
    host = Host()
    short, long = (posted(b"short %d" % s, 2.5, expiration=s, secret_hash=rescind_hash_of(SECRET)) for s in (20, 40))
    for message in (short, long):
        post(host, message)
    host.pass_time(20)
    host.crash()
    host.pass_time(1)
    assert [one.message for one in host.events("capd_expired")] == [short.own_id()[::-1]], "it is told of once"
    assert host.ask(m.Rescind(1, SECRET)) == m.Rescinded(1, (long.own_id(),)), "the other has ended before"
    host.crash()
    host.pass_time(100)
    assert len(host.events("capd_expired")) == 1 == len(host.events("capd_rescinded"))
    states = [host.ask(m.Get(1, one.own_id())).messages[0][0] for one in (short, long)]
    assert states == [Standing.EXPIRED, Standing.RESCINDED]


def test_message_displaced_after_its_expiration_is_logged_as_expired() -> None:
    host = Host(Settings(pool_bytes=4096))
    short = posted(b"short", 1.5, expiration=20)
    post(host, short)
    host.now = c.Now(BORN + 30.0, 1030.0)
    for number in range(40):
        post(host, posted(b"%d" % number, 9.0, BORN + 30))
    [note] = [one for one in host.events("capd_evicted") if one.message == short.own_id()[::-1]]
    assert note.reason == reasons.EXPIRED


def test_pool_goes_on_after_the_clock_has_jumped() -> None:
    host = Host(Settings(pool_bytes=8192))
    held = [posted(b"%d" % number, 3.0 + number) for number in range(55)]
    for message in held:
        post(host, message)
    host.pass_time(86_400)
    assert [one for one, _ in query(host)] == [Standing.FADED] * 55
    assert host.ask(m.Info(1)).least == 1.0, "nothing of the old stands in the way"
    later = posted(b"later", 2.5, BORN + 86_400)
    assert post(host, later).result == 0
    host.now = c.Now(BORN - 3_600.0, host.now.mono_s + 1)
    host.hear(c.Tick())
    found = host.ask(m.Post(1, posted(b"of today", 2.5, BORN).encoded()))
    assert found.result == reasons.FUTURE and found.text == (
        "The message says that it is from the future: set the clock, or date it back a few seconds (by 3600 s)."
    )
    assert post(host, posted(b"by the clock set back", 2.5, BORN - 3_600)).result == 0
    assert post(host, later).result == 0, "it is known"
    assert len(query(host)) == 57 == host.ask(m.Info(1)).count
    host.crash()
    assert len(query(host)) == 57


def test_events_show_the_audit_each_message_owed_and_its_end() -> None:
    host = Host(Settings(pool_bytes=4096))
    for number in range(32):
        post(host, posted(b"%d" % number, 3.0, expiration=20 + number, secret_hash=rescind_hash_of(b"%d" % number)))
    host.ask(m.Rescind(1, b"7"))
    host.pass_time(24)
    for number in range(6):
        post(host, posted(b"new %d" % number, 9.0, BORN + 24))
    open_ones: set[int] = set()
    for note in host.notes:
        numbers = [int(one) for one in note.each.get("number", ())]
        if note.fields.get("handover") == "owed":
            assert note.fields["recipients"] == "pool" and open_ones.isdisjoint(numbers)
            open_ones |= set(numbers)
        elif note.fields.get("handover") == "ended":
            assert note.reason is not None and open_ones.issuperset(numbers), "each ends once"
            open_ones -= set(numbers)
    ends = [note.reason for note in host.notes if note.fields.get("handover") == "ended"]
    assert {reasons.RESCINDED, reasons.EXPIRED, reasons.DISPLACED} == set(ends)
    served = [
        key for key in host.kept if key.startswith(rows.MESSAGE) and rows.read_kept(host.kept[key]).life is Life.HELD
    ]
    assert open_ones == {rows.number_of(key) for key in served} != set()


def test_rejections_have_a_reason_and_are_logged_once_a_second() -> None:
    host = Host()
    cases = [
        (OFFER.encoded()[:-1], reasons.MALFORMED),
        (replace(OFFER, nonce=b"").encoded(), reasons.BAD_WORK),
        (posted(b"tomorrow", 3.0, BORN + 1).encoded(), reasons.FUTURE),
        (posted(b"yesterday", 3.0, BORN - 500).encoded(), reasons.BELOW_LINE),
    ]
    for wire, reason in cases * 3:
        found = host.ask(m.Post(1, wire))
        assert found.result == reason and found.text.startswith(reason.sentence.rstrip(".")[:40])
    assert [one.reason for one in host.events("capd_turned_away")] == [reason for _, reason in cases]
    host.pass_time(11)
    assert {one.reason: one.fields for one in host.events("capd_refused")} == {
        reason: {"router": ASKERS[0].hex(), "times": 3} for _, reason in cases
    }
    assert host.ask(m.Info(1)).count == 0


def test_standing_query_gets_each_match_once_even_after_a_crash() -> None:
    host = Host(Settings(pool_bytes=4096))
    before = posted(b"TKD\x0cbefore")
    post(host, before)
    for asker in ASKERS[:2]:
        assert host.ask(m.Watch(1, TKD, 1000), asker) == m.Done(1)
        assert host.ask(m.Watch(2, Pattern.prefix(b"TK"), 1000), asker) == m.Done(2)
    host.crash()
    post(host, OFFER)
    assert sorted(host.matches) == sorted((asker, OFFER.encoded(), 600) for asker in ASKERS[:2]), "one to each"
    host.pass_time(1)
    for number in range(40):
        post(host, posted(b"strong %d" % number, 9.0, BORN + 1))
    assert host.ask(m.Get(1, OFFER.own_id())).count == 0, "it was displaced"
    host.crash()
    host.pass_time(1)
    host.settings = replace(host.settings, pool_bytes=1 << 20)
    host.crash()
    assert post(host, OFFER).result == 0 and host.ask(m.Get(1, OFFER.own_id())).count == 1
    assert len(host.matches) == 2, "nobody is told again"
    host.pass_time(600)
    assert not [key for key in host.kept if key.startswith(rows.TOLD)]


def test_standing_queries_end() -> None:
    host = Host()
    host.ask(m.Watch(1, TKD, 10))
    host.ask(m.Watch(1, TKD, 20), ASKERS[1])
    host.ask(m.Watch(1, ALL, 1000), ASKERS[2])
    assert host.ask(m.Unwatch(2, ALL), ASKERS[2]) == m.Done(2)
    assert host.ask(m.Unwatch(2, ALL), ASKERS[2]) == m.Done(2, int(reasons.NO_SUCH_QUERY))
    host.pass_time(10)
    post(host, OFFER)
    assert [asker for asker, _, _ in host.matches] == [ASKERS[1]]
    host.pass_time(10)
    assert not [key for key in host.kept if key.startswith(rows.WATCH)]


def test_standing_queries_of_one_address_are_limited() -> None:
    host = Host()
    for number in range(WATCHES_OF_ONE_MAX):
        assert host.ask(m.Watch(1, Pattern.prefix(number.to_bytes(2)), 99)).result == 0
    found = host.ask(m.Watch(1, TKD, 99))
    assert found.result == reasons.TOO_MANY_QUERIES and "at most 256" in found.text
    assert host.ask(m.Watch(1, Pattern.prefix(b"\0\0"), 99)).result == 0, "that one is there already"
    assert host.ask(m.Watch(1, TKD, 99), ASKERS[1]).result == 0


def test_queries_are_answered_in_pages() -> None:
    host = Host()
    messages = [posted(b"m%d" % number) for number in range(5)]
    for message in messages:
        post(host, message)
    found = host.ask(m.Query(1, Pattern.prefix(b"m"), True, 1, 2))
    assert found == m.FoundIds(1, 5, tuple(one.own_id() for one in messages[3:1:-1]))
    assert query(host, start=3, limit=9) == [(Standing.RELAYED, one.encoded()) for one in messages[1::-1]]
    assert query(host, start=5) == [] == query(host, start=(1 << 32) - 1)
    for number in range(5):
        assert post(host, posted(bytes([number]) * 60_000, 1.01)).result == 0
    assert len(query(host)) == 4, "a page has 256 KiB"


@pytest.mark.parametrize(
    ("body", "reason"),
    (
        (b"\x82\x18\x63\xa0", Reason.UNSUPPORTED),
        (b"\x82\x01\xa0", Reason.MALFORMED),
        (b"", Reason.MALFORMED),
        (m.encode_message(m.Done(1)), Reason.UNSUPPORTED),
        (m.encode_message(m.Match(Standing.LOCAL, b"")), Reason.UNSUPPORTED),
    ),
)
def test_pool_refuses_a_body_that_is_no_request(body: bytes, reason: Reason) -> None:
    [refused] = Host().say(body)
    assert isinstance(refused, c.Refuse) and refused.reason is reason


def test_restore_rejects_a_store_of_another_version_or_damaged() -> None:
    for key, value, said in (
        (rows.STATE, b"\x82\x01\x00", "version 1 of the CAPD pool's store, and this program knows version 2"),
        (rows.message_key(1), b"\x83", "the row of a message cannot be read"),
        (rows.MESSAGE, b"", "the key of a message has 2 bytes"),
        (rows.WATCH + bytes(70), b"\x01", "the key of a standing query cannot be read"),
    ):
        host = Host()
        host.kept[key] = value
        if key == rows.MESSAGE:
            host.kept[key] = rows.encode_kept(rows.Kept(bytes(32), Life.HELD, OFFER))
        with pytest.raises(rows.BadRow, match=said):
            host.crash()


@settings(max_examples=settings().max_examples, deadline=None)
@given(st.data())
def test_bad_row_names_a_remedy(data: st.DataObject) -> None:
    kept = dict(kept_by_a_pool())
    key = data.draw(st.sampled_from(sorted(kept)))
    value = kept.pop(key)
    if data.draw(st.booleans()):
        key = key[: data.draw(st.integers(2, len(key)))]
    elif data.draw(st.booleans()):
        value = data.draw(st.binary(max_size=80))
    else:
        value = value[: data.draw(st.integers(0, len(value)))]
    host = Host()
    host.kept = {**kept, key: value}
    try:
        host.crash()
        host.pass_time(1)
    except rows.BadRow as error:
        assert "put a backup" in str(error) or "another name" in str(error)


@cache
def kept_by_a_pool() -> dict[bytes, bytes]:
    """Return the rows of a pool, some of each kind."""
    host = Host()
    host.ask(m.Watch(1, ALL, 600))
    for message in (OFFER, posted(b"rescindable", secret_hash=rescind_hash_of(SECRET))):
        post(host, message)
    host.ask(m.Rescind(1, SECRET))
    assert {key[:2] for key in host.kept} == {rows.STATE[:2], rows.MESSAGE, rows.WATCH, rows.TOLD, rows.SECRET}
    return host.kept


def test_pool_answers_the_question_for_its_address_and_no_unknown_one() -> None:
    host = Host()
    assert host.hear(c.Asked(1, "address")) == [
        c.Answer(1, {"address": host.rules._key.hex(), "data_bytes_max": 64 << 10})
    ]
    [answer] = host.hear(c.Asked(2, "nonsense"))
    assert isinstance(answer, c.Answer) and "has no answer to nonsense" in answer.value["error"]


def test_ends_of_many_messages_at_once_are_few_events() -> None:
    """The log takes 200 events a second from one service: ending all messages of a pool at once must not stop it."""
    host = Host()
    for number in range(70):
        post(host, posted(b"%d" % number, expiration=20))
        post(host, posted(b"rescindable %d" % number, secret_hash=rescind_hash_of(SECRET)))
    host.ask(m.Rescind(1, SECRET))
    host.pass_time(20)
    for event in ("capd_expired", "capd_rescinded"):
        assert [len(note.messages) for note in host.events(event)] == [64, 6]


def test_search_beyond_the_allowance_is_refused_until_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "UNITS_BURST", 3.0 * QUERY_UNITS)
    monkeypatch.setattr(searches, "UNITS_PER_S", 1.0 * QUERY_UNITS)
    host, search = Host(), m.encode_message(m.Query(1, ALL))
    for _ in range(3):
        assert isinstance(host.say(search)[0], c.Send)
    [refused] = host.say(search)
    assert isinstance(refused, c.Refuse) and refused.reason is reasons.TOO_FAST and refused.reason.later
    assert isinstance(host.say(search, ASKERS[1])[0], c.Send), "others are answered"
    assert post(host, posted(b"TKD", 3.0)).result == 0, "what pays by its work is taken"
    host.pass_time(1)
    assert isinstance(host.say(search)[0], c.Send)


def test_searches_of_one_asker_do_not_delay_others() -> None:
    host, much, little = Host(), ASKERS[0], ASKERS[1]
    many = 3 * searches.TURN_UNITS // QUERY_UNITS
    said = [
        c.Message(MessageId(bytes(31) + bytes([n])), m.encode_message(m.Query(n, ALL)), source=much)
        for n in range(many)
    ]
    sent = [one for heard in said for one in host.rules.hear(heard, host.now)]
    assert len(sent) == many // 3 and host.rules._answers.is_held_up
    one = c.Message(MessageId(b"l" * 32), m.encode_message(m.Query(7, ALL)), source=little)
    assert host.rules.hear(one, host.now) == []
    turns = [[one.to for one in host.rules.settled(host.now) if isinstance(one, c.Send)] for _ in range(3)]
    assert little in turns[0][:2] and [len(turn) for turn in turns] == [many // 3, many // 3, 1]
    assert not host.rules._answers.is_held_up


def test_waiting_searches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "WAITING_OF_ONE_MAX", 3)
    host = Host()
    body = m.encode_message(m.Query(1, ALL))
    many = searches.TURN_UNITS // QUERY_UNITS + 4
    said = [c.Message(MessageId(bytes(31) + bytes([n])), body, source=ASKERS[0]) for n in range(many)]
    kinds = [type(one).__name__ for heard in said for one in host.rules.hear(heard, host.now)]
    assert kinds == ["Send"] * (many - 4) + ["Refuse"], "three wait, and one comes again later"


def test_posts_of_one_cycle_share_an_event_that_stands_before_their_ends() -> None:
    host = Host()
    first, second, third = (
        posted(b"m%d" % number, secret_hash=rescind_hash_of(b"s%d" % number)) for number in range(3)
    )

    def said(number: int, request: m.Request) -> c.Message:
        return c.Message(MessageId(bytes([number]) * 32), m.encode_message(request), source=ASKERS[0])

    heard = [said(number, m.Post(number, one.encoded())) for number, one in enumerate((first, second), 1)]
    deeds = [deed for one in heard for deed in host.keep(host.rules.hear(one, host.now))]
    assert not [one for one in deeds if isinstance(one, c.LogEvent)]
    host.keep(host.rules.settled(host.now))
    [together] = host.events("capd_accepted")
    assert set(together.messages) == {one.own_id()[::-1] for one in (first, second)}
    for one in (said(4, m.Post(4, third.encoded())), said(5, m.Rescind(5, b"s2"))):
        host.keep(host.rules.hear(one, host.now))
    assert [one.event for one in host.notes[1:]] == ["capd_accepted", "capd_rescinded"], "before what ends it"
    host.keep(host.rules.settled(host.now))
    assert len(host.events("capd_accepted")) == 2


def test_pool_tells_its_load_and_its_metrics_name_no_key() -> None:
    host = Host()
    post(host, OFFER)
    [answer] = host.hear(c.Asked(1, "status"))
    assert isinstance(answer, c.Answer)
    status = answer.value
    assert (status["messages"], status["neighbours"], status["pools"], status["refused"]) == (1, 0, 0, {})
    assert 0 < status["bytes"] < status["bytes_max"] and set(status["lines"]) == {"relay", "local"}
    samples = {one.name: one for family in families(status) for one in family.samples}
    assert samples["router_capd_messages"].value == 1 and samples["router_capd_bytes"].value == status["bytes"]
    assert not {"address", "peer", "key"} & {label for one in samples.values() for label in one.labels}
