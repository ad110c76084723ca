"""The mode and the group of a socket's file mean the same in the URL of a listener and of a service's door."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.service.doors import socket_file
from router.transport.contract import InvalidUrl
from router.transport.socket_file import access_in
from transports import unix

OWN = os.getegid()


@pytest.mark.parametrize(
    ("options", "access"),
    [
        ({}, (0o600, None)),
        ({"mode": "666"}, (0o666, None)),
        ({"mode": "0640"}, (0o640, None)),
        ({"group": str(OWN)}, (0o660, OWN)),
        ({"mode": "600", "group": str(OWN)}, (0o600, OWN)),
    ],
)
def test_options_give_a_mode_and_a_group(options: dict[str, str], access: tuple[int, int | None]) -> None:
    assert access_in(options) == access
    found = unix.options("unix:///s?" + "&".join(f"{name}={value}" for name, value in options.items()))
    assert (found.mode, found.group) == access


@pytest.mark.parametrize("option", ["mode=999", "mode=1660", "mode=66", "mode=rw", "group=no such"])
def test_wrong_ones_are_refused_with_one_sentence(option: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^t") as of_door:
        socket_file(tmp_path, f"s?{option}")
    with pytest.raises(InvalidUrl) as of_listener:
        unix.check(f"unix:///s?{option}")
    assert str(of_listener.value) == f"'unix:///s?{option}': {of_door.value}"
