"""The settings of a pool's neighbours, as `config check` judges them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from services.capd.settings import CONNECT_MAX, Settings

PLACE = "127.0.0.1:7228"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"network": "bitcoin"}, "Invalid enum value 'bitcoin'"),
        ({"listen": "127.0.0.1"}, "matching regex"),
        ({"listen": "127.0.0.1:0"}, "matching regex"),
        ({"listen": "127.0.0.1:65536"}, "matching regex"),
        ({"listen": "tcp://127.0.0.1:7228"}, "matching regex"),
        ({"connect": PLACE}, "Expected `array`"),
        ({"connect": ["::1:7228"]}, "matching regex"),
        ({"connect": [PLACE, ""]}, "matching regex"),
    ],
)
def test_settings_reject_values_of_the_wrong_form(given: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(given, Settings)


@pytest.mark.parametrize(
    ("given", "name", "said"),
    [
        ({"connect": (PLACE, PLACE)}, "connect", "a neighbour is named twice"),
        ({"connect": (PLACE,), "listen": PLACE}, "connect", "is where this pool listens itself"),
        ({"listen": "999.1.1.1:7228"}, "listen", "999.1.1.1 in 999.1.1.1:7228 is neither an IP address nor a name"),
        ({"connect": ("a_b..c:7228",)}, "connect", "neither an IP address nor a name that DNS knows; mend it"),
        ({"connect": ("[12]:7228",)}, "connect", "neither an IP address nor a name"),
        ({"connect": ("localhost:7228",), "listen": PLACE}, "connect", "localhost:7228 is where this pool listens"),
        ({"connect": ("[::1]:7228",), "listen": "0.0.0.0:7228"}, "connect", "is where this pool listens itself"),
        ({"connect": tuple(f"a:{port}" for port in range(1, 18))}, "connect", f"at most {CONNECT_MAX} are dialled"),
    ],
)
def test_problems_report_what_a_form_cannot_check(given: dict[str, Any], name: str, said: str) -> None:
    [(found, text)] = Settings(**given).problems()
    assert found == name and said in text


def test_settings_accept_right_values() -> None:
    given = {"network": "testnet", "listen": "[::1]:7230", "connect": ["node.example:7230", "10.0.0.1:65535"]}
    assert list(msgspec.convert(given, Settings).problems()) == []


def test_own_problems_report_a_peer_that_is_this_pool_or_its_router() -> None:
    own, router, other = (SigningKey(bytes((number,)) * 32).public for number in range(3))
    given = Settings(peers=tuple(key_text("addr", key) for key in (own, other, router)))
    assert list(given.problems()) == list(Settings().own_problems(own, router)) == []
    (_, itself), (name, node) = given.own_problems(own, router)
    assert "is the address of this pool itself; take it out" in itself and name == "peers"
    assert "is the address of this node's router" in node and "`router capd address`" in node
    assert list(given.own_problems(None, None)) == []
