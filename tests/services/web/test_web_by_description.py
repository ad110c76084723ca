"""What `/openapi.json` describes, asked with values of any kind: an answer that is described, or a refusal with its
reason, and never a fault of the web side's own."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from rigs.pool_over_http import WebPool
from rigs.web_sides import bearer, body_of, each_byte, request, status_of, token_of

from router.service import contract as c

FAULTS = frozenset((500, 501, 502, 504, 505))
ANYWHERE = frozenset((400, 401, 403, 404, 405, 413, 431, 503))
"""The statuses of what HTTP itself, a path, a token or a limit refuses, wherever it is asked."""
DOORS = ("listen", "operator")
_TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "friends", "10m", "1", "true", "0", "-1", "nan", "1e999", "ab" * 32, "AB" * 32, "00" * 32, "../.."]
    ),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=6,
)
_HEADERS = st.sampled_from(
    ["Accept: */*", "Accept: text/event-stream", "Accept: x", "Last-Event-ID: tomorrow", "Idempotency-Key: k"]
)


def described(pool: WebPool, door: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return path, method and description of each operation at that door, in an order that stays."""
    paths = json.loads(body_of(pool.side.ask(request("/openapi.json"), door=door)))["paths"]
    return [(path, method.upper(), one) for path, methods in sorted(paths.items()) for method, one in methods.items()]


def drawn(data: st.DataObject, path: str, operation: dict[str, Any], token: str) -> tuple[str, list[str], bytes | None]:
    """Return address, headers and body of a request for that operation."""
    asked = []
    for one in operation.get("parameters", ()):
        value = data.draw(_TEXT, one["name"])
        if one["in"] == "path":
            path = path.replace("{" + one["name"] + "}", quote(value, safe=""))
        elif data.draw(st.booleans()):
            asked.append(f"{one['name']}={quote(value, safe='')}")
    headers = [data.draw(_HEADERS), *([bearer(token)] if data.draw(st.booleans()) else [])]
    body = (
        data.draw(st.binary(max_size=40) | _JSON.map(lambda one: json.dumps(one).encode()))
        if "requestBody" in operation
        else None
    )
    return path + ("?" + "&".join(asked) if asked else ""), headers, body


@given(st.data())
def test_whatever_is_asked_for_is_answered_as_described_or_refused_with_a_reason(data: st.DataObject) -> None:
    pool = WebPool(solve_cpu_percent=0.01)
    token, door = token_of(pool.side), data.draw(st.sampled_from(DOORS))
    path, method, operation = data.draw(st.sampled_from(described(pool, door)))
    address, headers, body = drawn(data, path, operation, token)
    peer, whole = pool.side.open(door), request(address, *headers, method=method, body=body)
    pool.side.say(peer, *(each_byte(whole) if data.draw(st.booleans()) else [whole]), door=door)
    pool.pass_on()
    for deed in [one for one in pool.side.done if isinstance(one, c.Inquire)]:
        pool.side.hear(c.Told(deed.tag, deed.word, error="the router does not tell"))
    answer = pool.side.written.get(peer, b"")
    if answer:  # else it waits for the router
        status = status_of(answer)
        assert status not in FAULTS, answer[:300]
        assert str(status) in operation["responses"] or status in ANYWHERE, answer[:300]
        assert status < 400 or b"\r\nX-Reason: " in answer or status == 503, answer[:300]
