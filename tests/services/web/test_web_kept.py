"""What the web side keeps on disk has a version, and the forms that its CDDL names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from rigs.web_sides import GROUP, WebSide, bearer, post, published, request, token_of

from router.core.wire.codec import encode
from router.service import contract as c
from router.service.kept_rows import STATE, BadState
from services.web.core.kept import VERSION

RULES = {b"token": "token", b"once": "once", b"post": "post", b"posted": "body", b"login": "login"}
STORE = Validator(Path(__file__).parents[3] / "cddl" / "web-store.cddl")


def test_state_of_another_version_is_not_touched_and_one_without_is_the_first() -> None:
    assert WebSide().kept == {STATE: encode([VERSION])}
    WebSide({STATE: encode([VERSION])})
    with pytest.raises(BadState, match="the state of web is of version 2, and this program knows version 1"):
        WebSide({STATE: encode([2])})
    with pytest.raises(BadState, match="a login in the state of web"):
        WebSide({b"login/short": b"{}"})


def test_rows_have_the_forms_that_the_cddl_names() -> None:
    side = WebSide(remember_on_disk=True)
    token = token_of(side, until_s=1_900_000_000)
    login = side.operator("open")["link"]
    side.ask(request(f"/login?link={login}", "User-Agent: one"), door="operator")
    for body, more in ((b"once", ("Idempotency-Key: k1",)), (b"\xff", ()), (b"waits", ("Idempotency-Key: k2",))):
        side.say(side.open(), post(token, body, *more))
    for number, deed in enumerate(published(side)[:2]):
        side.hear(c.Sent(deed.tag, c.MessageId(bytes([number]) * 32)))
    side.hear(c.Message(c.MessageId(b"i" * 32), b"said", group=c.PublicKey(bytes.fromhex(GROUP)), seq=3))
    side.ask(request("/groups/friends?poll", bearer(token)))
    found = set[str]()
    for key, value in side.kept.items():
        prefix, _, rest = key.partition(b"/")
        of_past = "began" if len(rest) == 32 else "entry"
        rule = of_past if prefix == b"past" else RULES.get(prefix, "state")
        wire = (
            value
            if rule == "state"
            else encode(value)
            if rule in ("began", "body")
            else encode(integral(json.loads(value)))
        )
        assert STORE.validate(wire, rule).valid, (key, value)
        found.add(rule)
    assert found == {"state", "token", "once", "post", "body", "began", "entry", "login"}


def integral(value: dict[str, object]) -> dict[str, object]:
    """Return a row with whole seconds, as the project's CBOR has no floats."""
    return {name: int(one) if isinstance(one, float) else one for name, one in value.items()}
