"""What a script was told holds in the next life of the web side, too; and nothing grows without a limit."""

from __future__ import annotations

import json

import pytest
from rigs.web_sides import GROUP, WebSide, bearer, body_of, post, published, request, status_of, token_of

from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.kept_rows import STATE
from services.web.core.scripts.posts import ONCE_S

ID, LATER_ID = c.MessageId(b"i" * 32), c.MessageId(b"j" * 32)
POLL = "/groups/friends?poll&since=10m"


class FullDisk(dict[bytes, bytes]):
    """What a web side keeps on a disk without room for more."""

    has_room = False


def came(id: c.MessageId, body: bytes) -> c.Message:
    return c.Message(id, body, group=c.PublicKey(bytes.fromhex(GROUP)))


def test_message_of_an_earlier_life_is_not_taken_for_one_of_this_life() -> None:
    side = WebSide()
    token = token_of(side)
    side.say(side.open(), post(token, b"earlier"))
    (before,) = published(side)
    later = WebSide(side.kept)
    peer = later.open()
    later.say(peer, post(token, b"later"))
    (after,) = published(later)
    later.hear(c.Sent(before.tag, ID))
    assert peer not in later.written, "the other message is not in custody yet"
    assert c.LogEvent("web_published", ID, fields={"token": "script"}) in later.done
    later.hear(c.Sent(after.tag, LATER_ID))
    assert LATER_ID.hex().encode() in later.written[peer] and ID.hex().encode() not in later.written[peer]
    assert [key for key in later.kept if key.startswith(b"post/")] == []
    first = json.loads(body_of(later.ask(request(POLL, bearer(token)))).splitlines()[0])
    assert first["event"] == "gap", "what the earlier message said is not known"


@pytest.mark.parametrize("refused", [None, Reason.NOT_AUTHORISED])
def test_key_of_a_message_that_ended_while_nobody_asked_is_answered_with_its_end(refused: Reason | None) -> None:
    side = WebSide()
    once = post(token_of(side), b"once", "Idempotency-Key: k1")
    side.say(side.open(), once)
    (deed,) = published(side)
    later = WebSide(side.kept)
    later.hear(c.Sent(deed.tag, ID, refused))
    answer = later.ask(once)
    if refused is None:
        assert status_of(answer) == 201 and ID.hex().encode() in answer and not published(later)
    else:
        assert len(published(later)) == 1, "a message that was refused is not on its way"


def test_each_who_waits_for_the_same_message_waits_its_time() -> None:
    side = WebSide()
    once = post(token_of(side), b"once", "Idempotency-Key: k1")
    first = side.open()
    side.say(first, once)
    side.tick(20)
    second = side.open()
    side.say(second, once)
    side.tick(11)
    assert status_of(side.written[first]) == 202 and second not in side.written
    side.tick(20)
    assert status_of(side.written[second]) == 202


def test_message_for_which_the_disk_has_no_room_is_refused_and_not_begun() -> None:
    side = WebSide()
    token = token_of(side)
    once = post(token, b"once", "Idempotency-Key: k1")
    side.say(side.open(), once)
    side.hear(c.Sent(published(side)[0].tag, ID))
    full = WebSide(FullDisk(side.kept))
    for headers in ((), ("Idempotency-Key: k2",)):
        answer = full.ask(post(token, b"more", *headers))
        assert status_of(answer) == 503 and b"X-Reason: disk-full" in answer and b"Retry-After: 60" in answer
    assert status_of(full.ask(once)) == 201, "what is in custody is still said to be"
    assert not published(full)


@pytest.mark.parametrize(("name", "most"), [("OPEN_BYTES_MAX", 30), ("OPEN_MAX", 1)])
def test_messages_that_wait_for_the_router_are_bounded(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"services.web.core.scripts.posts.{name}", most)
    side = WebSide()
    token = token_of(side)
    assert side.ask(post(token, b"x" * 20)) == b""
    answer = side.ask(post(token, b"x" * 20))
    assert status_of(answer) == 503 and b"X-Reason: posts-full" in answer
    side.hear(c.Sent(published(side)[0].tag, ID))
    assert side.ask(post(token, b"x" * 20)) == b""


def test_token_that_is_ended_ends_its_readers_though_another_reads_the_group() -> None:
    side = WebSide()
    ended, other = token_of(side, name="ended"), token_of(side, name="other")
    peers = [side.open(), side.open()]
    for peer, token in zip(peers, (ended, other), strict=True):
        side.say(peer, request("/groups/friends", bearer(token)))
    side.operator("end", "ended")
    side.hear(came(ID, b"secret"))
    assert b"secret" not in side.written[peers[0]] and side.written[peers[0]].endswith(b"0\r\n\r\n")
    assert b"secret" in side.written[peers[1]] and c.Leave(GROUP) not in side.done


def test_reader_that_asks_on_when_its_token_ends_is_answered_though_others_have_gone() -> None:
    side = WebSide()
    ended, other = token_of(side, name="ended"), token_of(side, name="other")
    asks, gone = side.open(), side.open()
    for peer in (asks, gone):
        side.say(peer, request("/groups/friends", bearer(ended)))
    side.say(asks, request("/groups/friends", bearer(other)))
    side.say(gone, b"")
    assert side.operator("end", "ended") == {"ended": "ended"}
    side.hear(came(ID, b"for the other"))
    assert b"for the other" in side.written[asks] and b"for the other" not in side.written[gone]


def test_token_that_is_ended_ends_its_questions_about_messages() -> None:
    side = WebSide()
    ended, other = token_of(side, name="ended"), token_of(side, name="other")
    peers = [side.open(), side.open()]
    for peer, token in zip(peers, (ended, other), strict=True):
        side.say(peer, request(f"/messages/{ID.hex()}?wait=60", bearer(token)))
    side.operator("end", "ended")
    assert status_of(side.written[peers[0]]) == 401 and b'"ended" was ended' in side.written[peers[0]]
    assert peers[1] not in side.written


def test_key_stands_for_its_message_while_that_is_on_its_way() -> None:
    side = WebSide()
    once = post(token_of(side), b"once", "Idempotency-Key: k1")
    side.say(side.open(), once)
    (deed,) = published(side)
    side.tick(ONCE_S + 1)
    peer = side.open()
    side.say(peer, once)
    assert len(published(side)) == 1 and peer not in side.written
    side.hear(c.Sent(deed.tag, ID))
    assert status_of(side.written[peer]) == 201
    side.tick(1)
    side.say(side.open(), once)
    assert len(published(side)) == 2, "a day is over"


def test_token_that_is_over_is_forgotten_and_its_group_left_whenever_that_is_seen() -> None:
    side = WebSide()
    token_of(side, name="short", until_s=1_800_000_000 + 1060)
    later = WebSide(dict(side.kept), at_s=5000.0)
    assert c.Leave(GROUP) in later.done and c.Join(GROUP) not in later.done and [*later.kept] == [STATE]
    side.at_s = 5000.0
    token_of(side, name="other", read={})
    assert c.Leave(GROUP) in side.done and sorted(side.kept) == [STATE, b"token/other"]


def test_past_is_bounded_in_bytes_as_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.past.BYTES_MAX", 2_000)
    side = WebSide()
    token = token_of(side)
    for number in range(20):
        side.hear(came(c.MessageId(bytes([number]) * 32), "語".encode() * 100))
    assert len(body_of(side.ask(request(POLL, bearer(token))))) < 2_200


def test_tokens_read_only_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.tokens.GROUPS_MAX", 1)
    side = WebSide()
    token_of(side)
    token_of(side, name="same")
    wish = json.dumps({"name": "more", "read": {"news": "cd" * 32}})
    assert "1 groups at most" in side.operator("token", wish)["error"]


def test_fate_that_the_router_cannot_tell_now_is_not_said_to_be_unknown() -> None:
    side = WebSide()
    token = token_of(side)
    peers = [side.open(), side.open()]
    for peer, wait in zip(peers, ("", "?wait=9"), strict=True):
        side.say(peer, request(f"/messages/{ID.hex()}{wait}", bearer(token)))
    tags = [deed.tag for deed in side.done if isinstance(deed, c.Inquire) and deed.word == "why"]
    for tag in tags:
        side.hear(c.Told(tag, "why", error="the connection was lost before the node answered; ask again"))
    assert status_of(side.written[peers[0]]) == 503 and b"X-Reason: router-away" in side.written[peers[0]]
    assert peers[1] not in side.written, "who waits is answered when the router is there again"
    assert c.Inquire("why", ID.hex(), tags[1]) in side.tick(2)
    side.hear(c.Told(tags[1], "why", error=f"no message whose id begins with {ID.hex()} is in the log"))
    assert status_of(side.written[peers[1]]) == 404


def test_questions_of_clients_that_have_gone_keep_out_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.fates.OPEN_MAX", 1)
    side = WebSide()
    ask = request(f"/messages/{ID.hex()}?wait=60", bearer(token_of(side)))
    gone = side.open()
    side.say(gone, ask)
    assert status_of(side.ask(ask)) == 503
    side.say(gone, b"")
    assert side.ask(ask) == b""
    assert status_of(side.written[gone]) == 503, "it may only have ended its sending side"


# -- what is remembered ----------------------------------------------------------------------------------------


def told(side: WebSide, token: str, query: str = "since=10m") -> list[str]:
    """Return what is read: the texts of messages, and the names of other events."""
    found = map(json.loads, body_of(side.ask(request(f"/groups/friends?poll&{query}", bearer(token)))).splitlines())
    return [one.get("text", "") if one["event"] == "message" else one["event"] for one in found]


def test_past_on_disk_is_read_on_in_a_later_life_without_a_gap() -> None:
    side = WebSide(remember_on_disk=True)
    token = token_of(side)
    side.tick(700)
    side.hear(came(ID, b"one"))
    side.say(side.open(), post(token, b"two"))
    side.hear(c.Sent(published(side)[0].tag, LATER_ID))
    later = WebSide(side.kept, at_s=side.at_s + 5, remember_on_disk=True)
    later.hear(came(ID, b"one"))
    assert told(later, token) == ["one", "two"] and told(later, token, f"since={ID.hex()}") == ["two"]
    later.hear(came(c.MessageId(b"k" * 32), b"three"))
    last = WebSide(later.kept, at_s=side.at_s + 10, remember_on_disk=True)
    assert told(last, token, f"since={LATER_ID.hex()}") == ["three"]
    last.operator("end", "script")
    assert [*last.kept] == [STATE], "nothing of the group is kept for nobody"


@pytest.mark.parametrize("is_retried", [True, False])
@pytest.mark.parametrize("key", [("Idempotency-Key: k1",), ()])
@pytest.mark.parametrize("body", [b"two", b""])
def test_post_that_ends_in_a_later_life_is_in_the_past_on_disk_behind_all_before(
    is_retried: bool, key: tuple[str, ...], body: bytes
) -> None:
    side = WebSide(remember_on_disk=True)
    token = token_of(side)
    side.tick(700)
    side.hear(came(ID, b"one"))
    once = post(token, body, *key)
    side.say(side.open(), once)
    (deed,) = published(side)
    later = WebSide(side.kept, at_s=side.at_s + 5, remember_on_disk=True)
    if is_retried and key:
        later.say(later.open(), once)
    later.hear(c.Sent(deed.tag, LATER_ID))
    last = WebSide(later.kept, at_s=side.at_s + 10, remember_on_disk=True)
    for one in (later, last):
        assert told(one, token) == ["one", body.decode()]
        assert told(one, token, f"since={ID.hex()}") == [body.decode()]
    assert not [name for name in last.kept if name.startswith(b"post")]


def test_retried_post_that_ends_in_a_later_life_is_in_the_past_in_memory() -> None:
    side = WebSide()
    token = token_of(side)
    once = post(token, b"two", "Idempotency-Key: k1")
    side.say(side.open(), once)
    later = WebSide(side.kept, at_s=side.at_s + 5)
    later.hear(came(ID, b"one"))
    peer = later.open()
    later.say(peer, once)
    later.hear(c.Sent(published(side)[0].tag, LATER_ID))
    assert status_of(later.written[peer]) == 201
    assert told(later, token, f"since={ID.hex()}") == ["two"]


def test_post_whose_body_is_not_known_is_a_gap_and_nothing_else_is_forgotten() -> None:
    side = WebSide()
    token = token_of(side)
    side.say(side.open(), post(token, b"two"))
    (deed,) = published(side)
    later = WebSide(side.kept, at_s=side.at_s + 5, remember_on_disk=True)
    later.tick(700)
    later.hear(came(ID, b"one"))
    reader = later.open()
    later.say(reader, request("/groups/friends", bearer(token)))
    later.hear(c.Sent(deed.tag, LATER_ID))
    assert b'"gap"' in later.written[reader], "who reads is told at once"
    assert told(later, token, f"since={ID.hex()}") == ["gap"]
    later.tick(1)
    third = c.MessageId(b"k" * 32)
    later.hear(came(third, b"three"))
    for one in (later, WebSide(later.kept, at_s=later.at_s + 5, remember_on_disk=True)):
        assert told(one, token) == ["gap", "one", "three"]
        assert told(one, token, f"since={ID.hex()}") == ["gap", "three"]
        assert told(one, token, f"since={third.hex()}") == []


def test_body_of_a_post_is_on_disk_only_where_the_past_is() -> None:
    side = WebSide(remember_on_disk=True)
    token = token_of(side)
    side.say(side.open(), post(token, b"secret"))
    assert b"secret" in side.kept.values()
    assert b"secret" not in WebSide(side.kept).kept.values(), "it is removed when that ends"


def test_past_on_disk_is_bounded_and_a_later_life_says_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.past.MESSAGES_MAX", 2)
    side = WebSide(remember_on_disk=True)
    token = token_of(side)
    side.tick(700)
    for number in range(4):
        side.hear(came(c.MessageId(bytes([number]) * 32), b"%d" % number))
    later = WebSide(side.kept, at_s=side.at_s + 5, remember_on_disk=True)
    assert told(later, token) == ["gap", "2", "3"]
    assert len([key for key in later.kept if key.startswith(b"past/")]) == 3


def test_past_is_on_disk_only_where_that_is_wished() -> None:
    side = WebSide()
    token = token_of(side)
    side.hear(came(ID, b"secret"))
    assert not any(b"secret" in value for value in side.kept.values())
    kept = WebSide(side.kept, remember_on_disk=True)
    kept.hear(came(ID, b"secret"))
    assert any(b"secret" in value for value in kept.kept.values())
    assert [key for key in WebSide(kept.kept).kept if key.startswith(b"past/")] == [], "it is removed when it ends"
    assert told(WebSide(kept.kept), token) == ["gap"]


def test_message_that_cannot_be_remembered_on_a_full_disk_comes_again() -> None:
    side = WebSide(remember_on_disk=True)
    token_of(side)
    full = WebSide(FullDisk(side.kept), remember_on_disk=True)
    assert full.hear(came(ID, b"later")) == [c.Refuse(Reason.DISK_FULL)]
    assert not any(isinstance(one, c.Refuse) for one in WebSide(FullDisk(side.kept)).hear(came(ID, b"now")))


# -- the share of each token -----------------------------------------------------------------------------------


def test_token_that_uses_many_idempotency_keys_leaves_others_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.posts.ONCE_MAX", 8)
    side = WebSide()
    greedy, other = token_of(side, name="greedy"), token_of(side, name="other")
    said = [side.ask(post(greedy, b"x", f"Idempotency-Key: g{n}")) for n in range(5)]
    assert [status_of(one) for one in said] == [0, 0, 0, 0, 503]
    assert b"X-Reason: keys-full" in said[-1] and b'the token "greedy" has published 4 messages' in said[-1]
    assert b"a token of its own" in said[-1]
    assert side.ask(post(other, b"x", "Idempotency-Key: o1")) == b"", "another token has its own share"
    assert side.ask(post(greedy, b"x", "Idempotency-Key: g0")) == b"", "a key that stands for a message still does"
    side.tick(ONCE_S + 1)
    for deed in published(side):
        side.hear(c.Sent(deed.tag, ID))
    side.tick(1)
    assert side.ask(post(greedy, b"x", "Idempotency-Key: g9")) == b"", "keys that are over count for nobody"


@pytest.mark.parametrize(("name", "most"), [("OPEN_BYTES_MAX", 80), ("OPEN_MAX", 4)])
def test_token_whose_messages_wait_leaves_others_their_share(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"services.web.core.scripts.posts.{name}", most)
    side = WebSide()
    greedy, other = token_of(side, name="greedy"), token_of(side, name="other")
    said = [side.ask(post(greedy, b"x" * 20)) for _ in range(3)]
    assert [status_of(one) for one in said] == [0, 0, 503]
    assert b'2 messages of the token "greedy"' in said[-1] and b"X-Reason: posts-full" in said[-1]
    assert side.ask(post(other, b"x" * 20)) == b""


def test_token_that_asks_or_reads_much_leaves_others_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.fates.OPEN_MAX", 4)
    monkeypatch.setattr("services.web.core.scripts.watchers.WATCHERS_MAX", 4)
    side = WebSide()
    greedy, other = token_of(side, name="greedy"), token_of(side, name="other")
    for path, first in ((f"/messages/{ID.hex()}?wait=60", 0), ("/groups/friends", 200)):
        said = [side.ask(request(path, bearer(greedy))) for _ in range(3)]
        assert [status_of(one) for one in said] == [first, first, 503] and b'the token "greedy"' in said[-1]
        assert status_of(side.ask(request(path, bearer(other)))) == first


def test_questions_of_the_gone_are_answered_though_their_end_makes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.fates.OPEN_MAX", 5)
    side = WebSide()
    greedy, other = token_of(side, name="greedy"), token_of(side, name="other")
    path = f"/messages/{ID.hex()}?wait=60"
    for _ in range(2):
        side.ask(request(path, bearer(greedy)))
    gone = side.open()
    side.say(gone, request(path, bearer(other)))
    side.say(gone, b"")
    monkeypatch.setattr("services.web.core.scripts.fates.OPEN_MAX", 2)
    assert status_of(side.ask(request(path, bearer(greedy)))) == 503
    assert status_of(side.written[gone]) == 503
