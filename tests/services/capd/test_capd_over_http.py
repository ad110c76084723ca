"""The pool over HTTP: each request has its answer, or a reason and a sentence; who watches misses nothing."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rigs.pool_over_http import Said, WebPool, as_posted
from rigs.web_sides import KEY, body_of, request, status_of
from samples.capd import posted
from samples.capd_host import POOL

from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.capd.core import messages as m
from services.capd.core import searches
from services.capd.core.message import CapdMessage, rescind_hash_of, shown_id
from services.capd.core.over_http.operations import OPERATIONS
from services.capd.http import CapdOverHttp

SECRET = b"s" * 32
LIMITS = CapdOverHttp.limits


def shown(message: CapdMessage) -> str:
    return shown_id(message.own_id())


def post(pool: WebPool, message: CapdMessage) -> Said:
    return pool.ask("/messages", method="POST", body=as_posted(message))


def events(pool: WebPool, peer: str) -> list[dict[str, Any]]:
    """Return what a watcher was told, in JSON lines."""
    lines = body_of(pool.side.written[peer]).replace(b"\r\n", b"\n").split(b"\n")
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def hashes(pool: WebPool, peer: str) -> list[str]:
    return [one["hash"] for one in events(pool, peer) if one["event"] == "message"]


def test_message_is_posted_found_and_got() -> None:
    pool = WebPool()
    message = pool.message(b"TKD\x0coffer")
    said = post(pool, message)
    assert (said.status, said.value) == (201, {"hash": shown(message), "held": False})
    again = post(pool, message)
    assert (again.status, again.value) == (200, {"hash": shown(message), "held": True, "state": "relayed"})
    for path in ("?prefix=544b44", "?value=544b440f&mask=fffffffc", ""):
        found = pool.ask(f"/messages{path}")
        assert found.status == 200 and found.value["count"] == 1
        assert found.value["messages"][0].items() >= as_posted(message).items()
    assert pool.ask("/messages?prefix=58").value == {"count": 0, "messages": []}
    assert pool.ask("/messages?hashes=true").value == {"count": 1, "hashes": [shown(message)]}
    got = pool.ask(f"/messages/{shown(message)}")
    assert got.status == 200 and got.value == found.value["messages"][0] and got.value["state"] == "relayed"
    info = pool.ask("/info").value
    assert (info["count"], info["relayPriority"], info["minPriority"], info["solves"]) == (1, 2.0, 1.0, False)


def test_body_is_not_read_for_which_a_request_has_no_use() -> None:
    side = WebPool().side
    for path, method, status in (("/info", "GET", 400), ("/nope", "POST", 404), ("/messages", "PUT", 405)):
        answer = side.ask(request(f"/capd{path}", "Content-Length: 1000", method=method))
        assert status_of(answer) == status and b"Connection: close" in answer
    assert side.ask(request("/capd/messages", "Content-Length: 1000", method="POST")) == b"", "a message may come"


BAD_BODIES: dict[str, tuple[object, str]] = {
    "no JSON": (b"{nope", "the body is no JSON"),
    "no UTF-8": (b'{"data": "\xff"}', "the body is no JSON"),
    "no object": ([1], "Expected `object`"),
    "no data": ({"nonce": "00"}, "missing required field"),
    "odd digits": ({"data": "abc", "created": 1, "difficultyBits": 1, "nonce": ""}, "$.data"),
    "a time below 0": ({"data": "", "created": -1, "difficultyBits": 1, "nonce": ""}, "$.created"),
    "a misspelt field": ({"data": "", "created": 1, "difficultyBits": 1, "nonce": "", "expires": 3}, "expires"),
    "no life": ({"data": "", "relayFor": 600}, "$.relayFor"),
    "a deep one": (b"[" * 100_000, "the body is no JSON"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_body_that_cannot_be_read_is_refused_with_what_is_wrong(name: str) -> None:
    body, text = BAD_BODIES[name]
    said = WebPool(solve_cpu_percent=50).ask("/messages", method="POST", body=body)
    assert (said.status, said.value["reason"]) == (400, "bad-request") and text in said.value["detail"]
    assert "application/problem+json" in said.head


@pytest.mark.parametrize(
    "path",
    [
        "?prefix=5", "?prefix=zz", "?prefix=54%2054", f"?prefix={'00' * 17}", "?value=00", "?mask=00",
        "?value=00&mask=0000", "?prefix=00&value=00&mask=ff", "?limit=0", "?limit=257", "?limit=ten", "?start=-1",
        "?start=99999999999", "?hashes=yes", "?limit=%D9%A3", "/abcd", f"/{'zz' * 32}", "?prefix=%C3%BC%C3%BC",
    ],
)  # fmt: skip
def test_wrong_parameter_is_refused_with_what_is_wrong(path: str) -> None:
    said = WebPool().ask(f"/messages{path}")
    assert (said.status, said.value["reason"]) == (400, "bad-request") and len(said.value["detail"]) > 20


def test_message_that_the_pool_turns_away_is_refused_with_its_reason() -> None:
    pool = WebPool(pool_bytes=4096)
    good = pool.message(b"TKD offer")
    wrong = next(one for n in range(99) if not (one := replace(good, nonce=bytes((n,)))).has_work())
    for message, reason in (
        (wrong, "capd:bad-work"),
        (posted(b"later", 2.5, good.create_time + 60), "capd:future"),
        (pool.message(b"x" * 600), "capd:too-large"),
        (replace(good, nonce=bytes(256)), "capd:malformed"),
        (replace(good, create_time=good.create_time - 60, expiration=30), "capd:expired"),
    ):
        said = post(pool, message)
        assert (said.status, said.value["reason"]) == (422, reason), reason
        assert len(said.value["detail"]) > 20
    for number in range(40):
        said = post(pool, pool.message(b"%d" % number, 3.0))
    weak = post(pool, pool.message(b"weak", 1.5))
    assert (weak.status, weak.value["reason"]) == (422, "capd:below-line"), "the pool is full"


def test_message_is_rescinded_by_its_own_secret_alone() -> None:
    pool = WebPool()
    message = pool.message(b"TKD offer", secret_hash=rescind_hash_of(SECRET))
    post(pool, message)
    path = f"/messages/{shown(message)}/rescind"
    other = pool.ask(path, method="POST", body={"secret": "00"})
    assert (other.status, other.value["reason"]) == (422, "other-secret")
    for ended in ([shown(message)], []):
        said = pool.ask(path, method="POST", body={"secret": SECRET.hex()})
        assert (said.status, said.value) == (200, {"rescinded": ended})
    assert pool.ask(f"/messages/{shown(message)}").value["state"] == "rescinded"
    assert pool.ask("/messages").value["count"] == 0
    nobody = pool.ask(f"/messages/{'00' * 32}/rescind", method="POST", body={"secret": SECRET.hex()})
    assert (nobody.status, nobody.value["reason"]) == (404, "not-held")
    assert pool.ask(path, method="POST", body={"secret": "00" * 521}).status == 400


def test_watcher_hears_of_each_match_once_and_of_nothing_else() -> None:
    pool = WebPool()
    lines = pool.begin("/watch?prefix=544b44")
    other = pool.begin("/watch?value=02&mask=0f")
    server_sent = pool.begin("/watch?prefix=544b44", "Accept: text/event-stream")
    offer, reply = pool.message(b"TKD offer"), pool.message(b"\x12reply")
    post(pool, offer)
    pool.post_elsewhere(reply)
    post(pool, offer)
    assert hashes(pool, lines) == [shown(offer)] and hashes(pool, other) == [shown(reply)]
    [said] = [one for one in events(pool, lines) if one["event"] == "message"]
    assert said.items() >= as_posted(offer).items()
    written = pool.side.written[server_sent].decode()
    assert f"\r\nid: {shown(offer)}\ndata: {{" in written and "text/event-stream" in written
    assert status_of(pool.side.written[lines]) == 200
    pool.pass_time(21)
    assert [one["event"] for one in events(pool, lines)] == ["begin", "message", "heartbeat"]


def test_watcher_that_comes_again_is_told_what_it_has_missed() -> None:
    pool = WebPool()
    sent = [pool.message(b"TKD %d" % number) for number in range(5)]
    for message in sent:
        post(pool, message)
    again = pool.begin("/watch?prefix=544b44", f"Last-Event-ID: {shown(sent[1])}")
    assert hashes(pool, again) == list(map(shown, sent[2:]))
    assert hashes(pool, pool.begin(f"/watch?prefix=544b44&since={shown(sent[4])}")) == []
    tomorrow = pool.begin("/watch?prefix=544b44", f"Last-Event-ID: {'ab' * 32}")
    assert events(pool, tomorrow)[0]["event"] == "gap" and len(hashes(pool, tomorrow)) == 5
    for begun, due in ((pool.begin("/watch?prefix=544b44"), sent[4:]), (pool.begin("/watch?prefix=58"), [])):
        [begin] = events(pool, begun)
        assert begin == {"event": "begin", "since": shown(due[0]) if due else "00" * 32}
    first = pool.begin(f"/watch?prefix=544b44&since={'00' * 32}")
    assert hashes(pool, first) == list(map(shown, sent)) and events(pool, first)[0]["event"] == "message"
    new = pool.message(b"TKD new")
    post(pool, new)
    assert hashes(pool, again) == [*map(shown, sent[2:]), shown(new)]
    assert pool.ask("/watch?since=nonsense").status == 400


def test_standing_query_is_renewed_and_ends_with_its_last_watcher() -> None:
    pool = WebPool()
    peers = [pool.begin("/watch?prefix=544b44") for _ in range(2)]
    pool.pass_time(LIMITS.watch_life_s - 1)
    pool.host.pass_time(2)
    post(pool, message := pool.message(b"TKD late"))
    assert hashes(pool, peers[0]) == [shown(message)]
    for peer, left in zip(peers, (1, 0), strict=True):
        pool.side.say(peer, b"")
        pool.pass_time(1)
        assert len(pool.host.rules._holdings.watches) == left


def test_watchers_are_bounded_by_address_and_in_all() -> None:
    pool = WebPool()
    for _ in range(LIMITS.watchers_of_one):
        assert status_of(pool.side.written[pool.begin("/watch")]) == 200
    full = pool.ask("/watch")
    assert (full.status, full.value["reason"]) == (429, "watchers-full")


def test_idle_watcher_of_the_address_with_most_gives_way_to_a_new_address() -> None:
    pool = WebPool()
    of_one, path = LIMITS.watchers_of_one, "/watch?prefix=4c"
    crowd = [
        pool.begin(path if number == 0 else "/watch?prefix=54", address=f"198.51.100.{number // of_one}:1")
        for number in range(LIMITS.watchers_max)
    ]
    pool.pass_time(1)
    post(pool, message := pool.message(b"L"))
    pool.begin("/watch", address="203.0.113.1:1")
    assert [events(pool, peer)[-1]["event"] for peer in crowd[:2]] == ["message", "end"], "the idle one goes"
    last = events(pool, crowd[1])[-1]
    assert (
        last["reason"] == "watchers-full" and "gives way" in last["text"] and hashes(pool, crowd[0]) == [shown(message)]
    )
    assert pool.side.written[crowd[1]].endswith(b"0\r\n\r\n")
    post(pool, again := pool.message(b"T"))
    assert not hashes(pool, crowd[1]) and hashes(pool, crowd[2]) == [shown(again)]
    assert len(pool.side.web._services) == LIMITS.watchers_max


def test_watcher_gives_way_to_nobody_whose_address_has_as_many() -> None:
    pool = WebPool()
    for number in range(LIMITS.watchers_max):
        pool.begin("/watch", address=f"198.51.100.{number}:1")
    for address in ("198.51.100.0:2", "203.0.113.1:1"):
        said = pool.ask("/watch", address=address)
        assert (said.status, said.value["reason"]) == (503, "watchers-full")


def test_caller_with_many_searches_delays_another_by_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "UNITS_BURST", 100.0)
    monkeypatch.setattr(searches, "UNITS_PER_S", 60.0)
    pool = WebPool()
    greedy = [pool.begin("/messages", address="198.51.100.1:1") for _ in range(14)]
    honest = pool.begin("/messages", address="203.0.113.1:1")
    pool.pass_time(1)
    assert pool.answer(honest).status == 200
    assert 0 < sum(pool.side.written.get(peer, b"") == b"" for peer in greedy) < len(greedy)
    for _ in range(int(LIMITS.patience_s) + 1):
        pool.pass_time(1)
    assert [pool.answer(peer).status for peer in greedy] == [200] * len(greedy), "each in its turn"


def test_searches_that_wait_are_bounded_and_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "UNITS_BURST", 10.0)
    monkeypatch.setattr(searches, "UNITS_PER_S", 1.0)
    monkeypatch.setattr(CapdOverHttp, "limits", replace(LIMITS, searches_of_one=3, searches_max=4))
    pool = WebPool()
    greedy = [pool.begin("/messages", address="198.51.100.1:1") for _ in range(4)]  # one is asked, three wait
    full = pool.ask("/messages", address="198.51.100.1:1")
    assert (full.status, full.value["reason"]) == (429, "searches-full")
    others = [pool.begin("/messages", address=f"203.0.113.{number}:1") for number in (1, 2, 3, 4)]
    said = [pool.answer(peer) for peer in (greedy[3], greedy[2], others[3])]
    assert [(one.status, one.value["reason"]) for one in said] == [(503, "searches-full")] * 3
    pool.pass_time(LIMITS.patience_s + 1)
    for peer in (*greedy[:2], *others[:3]):
        assert (pool.answer(peer).status, pool.answer(peer).value["reason"]) == (503, "searches-wait")
    assert len(pool.side.web._services) == 0


def test_head_of_a_watch_has_no_watcher() -> None:
    pool = WebPool()
    for _ in range(LIMITS.watchers_of_one + 1):
        said = pool.ask("/watch", method="HEAD")
        assert said.status == 200
    assert pool.ask("/messages", method="HEAD").status == 200
    assert len(pool.side.web._services) == 0


def test_request_is_refused_when_the_pool_does_not_answer() -> None:
    pool = WebPool()
    pool.is_cut = True
    slow = pool.begin("/info")
    watching = pool.begin("/watch")
    pool.pass_time(LIMITS.patience_s + 1)
    for peer in (slow, watching):
        said = pool.answer(peer)
        assert (said.status, said.value["reason"]) == (503, "pool-slow") and "Retry-After" in said.head
    full = pool.begin("/info")
    asked = [one for one in pool.side.done if isinstance(one, c.Send)][-1]
    pool.side.hear(c.Sent(asked.tag, MessageId(bytes(32)), Reason.DISK_FULL))
    assert (pool.answer(full).status, pool.answer(full).value["reason"]) == (503, "disk-full")
    pool.is_cut = False
    assert pool.ask("/info").status == 200


def test_answer_that_nobody_waits_for_is_left() -> None:
    pool = WebPool()
    pool.is_cut = True
    peer = pool.begin("/info")
    pool.side.say(peer, b"")
    pool.pass_time(1)
    pool.is_cut = False
    asked = next(one for one in pool.side.done if isinstance(one, c.Send))
    pool.tell(pool.host.say(asked.body, KEY))
    pool.side.hear(c.Message(MessageId(b"n" * 32), b"nonsense", source=POOL))
    pool.side.hear(c.Message(MessageId(b"o" * 32), m.encode_message(m.Done(1)), source=KEY))
    assert pool.ask("/info").status == 200 and len(pool.side.web._services) == 0


def test_address_has_its_share_of_requests() -> None:
    pool = WebPool()
    spent = int(LIMITS.units_burst)
    assert all(pool.ask("/info", address="[2001:db8::1]:5").status == 200 for _ in range(spent))
    full = pool.ask("/info", address="[2001:db8::2]:5")
    assert (full.status, full.value["reason"]) == (429, "asks-too-much") and "Retry-After" in full.head
    assert pool.ask("/info").status == 200
    pool.pass_time(1)
    assert pool.ask("/info", address="[2001:db8::1]:5").status == 200


def test_node_solves_within_its_share_alone() -> None:
    wish = {"data": b"TKD offer".hex(), "relayFor": 60}
    closed = WebPool().ask("/messages", method="POST", body=wish)
    assert (closed.status, closed.value["reason"]) == (403, "no-solver")
    assert "solve_cpu_percent" in closed.value["detail"]
    pool = WebPool(solve_cpu_percent=1)
    said = pool.ask("/messages", method="POST", body={**wish, "rescindHash": rescind_hash_of(SECRET).hex()})
    assert said.status == 201
    found = pool.ask(f"/messages/{said.value['hash']}").value
    assert found["data"] == wish["data"] and found["state"] == "relayed"
    assert found["rescindHash"] == rescind_hash_of(SECRET).hex()
    much = pool.ask("/messages", method="POST", body={"data": "00" * 60_000, "relayFor": 590})
    assert (much.status, much.value["reason"]) == (422, "too-much-work") and "relayFor" in much.value["detail"]
    assert pool.ask("/info").value["solves"]


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"data_bytes_max": 100}, 100), ({"pool_bytes": 100_000}, 12_372), ({"profile": "compat"}, None)],
)
def test_data_that_the_pool_does_not_take_is_refused_before_work_is_done(
    settings: dict[str, Any], most: int | None
) -> None:
    pool = WebPool(solve_cpu_percent=100, **settings)
    told = pool.ask("/info").value["dataBytesMax"]
    assert told == most if most else told > 100_000
    if most:
        said = pool.ask("/messages", method="POST", body={"data": "00" * (most + 1), "relayFor": 1})
        assert (said.status, said.value["reason"]) == (422, "capd:too-large") and f"{most} in one" in said.value[
            "detail"
        ]
        assert not any(isinstance(deed, c.Compute) for deed in pool.side.done)


def test_node_that_has_solved_enough_says_so_and_goes_on_later() -> None:
    pool = WebPool(solve_cpu_percent=0.1)
    wish = {"data": b"TKD".hex(), "relayFor": 300}
    said = [pool.ask("/messages", method="POST", body={**wish, "data": f"{n:04x}"}) for n in range(20)]
    assert said[0].status == 201 and (said[-1].status, said[-1].value["reason"]) == (503, "solver-busy")
    pool.pass_time(20)
    assert pool.ask("/messages", method="POST", body=wish).status == 201


def test_page_of_an_allowed_site_may_use_the_pool() -> None:
    pool = WebPool(origins=("https://wallet.example",))
    for origin, allowed in (("https://wallet.example", True), ("https://evil.example", False)):
        said = pool.ask("/messages", f"Origin: {origin}", method="POST", body={})
        assert (said.status, f"Access-Control-Allow-Origin: {origin}" in said.head) == (
            400 if allowed else 403,
            allowed,
        )
        watching = pool.begin("/watch", f"Origin: {origin}")
        assert (b"Access-Control-Allow-Origin" in pool.side.written[watching]) == allowed


def test_path_and_method_that_there_are_not_are_refused_with_those_there_are() -> None:
    pool = WebPool()
    missing = pool.ask("/nope")
    assert missing.status == 404 and "/capd/messages" in missing.value
    other = pool.ask("/info", method="POST", body={})
    assert other.status == 405 and "Allow: GET" in other.head
    assert pool.ask("/messages//rescind", method="POST", body={}).status == 404


_NAMES = st.sampled_from(["prefix", "value", "mask", "start", "limit", "hashes", "since", "other"])
_TEXTS = st.one_of(st.text(max_size=40), st.from_regex(r"[0-9a-fA-F]{0,70}", fullmatch=True), st.integers().map(str))
_FIELDS = ("data", "created", "difficultyBits", "nonce", "expiration", "rescindHash", "relayFor", "secret")
_JSON = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _TEXTS, st.lists(st.integers(), max_size=3))
_BODIES = st.one_of(st.binary(max_size=60), st.dictionaries(st.sampled_from(_FIELDS), _JSON))


@given(st.sampled_from(["/messages", "/watch", "/info"]), st.lists(st.tuples(_NAMES, _TEXTS), max_size=4))
def test_any_parameters_get_an_answer_or_a_reason(path: str, parameters: list[tuple[str, str]]) -> None:
    pool = WebPool()
    peer = pool.begin(f"{path}?{urlencode(parameters, errors='replace')}")
    assert status_of(pool.side.written[peer]) in (200, 400)


@given(st.sampled_from(["/messages", f"/messages/{'ab' * 32}/rescind", "/messages/x/rescind"]), _BODIES)
def test_any_body_gets_an_answer_or_a_reason(path: str, body: object) -> None:
    said = WebPool(solve_cpu_percent=0.01).ask(path, method="POST", body=body)
    assert said.status in (200, 201, 400, 404, 422, 503)
    assert said.status < 400 or len(said.value["detail"]) > 10


def test_refusal_of_what_no_request_may_have_is_described() -> None:
    many = "&".join(f"a{n}=1" for n in range(100))
    for one in OPERATIONS:
        if one.method == "GET":
            said = WebPool().ask(f"{one.path.format(hash='00' * 32)}?{many}")
            assert said.status == 400 and said.status in one.refusals, one.id


def test_description_names_each_path_and_its_forms() -> None:
    pool = WebPool()
    description = json.loads(body_of(pool.side.ask(request("/openapi.json"))))
    for path in ("/groups/{group}", "/messages/{id}", "/capd/messages", "/capd/messages/{hash}/rescind", "/capd/watch"):
        assert path in description["paths"]
    post = description["paths"]["/capd/messages"]["post"]
    named = [one["$ref"] for one in post["requestBody"]["content"]["application/json"]["schema"]["oneOf"]]
    assert named == ["#/components/schemas/SolvedMessage", "#/components/schemas/UnsolvedMessage"]
    assert "difficultyBits" in description["components"]["schemas"]["SolvedMessage"]["required"]
    assert "/health/ready" in json.loads(body_of(pool.side.ask(request("/openapi.json"), door="operator")))["paths"]


@pytest.mark.parametrize("path", ["/capd/watch", "/capd/watch?since=" + "00" * 32])
def test_request_behind_a_watch_by_head_is_answered(path: str) -> None:
    pool = WebPool()
    peer = pool.side.open()
    pool.side.say(peer, request(path, method="HEAD") + request(path, method="HEAD") + request("/capd/info"))
    pool.pass_on()
    assert pool.side.written[peer].count(b"HTTP/1.1 200 OK") == 3
    assert b'"relayPriority"' in pool.side.written[peer]
    ends = pool.side.open()
    pool.side.say(ends, request("/capd/watch", method="HEAD"), b"")
    pool.pass_on()
    assert ends in pool.side.closed, "who says no more is not kept"
