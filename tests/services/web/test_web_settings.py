"""The settings of the web side: what no form can judge has a sentence, and so has what is probably not meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.web.settings import Settings

TLS = "?certificate=chain.pem&key=key.pem"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"operator": "tcp://0.0.0.0:4181"}, "operator"),
        ({"operator": "tcp://:4181"}, "operator"),
        ({"operator": "tcp://127.0.0.1.example:4181"}, "operator"),
        ({"url": "hub.example"}, "url"),
        ({"url": "wss://hub.example"}, "url"),
        ({"origins": ("chat.example",)}, "origins"),
        ({"origins": ("https://chat.example/path",)}, "origins"),
        ({"apps": ("notes",)}, "apps"),
        ({"apps": ("/",)}, "apps"),
        ({"apps": ("/srv/notes", "/home/notes")}, "apps"),
        ({"proxies": ("nginx",)}, "proxies"),
        ({"proxies": ("10.0.0.0/99",)}, "proxies"),
    ],
)
def test_setting_that_cannot_be_meant_is_a_problem(settings: dict[str, Any], name: str) -> None:
    [(found, said)] = Settings(**settings).problems()
    assert found == name and said.startswith(name) and ("; write" in said or "; mend" in said)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"listen": "", "operator": ""},
        {"operator": f"tcp://0.0.0.0:4181{TLS}"},
        {"operator": "unix:operator.sock?mode=660&group=staff"},
        {"url": "https://hub.example/node/", "origins": ("https://chat.example", "http://localhost:8080")},
        {"apps": ("/srv/notes", "/srv/maps/")},
        {"proxies": ("unix", "10.0.0.0/8", "2001:db8::1")},
    ],
)
def test_setting_that_can_be_meant_is_none(settings: dict[str, Any]) -> None:
    assert not list(Settings(**settings).problems())


def test_pages_for_others_without_a_name_are_warned_of() -> None:
    def warned(**settings: Any) -> list[str]:
        return list(Settings(**settings).warnings("web", is_public=False, has_neighbours=False))

    assert "services.web.url is empty" in warned(listen="tcp://0.0.0.0:80")[0]
    assert not warned() and not warned(listen="unix:web.sock")
    assert not warned(listen="tcp://0.0.0.0:80", url="http://hub.example/")


def test_doors_are_shown_as_a_browser_opens_them(tmp_path: Path) -> None:
    assert dict(Settings().at_start(tmp_path)) == {
        "pages": "http://127.0.0.1:4180/",
        "operator": "http://127.0.0.1:4181/",
    }
    found = dict(Settings(listen=f"tcp://0.0.0.0:443{TLS}", operator="unix:o.sock").at_start(tmp_path))
    assert found == {"pages": "https://0.0.0.0:443/", "operator": "unix:o.sock"}


@pytest.mark.parametrize(
    ("settings", "page", "link"),
    [
        ({}, "http://127.0.0.1:4180/", "ws://127.0.0.1:4180/link"),
        ({"listen": f"tcp://127.0.0.1:443{TLS}"}, "https://127.0.0.1:443/", "wss://127.0.0.1:443/link"),
        ({"url": "https://hub.example/node/"}, "https://hub.example/node/", "wss://hub.example/node/link"),
        ({"listen": "unix:web.sock", "url": "https://hub.example/"}, "https://hub.example/", "wss://hub.example/link"),
    ],
)
def test_links_lead_where_browsers_open_the_pages(settings: dict[str, Any], page: str, link: str) -> None:
    found = Settings(**settings)
    assert (found.page_url, found.link_url) == (page, link)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "leads back to this machine"),
        ({"url": "https://localhost/"}, "leads back to this machine"),
        ({"url": "http://hub.example/"}, "give no keys to pages over http"),
        ({"listen": "tcp://192.0.2.7:80"}, "give no keys to pages over http"),
        ({"url": "https://hub.example/"}, ""),
        ({"listen": f"tcp://192.0.2.7:443{TLS}"}, ""),
    ],
)
def test_link_that_some_cannot_use_is_said_to_be_so(settings: dict[str, Any], words: str) -> None:
    said = Settings(**settings).page_note
    assert (words in said and "services.web.url" in said) if words else not said


def test_page_behind_a_socket_file_has_no_address_unless_one_is_set() -> None:
    assert Settings(listen="unix:web.sock").page_url == Settings(listen="").page_url == ""
    for everywhere in ("tcp://0.0.0.0:4180", "tcp://[::]:4180", "tcp://:4180"):
        assert Settings(listen=everywhere).page_url == "", "nobody can open that"


@pytest.mark.parametrize(
    ("settings", "url", "tunnel"),
    [
        ({}, "http://127.0.0.1:4181/", "4181:127.0.0.1:4181"),
        ({"operator": "tcp://[::1]:99"}, "http://[::1]:99/", "99:[::1]:99"),
        ({"operator": "unix:operator.sock?mode=660"}, "http://127.0.0.1:4181/", "4181:/home/operator.sock"),
        ({"operator": f"tcp://0.0.0.0:99{TLS}", "url": "https://hub.example/a/"}, "https://hub.example:99/", None),
        ({"operator": f"tcp://192.0.2.7:99{TLS}"}, "https://192.0.2.7:99/", None),
        ({"operator": f"tcp://127.0.0.1:99{TLS}"}, "https://127.0.0.1:99/", "99:127.0.0.1:99"),
    ],
)
def test_operators_page_is_found_there_or_through_a_tunnel(
    settings: dict[str, Any], url: str, tunnel: str | None
) -> None:
    found = Settings(**settings)
    assert (found.operator_page_url, found.operator_tunnel(Path("/home"))) == (url, tunnel)


def test_folder_of_pages_that_is_not_there_is_warned_of(tmp_path: Path) -> None:
    def warned(path: Path) -> list[str]:
        return list(Settings(apps=(str(path),)).warnings("web", is_public=False, has_neighbours=False))

    assert warned(tmp_path) == [] and "is no folder" in warned(tmp_path / "gone")[0]
