"""Groups in which something is published at a node and that nobody reads there: they are wanted for a while."""

from __future__ import annotations

import msgspec
import pytest
from rigs.pubsub_sides import NOW, Side, Sides

from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, seal_multicast
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core import fan_out
from services.pubsub.core.comparison.begun import KEPT
from services.pubsub.core.comparison.plan import Plan, Plans
from services.pubsub.core.fan_out import FanOut
from services.pubsub.core.messages import Compare, decode_message
from services.pubsub.settings import Settings

KEYS = [SigningKey(bytes((13, number)) * 16) for number in range(4)]
GROUP = KEYS[0].public
FANOUT_S = Settings().fanout_s
TERMS = o.FanOut(fan_out.GROUPS_MAX, fan_out.GROUPS_OF_ONE_MAX, fan_out.GROUPS_OF_CLIENTS_MAX)


def published(side: Side, key: SigningKey = KEYS[0], body: bytes = b"x", ttl_s: int = 600) -> list[c.Deed]:
    """Bring a message that an app publishes here; return the answers."""
    wire = seal_multicast(key, body, ttl_s=ttl_s, expiry_min=expiry_min(NOW.wall_s + side.seconds + 900))
    return side.hear(c.Message(message_id(wire), body, group=key.public, wire=wire))


def copies(side: Side) -> list[c.Forward]:
    return [one for one in side.take(c.Forward) if isinstance(one, c.Forward)]


def test_service_asks_for_such_messages_on_a_core_alone() -> None:
    assert Side(1).take(o.FanOut) == [TERMS] and Side(2, mode="leaf").take(o.FanOut) == []


def test_message_of_a_group_that_nobody_reads_here_is_kept_until_a_reader_elsewhere_has_it() -> None:
    one, two = Side(1), Side(2)
    found = Sides(one, two)
    found.link(one, two)
    found.pass_time(10)
    published(one)
    assert one.take(o.TakePart) == [o.TakePart(GROUP, "ids")] and copies(one) == []
    found.pass_time(3 * FANOUT_S)
    assert GROUP in one.rules.known.topics, "though nothing has been published for long: nobody has taken it"
    two.hear(o.Wanted(GROUP, True))
    found.pass_time(60)
    [pull] = one.take(c.Pull)
    wire = seal_multicast(KEYS[0], b"x", ttl_s=600, expiry_min=expiry_min(NOW.wall_s + 10 + 900))
    one.hear(c.Pulled(GROUP, pull.id, wire))
    [copy] = copies(one)
    assert copy.via == two.router.public
    one.hear(c.HopOutcome(f"copy {copy.via.hex()}", pull.id, copy.via, "acked"))
    found.pass_time(2 * fan_out.AGAIN_S)
    assert GROUP not in one.rules.known.topics and one.take(o.TakePart)[-1] == o.TakePart(GROUP, "none")
    assert not one.rules.known.shared_with(two.router.public) or GROUP not in one.rules.known.topics


def test_group_is_left_when_nothing_was_published_for_a_while_and_nothing_waits() -> None:
    one, two = Side(1), Side(2, [GROUP])
    found = Sides(one, two)
    found.link(one, two)
    found.pass_time(10)
    for at in range(3):
        published(one, body=b"%d" % at)
        found.pass_time(FANOUT_S - 10)
        for copy in copies(one):
            one.hear(c.HopOutcome(f"copy {copy.via.hex()}", _id_of(copy), copy.via, "acked"))
        for pull in one.take(c.Pull):
            one.hear(c.Pulled(GROUP, pull.id, None))
        assert GROUP in one.rules.known.topics
    found.pass_time(60)
    assert GROUP not in one.rules.known.topics


def test_reader_here_takes_over_and_its_end_does_not_end_what_waits() -> None:
    one = Side(1)
    published(one)
    one.take(o.TakePart)
    one.hear(o.Wanted(GROUP, True))
    assert one.take(o.TakePart) == [o.TakePart(GROUP, "ids")]
    one.hear(o.Wanted(GROUP, False))
    assert one.take(o.AckWanted) == [o.AckWanted(GROUP, False)] and GROUP in one.rules.known.topics
    one.start()
    assert GROUP in one.rules.known.topics, "also after a restart"
    Sides(one).pass_time(1200)
    assert GROUP not in one.rules.known.topics, "it has expired"
    assert [note.event for note in one.take(c.LogEvent)][:1] == ["pubsub_given_up"]


def test_groups_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "GROUPS_TAKEN_MAX", 2)
    one = Side(1)
    for key in KEYS:
        published(one, key)
    refused = one.take(c.Refuse)
    assert [deed.reason for deed in refused] == [Reason.NO_SUBSCRIBERS] * 2 and len(one.rules.known.topics) == 2
    published(one, KEYS[1])
    assert not one.take(c.Refuse), "others go on"
    now_or_never = Side(2)
    published(now_or_never, ttl_s=0)
    assert [deed.reason for deed in now_or_never.take(c.Refuse)] == [Reason.NO_SUBSCRIBERS]


def test_router_is_told_which_groups_are_full_until_a_tenth_has_been_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "WAITING_OF_GROUP_MAX", 10)
    monkeypatch.setattr(fan_out, "WAITING_MAX", 20)
    one, two = Side(1), Side(2)
    found = Sides(one, two)
    found.link(one, two)
    one.take(o.FanOut)
    for at in range(9):
        published(one, body=b"%d" % at)
    assert one.take(o.FanOut) == []
    for at in range(9, 12):
        published(one, body=b"%d" % at)
    assert one.take(o.FanOut) == [msgspec.structs.replace(TERMS, full=(GROUP,))]
    assert not one.take(c.Refuse), "what the router took before it heard is kept"
    for at in range(8):
        published(one, KEYS[1], body=b"%d" % at)
    assert one.take(o.FanOut)[-1] == msgspec.structs.replace(TERMS, full=(GROUP,), is_full=True)
    one.start()
    assert one.take(o.FanOut)[-1] == msgspec.structs.replace(TERMS, full=(GROUP,), is_full=True), "also after a restart"
    one.hear(o.Wanted(GROUP, True))
    assert one.take(o.FanOut) == [TERMS], "it is read here"


def test_nothing_is_fetched_of_a_group_that_nobody_reads_here_until_somebody_does() -> None:
    one, two = Side(1), Side(2, [GROUP])
    found = Sides(one, two)
    found.link(one, two)
    found.pass_time(10)
    published(one)
    found.pass_time(30)
    asked = [decode_message(sent.body) for side, sent in found.sent if side is one]
    assert one.neighbours(GROUP) == {two.router.public} and not [said for said in asked if isinstance(said, Compare)]
    one.hear(o.Wanted(GROUP, True))
    assert GROUP not in one.rules.known.unread


def test_plan_of_a_group_is_put_off_until_it_is_read() -> None:
    unread = {GROUP}
    plans = Plans(unread)
    plans[GROUP] = Plan(0.0, 300.0)
    assert [*plans.take_due(1.0, 4)] == []
    assert not plans.is_read(GROUP, 2.0) and [*plans.take_due(2.0, 4)] == []
    unread.clear()
    assert plans.is_read(GROUP, 2.0)
    assert [group for group, _ in plans.take_due(2.0, 4)] == [GROUP]


def test_messages_that_wait_are_kept_when_the_last_reader_leaves() -> None:
    one = Side(1, [GROUP])
    published(one)
    one.hear(o.Wanted(GROUP, False))
    assert one.take(o.AckWanted)[-1] == o.AckWanted(GROUP, False)
    assert GROUP in one.rules.known.topics and GROUP in one.rules.known.unread
    Sides(one).pass_time(1200)
    assert GROUP not in one.rules.known.topics, "it has expired"
    assert [note.event for note in one.take(c.LogEvent)][:1] == ["pubsub_given_up"]


def test_messages_that_end_with_their_group_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "GROUPS_TAKEN_MAX", 0)
    one = Side(1, [GROUP])
    published(one)
    one.hear(o.Wanted(GROUP, False))
    assert GROUP not in one.rules.known.topics
    assert [(note.event, note.reason) for note in one.take(c.LogEvent)] == [("pubsub_given_up", Reason.LEFT)]


def test_copy_of_another_router_makes_no_group_wanted_that_was_left_a_moment_ago() -> None:
    one, two = Side(1, [GROUP]), Side(2, [GROUP])
    found = Sides(one, two)
    found.link(one, two)
    found.pass_time(10)
    one.hear(o.Wanted(GROUP, False))
    wire = seal_multicast(KEYS[0], b"x", ttl_s=600, expiry_min=expiry_min(NOW.wall_s + 900))
    copy = c.Message(message_id(wire), b"x", group=GROUP, wire=wire, via=two.router.public)
    assert [deed.reason for deed in one.hear(copy) if isinstance(deed, c.Refuse)] == [Reason.NO_SUBSCRIBERS]
    assert GROUP not in one.rules.known.topics


def test_ids_that_are_told_after_the_group_was_left_make_it_wanted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = o.Published(GROUP, bytes(32), ((expiry_min(NOW.wall_s + 900), 1),))
    one = Side(1, [GROUP])
    one.hear(o.Wanted(GROUP, False))
    one.hear(told)
    assert one.rules.known.unread == {GROUP} and one.rules._dissemination.groups_untaken() == [GROUP]
    monkeypatch.setattr(fan_out, "GROUPS_TAKEN_MAX", 0)
    other = Side(2)
    assert not [deed for deed in other.hear(told) if isinstance(deed, c.Refuse)], "there is no message to refuse"
    Sides(other).pass_time(90)
    [note] = other.take(c.LogEvent)
    assert (note.event, note.fields) == ("pubsub_given_up", {"times": 1})


def test_restart_does_not_begin_anew_what_is_read_here_and_has_messages_that_wait() -> None:
    one = Side(1, [GROUP])
    published(one)
    since = dict(one.kept)[KEPT + GROUP]
    one.wanted, one.seconds = (), 50
    one.start()
    one.hear(c.Tick())
    one.hear(o.Wanted(GROUP, True))
    assert one.kept[KEPT + GROUP] == since, "what was missed in the meantime is news"
    one.hear(o.Wanted(GROUP, False))
    assert KEPT + GROUP not in one.kept
    one.hear(o.Wanted(GROUP, True))
    assert one.kept[KEPT + GROUP] != since


def test_group_that_nobody_reads_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "TAKEN_MAX", 3)
    one = Side(1, [KEYS[3].public])
    refused = [[d for d in published(one, body=b"%d" % at) if isinstance(d, c.Refuse)] for at in range(5)]
    assert [len(some) for some in refused] == [0, 0, 0, 1, 1] and refused[3][0].reason is Reason.NO_SUBSCRIBERS
    one.hear(o.Published(GROUP, bytes(64), ((expiry_min(NOW.wall_s + 900), 2),)))
    assert one.rules._dissemination.forwarding.untaken == 3
    for at in range(4):
        published(one, KEYS[3], b"%d" % at)
    assert len(one.take(c.Refuse)) == 2 and one.rules._dissemination.forwarding.untaken == 3 + 4


def test_group_that_is_published_to_without_end_keeps_what_came_first_and_grows_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fan_out, "TAKEN_MAX", 5)
    one = Side(1)
    for at in range(5):
        published(one, body=b"%d" % at)
    rows = dict(one.kept)
    answers = [published(one, body=b"%d" % at) for at in range(5, 200)]
    assert all([type(deed) for deed in deeds] == [c.Refuse] for deeds in answers), "the reason, and nothing else"
    assert one.kept == rows and one.rules._dissemination.forwarding.untaken == 5


def test_next_look_is_planned_once_and_not_with_each_event() -> None:
    one = FanOut(120.0, lambda group: 0)
    assert one.published(GROUP, 0.0) and not one.published(GROUP, 1.0)
    assert len(one.hear(o.Linked(GROUP), c.Now(0.0, 1.0))) == 1 and one.hear(o.Linked(GROUP), c.Now(0.0, 1.0)) == []
    assert one.hear(c.Tick(), c.Now(100.0, 120.5)) == [c.Wake(100.5)] and one.take_over() == []
    assert one.hear(c.Tick(), c.Now(101.0, 121.0)) == [] and one.take_over() == [GROUP]


def _id_of(copy: c.Forward) -> MessageId:
    return message_id(copy.wire)
