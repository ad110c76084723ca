"""The pool over HTTP: each request has its answer, or a reason and a sentence; who watches misses nothing."""

from __future__ import annotations

from rigs.pool_over_http import WebPool, as_posted

SECRET = b"s" * 32


def test_message_is_posted_found_and_got() -> None:
    pool = WebPool()
    message = pool.message(b"TKD\x0coffer")
    said = pool.ask("/messages", method="POST", body=as_posted(message))
    shown = message.own_id()[::-1].hex()
    assert (said.status, said.value) == (201, {"hash": shown, "held": False})
    again = pool.ask("/messages", method="POST", body=as_posted(message))
    assert (again.status, again.value) == (200, {"hash": shown, "held": True, "state": "relayed"})
    for path in ("?prefix=544b44", "?value=544b440f&mask=fffffffc", ""):
        found = pool.ask(f"/messages{path}")
        assert found.status == 200 and found.value["count"] == 1
        assert found.value["messages"][0].items() >= as_posted(message).items()
    assert pool.ask("/messages?prefix=58").value == {"count": 0, "messages": []}
    assert pool.ask("/messages?hashes=true").value == {"count": 1, "hashes": [shown]}
    got = pool.ask(f"/messages/{shown}")
    assert got.status == 200 and got.value == found.value["messages"][0] and got.value["state"] == "relayed"
    assert pool.ask("/info").value["count"] == 1
