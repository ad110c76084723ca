"""Scripts: their tokens, what they publish and read, and what they hear of a message's fate."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from rigs.web_sides import GROUP, WebSide, bearer, body_of, post, published, request, status_of, token_of

from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.kept_rows import STATE

OTHER = "cd" * 32
ID, LATER_ID = c.MessageId(b"i" * 32), c.MessageId(b"j" * 32)


def lines(data: bytes) -> list[dict[str, Any]]:
    """Return the JSON lines in the chunks of an answer."""
    found = []
    for line in body_of(data).split(b"\r\n"):
        found += [json.loads(one) for one in line.split(b"\n") if one.startswith(b"{")]
    return found


# -- tokens ----------------------------------------------------------------------------------------------------


def test_token_is_kept_as_a_digest_and_works_in_a_later_life_until_it_is_ended() -> None:
    side = WebSide()
    token = token_of(side)
    assert not any(token.encode() in value for value in side.kept.values())
    later = WebSide(side.kept)
    assert c.Join(GROUP) in later.done, "its group is joined at once"
    assert status_of(later.ask(request("/groups/friends?poll", bearer(token)))) == 200
    assert later.operator("tokens")[0]["name"] == "script"
    assert later.operator("end", "script") == {"ended": "script"} and c.Leave(GROUP) in later.done
    assert status_of(later.ask(request("/groups/friends?poll", bearer(token)))) == 401
    assert "no token" in later.operator("end", "script")["error"] and [*later.kept] == [STATE]


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ((), "/groups/friends"),
        (("Authorization: Bearer nonsense",), "/groups/friends"),
        (("Authorization: Basic !!!",), "/groups/friends"),
        ((f"Authorization: Basic {base64.b64encode(b'a:b').decode()}",), "/groups/friends"),
        ((), "/groups/friends?auth=TOKEN"),
        ((), f"/messages/{'00' * 32}"),
        ((), "/groups/friends?" + "&".join(f"a{n}=1" for n in range(100))),
    ],
)
def test_request_without_a_known_token_is_told_how_to_send_one(headers: tuple[str, ...], path: str) -> None:
    side = WebSide()
    token = token_of(side)
    answer = side.ask(request(path.replace("TOKEN", token), *headers))
    assert status_of(answer) == 401 and b"WWW-Authenticate: Bearer" in answer
    assert b"Authorization: Bearer TOKEN" in body_of(answer)


def test_token_may_come_as_a_password_and_where_allowed_in_the_address() -> None:
    side = WebSide()
    token = token_of(side, in_url=True)
    basic = base64.b64encode(f"me:{token}".encode()).decode()
    assert status_of(side.ask(request("/groups/friends?poll", f"Authorization: Basic {basic}"))) == 200
    assert status_of(side.ask(request(f"/groups/friends?poll&auth={token}"))) == 200


def test_token_ends_by_itself() -> None:
    side = WebSide()
    token = token_of(side, until_s=int(1_800_000_000 + side.at_s) + 60)
    reader = side.open()
    side.say(reader, request("/groups/friends", bearer(token)))
    assert reader not in side.closed
    side.tick(61)
    assert side.written[reader].endswith(b"0\r\n\r\n"), "the reading ends, too"
    assert not side.operator("tokens") and c.Leave(GROUP) in side.done
    assert status_of(side.ask(post(token))) == 401


@pytest.mark.parametrize(
    "wish",
    [
        {"name": ""},
        {"name": "a b"},
        {"publish": {}, "read": {}},
        {"publish": {"friends": "nokey"}},
        {"until_s": 1_700_000_000},
        {"until_s": -1},
        {"more": 1},
        {"name": 5},
    ],
)
def test_wish_for_a_token_that_makes_none_is_answered_with_the_cause(wish: dict[str, Any]) -> None:
    side = WebSide()
    whole = {"name": "script", "publish": {"friends": GROUP}, **wish}
    assert side.operator("token", json.dumps(whole))["error"] and [*side.kept] == [STATE]


def test_token_permits_what_it_names_and_nothing_else() -> None:
    side = WebSide()
    token = token_of(side, publish={"friends": GROUP}, read={"news": OTHER})
    assert status_of(side.ask(post(token, group="news"))) == 403
    refused = side.ask(request("/groups/friends?poll", bearer(token)))
    assert status_of(refused) == 403 and b"does not permit to read" in refused
    assert status_of(side.ask(post(token, group="nowhere"))) == 403
    assert status_of(side.ask(request("/groups/friends", bearer(token), method="DELETE"))) == 405
    assert not published(side)


# -- publishing ------------------------------------------------------------------------------------------------


def test_message_is_answered_with_its_id_when_the_router_has_it() -> None:
    side = WebSide()
    token = token_of(side)
    peer = side.open()
    assert side.say(peer, post(token)) == b""
    (deed,) = published(side)
    assert (deed.body, deed.group) == (b"disk full", GROUP)
    side.hear(c.Sent(deed.tag, ID))
    answer = side.written[peer]
    assert status_of(answer) == 201 and json.loads(body_of(answer)) == {"id": ID.hex(), "group": "friends"}
    assert f"Location: ../messages/{ID.hex()}\r\n".encode() in answer
    assert c.LogEvent("web_published", ID, fields={"token": "script"}) in side.done


def test_message_that_the_router_refuses_is_answered_with_the_reason() -> None:
    side = WebSide()
    token = token_of(side)
    for reason, status in ((Reason.NOT_AUTHORISED, 422), (Reason.DISK_FULL, 503)):
        peer = side.open()
        side.say(peer, post(token))
        side.hear(c.Sent(published(side)[-1].tag, c.MessageId(bytes(32)), reason, "it says why"))
        answer = side.written[peer]
        assert status_of(answer) == status and b"it says why" in answer
        assert f"X-Reason: {reason.word}\r\n".encode() in answer


def test_message_that_waits_long_is_said_to_be_on_its_way() -> None:
    side = WebSide()
    peer = side.open()
    side.say(peer, post(token_of(side)))
    side.tick(31)
    assert status_of(side.written[peer]) == 202
    side.hear(c.Sent(published(side)[-1].tag, ID))
    assert status_of(side.say(peer, request())) == 200, "the connection goes on"


def test_same_key_is_the_same_message_for_a_day_also_in_a_later_life() -> None:
    side = WebSide()
    token = token_of(side)
    first, second = side.open(), side.open()
    once = post(token, b"once", "Idempotency-Key: k1")
    side.say(first, once)
    side.say(second, once)
    (deed,) = published(side)
    later = WebSide(side.kept)  # the first life ended before it heard
    third = later.open()
    later.say(third, once)
    assert not published(later)
    later.hear(c.Sent(deed.tag, ID))
    for one, peer in ((side, first), (side, second)):
        one.hear(c.Sent(deed.tag, ID))
        assert status_of(one.written[peer]) == 201
    assert status_of(later.written[third]) == 201
    last = WebSide(later.kept)
    again = last.ask(once)
    assert status_of(again) == 201 and ID.hex().encode() in again and not published(last)
    assert status_of(last.ask(post(token, b"another", "Idempotency-Key: k1"))) == 422
    last.tick(86_401)
    last.ask(once)
    assert published(last), "the day is over"


# -- reading ---------------------------------------------------------------------------------------------------


def came(id: c.MessageId, body: bytes) -> c.Message:
    return c.Message(id, body, group=c.PublicKey(bytes.fromhex(GROUP)), sender=c.PublicKey(b"s" * 32), seq=3)


def test_reader_gets_messages_as_they_come_with_what_http_posted_and_signs_of_life() -> None:
    side = WebSide()
    token = token_of(side)
    peer = side.open()
    answer = side.say(peer, request("/groups/friends", bearer(token)))
    assert status_of(answer) == 200 and b"application/x-ndjson" in answer and b"X-Accel-Buffering: no" in answer
    assert c.MarkKnown("listen", peer) in side.done
    side.hear(came(ID, "grüße".encode()))
    side.say(side.open(), post(token, b"\xff\xfe"))
    side.hear(c.Sent(published(side)[-1].tag, LATER_ID))
    side.tick(30)
    beat, message, own, last = lines(side.written[peer])
    assert beat["event"] == last["event"] == "heartbeat"
    assert (message["text"], message["sender"], message["seq"]) == ("grüße", (b"s" * 32).hex(), 3)
    assert (own["base64"], own["token"], own["id"]) == ("//4=", "script", LATER_ID.hex())


def test_reader_of_server_sent_events_goes_on_behind_the_last_one() -> None:
    side = WebSide()
    token = token_of(side)
    side.tick(700)
    for id, body in ((ID, b"one"), (LATER_ID, b"two")):
        side.hear(came(id, body))
    accept = "Accept: text/event-stream"
    whole = side.ask(request("/groups/friends?poll&since=10m", bearer(token), accept))
    assert body_of(whole).count(b"\n\n") == 2 and f"id: {ID.hex()}\n".encode() in whole
    rest = side.ask(request("/groups/friends?poll", bearer(token), accept, f"Last-Event-ID: {ID.hex()}"))
    assert b'"two"' in rest and b'"one"' not in rest and b"gap" not in rest
    unknown = side.ask(request("/groups/friends?poll", bearer(token), accept, f"Last-Event-ID: {'9' * 64}"))
    assert b"event: gap\n" in unknown and b"one" in unknown and b"two" in unknown
    long_ago = side.ask(request("/groups/friends?poll&since=1d", bearer(token)))
    assert lines(long_ago)[0]["event"] == "gap"
    for since in ("yesterday", "5", "1y", "x" * 300):
        wrong = side.ask(request(f"/groups/friends?poll&since={since}", bearer(token)))
        assert status_of(wrong) == 400 and b"X-Reason: since" in wrong


def test_past_is_bounded_and_says_that_something_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.past.MESSAGES_MAX", 2)
    side = WebSide()
    token = token_of(side)
    for number in range(3):
        side.hear(came(c.MessageId(bytes([number]) * 32), b"%d" % number))
    found = lines(side.ask(request("/groups/friends?poll&since=10m", bearer(token))))
    assert [one["event"] for one in found] == ["gap", "message", "message"]


def test_too_many_readers_are_asked_to_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.watchers.WATCHERS_MAX", 1)
    side = WebSide()
    token = token_of(side)
    first = side.open()
    side.say(first, request("/groups/friends", bearer(token)))
    assert status_of(side.ask(request("/groups/friends", bearer(token)))) == 503
    side.say(first, b"")
    assert status_of(side.ask(request("/groups/friends", bearer(token)))) == 200, "the first has gone"


# -- fates -----------------------------------------------------------------------------------------------------


def why(*states: str, group: str = GROUP) -> dict[str, Any]:
    rows = [{"state": one, "reason": "away" if one == "queued" else None} for one in states]
    counts = {one: states.count(one) for one in states}
    return {"group": group, "accepted_at": "2026-01-01", "states": counts, "recipients": rows}


def test_fate_is_told_in_numbers_and_waited_for() -> None:
    side = WebSide()
    token = token_of(side)
    peer = side.open()
    assert side.say(peer, request(f"/messages/{ID.hex()}?wait=30", bearer(token))) == b""
    asked = side.done[-1]
    assert isinstance(asked, c.Inquire) and (asked.word, asked.argument) == ("why", ID.hex())
    side.hear(c.Told(asked.tag, "why", why("queued", "delivered", "queued")))
    assert peer not in side.written
    (again,) = side.tick(2)
    assert again == asked
    side.hear(c.Told(asked.tag, "why", why("delivered", "delivered", "queued")))
    side.tick(30)
    side.hear(c.Told(asked.tag, "why", why("delivered", "delivered", "queued")))
    told = json.loads(body_of(side.written[peer]))
    assert (told["recipients"], told["reached"], told["waiting"], told["reasons"]) == (3, 2, 1, {"away": 1})
    assert set(told) == {"id", "group", "accepted_at", "recipients", "reached", "waiting", "states", "reasons"}


def test_what_only_the_service_that_carries_groups_has_taken_has_reached_nobody() -> None:
    side = WebSide()
    peer = side.open()
    side.say(peer, request(f"/messages/{ID.hex()}?wait=30", bearer(token_of(side))))
    asked = side.done[-1]
    assert isinstance(asked, c.Inquire)
    side.hear(c.Told(asked.tag, "why", {**why("delivered"), "carried": 1}))
    told = json.loads(body_of(side.written[peer]))
    assert (told["recipients"], told["reached"], told["waiting"], told["states"]) == (0, 0, 0, {"delivered": 1})


def test_fate_of_a_message_of_others_is_not_told() -> None:
    side = WebSide()
    token = token_of(side)
    for told in (why("delivered", group=OTHER), None):
        peer = side.open()
        side.say(peer, request(f"/messages/{ID.hex()}", bearer(token)))
        asked = side.done[-1]
        assert isinstance(asked, c.Inquire)
        side.hear(c.Told(asked.tag, "why", told, "" if told else f"no message whose id begins with {ID.hex()}"))
        assert status_of(side.written[peer]) == 404
    peer = side.open()
    side.say(peer, request(f"/messages/{ID.hex()}", bearer(token)))
    asked = side.done[-1]
    assert isinstance(asked, c.Inquire)
    side.hear(c.Told(asked.tag, "why", error="the node stops", is_stopping=True))
    assert status_of(side.written[peer]) == 503 and b"X-Reason: draining" in side.written[peer]
    assert status_of(side.ask(request("/messages/12", bearer(token)))) == 400
    for wait in ("soon", "nan", "inf", "-1", "60.1", "1e9", ""):
        refused = side.ask(request(f"/messages/{ID.hex()}?wait={wait}", bearer(token)))
        assert status_of(refused) == 400 and b"a number of seconds from 0 to 60, not" in refused, wait


def test_poll_is_yes_or_no() -> None:
    side = WebSide()
    token = token_of(side)
    for query, status in (("poll", 200), ("poll=1", 200), ("poll=true", 200), ("poll=maybe", 400), ("poll=2", 400)):
        found = side.ask(request(f"/groups/friends?{query}", bearer(token)))
        assert status_of(found) == status and (b"poll stands alone" in found) is (status == 400), query
        assert b"Content-Length" in found, "it ends"
    flow = side.ask(request("/groups/friends?poll=0", bearer(token)))
    assert status_of(flow) == 200 and b"Transfer-Encoding: chunked" in flow


def test_questions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.scripts.fates.OPEN_MAX", 1)
    side = WebSide()
    token = token_of(side)
    ask = request(f"/messages/{ID.hex()}", bearer(token))
    assert side.ask(ask) == b""
    assert status_of(side.ask(ask)) == 503


@pytest.mark.parametrize(
    ("word", "argument", "text"),
    [
        ("token", "", "it is no such JSON"),
        ("token", "{nope", "it is no such JSON"),
        ("token", "[" * 100_000, "it is no such JSON"),
        ("token", "[]", "it is no such JSON"),
        ("token", "{}", 'its "name" is wrong'),
        ("token", '{"name": "a", "until_s": "soon"}', 'its "until_s" is wrong'),
        ("token", '{"name": "a", "publish": {"friends": 1}}', 'its "publish" is wrong'),
        ("token", '{"name": "a", "writes": {}}', 'its "writes" is wrong'),
        ("open", "soon", '"soon" is no number of seconds'),
        ("open", "1.5", '"1.5" is no number of seconds'),
        ("open", "-1", '"-1" is no number of seconds'),
        ("open", "9" * 5_000, "is no number of seconds"),
        ("open", "0", "a login lasts at least a second"),
    ],
)
def test_argument_that_cannot_be_read_is_answered_with_what_is_wrong_and_what_to_write(
    word: str, argument: str, text: str
) -> None:
    said = WebSide(operator="tcp://127.0.0.1:4181").operator(word, argument)["error"]
    assert text in said and (word == "open" or "write {" in said)
    assert not any(one in said for one in ("msgspec", "Expected", "invalid literal", "$."))


@pytest.mark.parametrize(
    ("path", "method", "known"),
    [
        ("/groups/friends?poll&snce=10m", "GET", b"auth, poll, since"),
        ("/groups/friends?since=10m", "POST", b"auth"),
        (f"/messages/{'00' * 32}?wit=5", "GET", b"auth, wait"),
    ],
)
def test_unknown_parameter_is_refused_with_the_known_ones(path: str, method: str, known: bytes) -> None:
    side = WebSide()
    token = token_of(side)
    refused = side.ask(request(path, bearer(token), method=method, body=b"x" if method == "POST" else None))
    name = path.partition("?")[2].split("&")[-1].partition("=")[0].encode()
    assert status_of(refused) == 400 and b'"%s"' % name in refused and known in refused


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_reader_whose_token_ends_is_told_why(kind: str) -> None:
    side = WebSide()
    token = token_of(side)
    reader = side.open()
    side.say(reader, request("/groups/friends", bearer(token), f"Accept: {kind}"))
    side.operator("end", "script")
    assert b'"event": "end"' in side.written[reader] and b"router web token" in side.written[reader]
