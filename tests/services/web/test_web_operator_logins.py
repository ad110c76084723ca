"""The operator's logins: a link works once and for minutes, a login ends with its time or at once, and none is kept as
it is."""

from __future__ import annotations

import re

import pytest
from rigs.web_sides import WebSide, body_of, request, status_of

from router.service import contract as c
from router.service.kept_rows import STATE
from services.web.core.operator.logins import LINK_S, LOGIN_S, LOGINS_MAX, TOLD_S, Logins, NotLoggedIn

AT = c.Now(1000.0, 0.0)


def later(seconds: float) -> c.Now:
    return c.Now(AT.wall_s + seconds, seconds)


def secret(number: int) -> bytes:
    return bytes([number]) * 32


def logged_in(logins: Logins, number: int = 1) -> tuple[str, str]:
    login, text, _ = logins.make(secret(number), LOGIN_S, AT)
    _, cookie, _ = logins.redeem(text, secret(number + 100), "192.0.2.1", "a browser", AT)
    return login.id, cookie


def test_link_works_once() -> None:
    logins = Logins({})
    login, text, _ = logins.make(secret(1), LOGIN_S, AT)
    _, cookie, _ = logins.redeem(text, secret(2), "192.0.2.1", "a browser", AT)
    assert logins.judge(["other", cookie], AT).id == login.id
    with pytest.raises(NotLoggedIn, match=r"was used already.*router web open"):
        logins.redeem(text, secret(3), "192.0.2.2", "another", AT)
    with pytest.raises(NotLoggedIn, match="not known"):
        logins.redeem(cookie, secret(3), "192.0.2.2", "another", AT)


@pytest.mark.parametrize("guess", ["", "x", "é" * 10, "\udc80"])
def test_guess_opens_nothing(guess: str) -> None:
    logins = Logins({})
    logins.make(secret(1), LOGIN_S, AT)
    with pytest.raises(NotLoggedIn, match="not known"):
        logins.redeem(guess, secret(2), "", "", AT)
    with pytest.raises(NotLoggedIn, match="router web open"):
        logins.judge([guess], AT)


def test_link_expires_and_so_does_a_login() -> None:
    logins = Logins({})
    _, text, _ = logins.make(secret(1), LOGIN_S, AT)
    with pytest.raises(NotLoggedIn, match="not used within 5 minutes"):
        logins.redeem(text, secret(2), "", "", later(LINK_S))
    _, cookie = logged_in(logins, 5)
    assert logins.judge([cookie], later(LOGIN_S - 1))
    with pytest.raises(NotLoggedIn, match="is over"):
        logins.judge([cookie], later(LOGIN_S))


def test_login_that_is_ended_counts_no_more_and_a_link_neither() -> None:
    logins = Logins({})
    id, cookie = logged_in(logins)
    logins.end(id, AT)
    with pytest.raises(NotLoggedIn, match="ended by the operator"):
        logins.judge([cookie], AT)
    login, text, _ = logins.make(secret(2), LOGIN_S, AT)
    logins.end(login.id, AT)
    with pytest.raises(NotLoggedIn, match="was ended"):
        logins.redeem(text, secret(3), "", "", AT)
    for wrong in (id, "no such"):
        with pytest.raises(ValueError, match="router web logins"):
            logins.end(wrong, AT)


def test_logins_are_bounded_and_those_that_are_over_give_way() -> None:
    logins = Logins({})
    for number in range(LOGINS_MAX):
        logins.make(secret(number), LOGIN_S, AT)
    with pytest.raises(ValueError, match=r"64 links and logins.*--end ID"):
        logins.make(secret(200), LOGIN_S, AT)
    _, _, puts = logins.make(secret(200), LOGIN_S, later(LINK_S))
    assert len(list(logins)) == LOGINS_MAX and sum(put.value is None for put in puts) == 1
    assert len(logins.forget(later(2 * LINK_S + TOLD_S))) == LOGINS_MAX and not list(logins)
    with pytest.raises(ValueError, match="lasts"):
        logins.make(secret(1), 0, AT)


def test_what_is_kept_brings_logins_back_and_holds_no_secret() -> None:
    side = WebSide()
    made = side.operator("open")
    answer = side.ask(request(f"/login?link={made['link']}"), door="operator", address="127.0.0.1:9")
    assert status_of(answer) == 200
    (cookie,) = re.findall(rb"Set-Cookie: ([^;]+);", answer)
    assert b"; HttpOnly; SameSite=Strict; Max-Age=" in answer and b"Secure" not in answer
    kept = b"".join(side.kept.values())
    assert made["link"].encode() not in kept and cookie.split(b"=")[1] not in kept
    again = WebSide(side.kept)
    (row,) = again.operator("logins")
    assert (row["id"], row["state"], row["caller"]) == (made["id"], "open", "127.0.0.1")
    events = again.ask(request("/events", f"Cookie: x=1; {cookie.decode()}"), door="operator", address="127.0.0.1:9")
    assert status_of(events) == 200


def test_who_was_logged_in_is_forgotten_a_day_after_the_end_while_the_node_runs() -> None:
    side = WebSide()
    side.operator("open", "60")
    side.tick(LINK_S + TOLD_S - 1)
    assert [one["state"] for one in side.operator("logins")] == ["unused"] and len(side.kept) == 2
    side.tick(2)
    assert side.operator("logins") == [] and [*side.kept] == [STATE]


def test_cookie_over_tls_is_secure() -> None:
    url = "tcp://0.0.0.0:443?certificate=chain.pem&key=key.pem"
    side = WebSide(operator=url, url="https://hub.example/")
    made = side.operator("open")
    answer = side.ask(request(f"/login?link={made['link']}", host="hub.example"), door="operator")
    assert b"; SameSite=Strict; Secure; " in answer


def test_who_fetches_ahead_of_its_user_uses_up_no_link() -> None:
    side = WebSide()
    path = f"/login?link={side.operator('open')['link']}"
    for asked in (
        request(path, method="HEAD"), request(path, "Sec-Purpose: prefetch;prerender"), request(path, method="POST"),
    ):  # fmt: skip
        assert status_of(side.ask(asked, door="operator")) == 405
    assert status_of(side.ask(request(path), door="operator")) == 200


@pytest.mark.parametrize("path", ["/", "/events", "/why?id=3f9a12bc", "/login?link=guess", "/login"])
def test_who_is_not_logged_in_is_told_how(path: str) -> None:
    side = WebSide()
    for accept in ("text/html", "*/*"):
        answer = side.ask(request(path, f"Accept: {accept}"), door="operator")
        assert status_of(answer) == 403 and b"X-Reason: no-login" in answer
        assert b"router web open" in body_of(answer) and (b"<h1>" in answer) == (accept == "text/html")


def test_what_needs_no_login_stays_so() -> None:
    side = WebSide()
    assert status_of(side.ask(request("/health/live"), door="operator")) == 200
    assert status_of(side.ask(request("/page.css"), door="operator")) == 200
    assert status_of(side.ask(request("/operator/page.css"))) == 404
    assert status_of(side.ask(request("/login"))) == 404
