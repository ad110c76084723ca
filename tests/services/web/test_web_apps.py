"""Pages of one's own, which a setting names: served below /apps/, and a folder that cannot be served is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.web_sides import KEY, WebSide, body_of, request, status_of

from router.service import contract as c
from router.service.streams import UNSENT_BYTES_MAX
from services.web import static_files
from services.web.core.http.limits import AT_ONCE_BYTES_MAX


def folder_of(place: Path, **files: str) -> str:
    folder = place / "notes"
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def test_own_pages_are_served_below_apps_and_nothing_else_is(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, index_html="mine", js__page_js="1", secret_key="no", _git__config_txt="no")
    (tmp_path / "other.txt").write_text("no")
    (Path(folder) / "out.txt").symlink_to(tmp_path / "other.txt")
    side = WebSide(apps=(folder,))
    served = ("/apps/notes/", "/apps/notes/js/page.js", "/chat/")
    hidden = ("secret.key", ".git/config.txt", "out.txt", "../other.txt")
    assert [status_of(side.ask(request(path))) for path in served] == [200] * 3
    assert [status_of(side.ask(request(f"/apps/notes/{name}"))) for name in hidden] == [404] * 4
    assert status_of(side.ask(request("/apps/notes"))) == 308
    assert body_of(side.ask(request("/apps/notes/"))) == b"mine"


def test_file_whose_name_ends_in_index_html_is_no_page_of_a_folder(tmp_path: Path) -> None:
    side = WebSide(apps=(folder_of(tmp_path, index_html="folder", myindex_html="file", js__myindex_html="deep"),))
    served = {"": b"folder", "myindex.html": b"file", "js/myindex.html": b"deep"}
    assert {name: body_of(side.ask(request(f"/apps/notes/{name}"))) for name in served} == served
    assert [status_of(side.ask(request(f"/apps/notes/{name}"))) for name in ("my", "js/my", "index.html")] == [404] * 3


def test_folder_whose_name_is_not_ascii_is_led_to(tmp_path: Path) -> None:
    side = WebSide(apps=(folder_of(tmp_path, über__index_html="mine", a_b__index_html="mine"),))
    for asked, led_to in (("%C3%BCber", b"%C3%BCber/"), ("a.b", b"a.b/")):
        answer = side.ask(request(f"/apps/notes/{asked}"))
        assert answer.startswith(b"HTTP/1.1 308 Permanent Redirect\r\n") and b"Location: " + led_to + b"\r\n" in answer
        assert body_of(side.ask(request(f"/apps/notes/{led_to.decode()}"))) == b"mine"


@pytest.mark.parametrize("url", ["https://hub.example/über/", "https://hub.example/%C3%BCber/"])
def test_path_of_the_node_need_not_be_ascii(url: str) -> None:
    side = WebSide(url=url, origins=("https://über.example",))
    answer = side.ask(request("/%C3%BCber"))
    assert status_of(answer) == 308 and b"Location: %C3%BCber/\r\n" in answer
    assert status_of(side.ask(request("/%C3%BCber/chat/", "Origin: https://über.example"))) == 200
    assert b'"url": "/%C3%BCber/"' in side.ask(request("/%C3%BCber/openapi.json"))


def warned_of(folder: str) -> str:
    """Return the warning of a web side that is to serve this folder; all else is served."""
    side = WebSide(apps=(folder,))
    [warned] = [deed for deed in side.hear(c.Started(KEY)) if isinstance(deed, c.Warn)]
    assert status_of(side.ask(request("/chat/"))) == 200
    return warned.text


def test_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_bytes(path: Path) -> bytes:  # a superuser, as tests may be run by, reads everything
        if path.name == "index.html" and path.parent.name == "notes":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    folder = folder_of(tmp_path, index_html="mine")
    said = warned_of(folder)
    assert f"{folder}/index.html cannot be read (Permission denied)" in said and "none of the folders" in said


def test_folder_with_too_much_of_any_kind_and_a_file_in_place_of_a_folder_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_files, "APPS_LOOKED_AT_MAX", 2)
    folder = folder_of(tmp_path, a_log="1", b_log="2", c_log="3")
    assert "more than 2 files and folders" in warned_of(folder)
    assert "is no folder" in warned_of(f"{folder}/a.log")


def test_file_that_could_not_be_written_as_a_whole_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, index_html="mine", large_js="")
    with (Path(folder) / "large.js").open("r+b") as file:
        file.truncate(static_files.APPS_FILE_BYTES_MAX + 1)
    assert "large.js has 8000001 bytes, and one file may have 8000000" in warned_of(folder)
    assert static_files.APPS_FILE_BYTES_MAX + AT_ONCE_BYTES_MAX < UNSENT_BYTES_MAX


@pytest.mark.parametrize("is_there", [False, True])
def test_folder_that_cannot_be_served_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setattr(static_files, "APPS_BYTES_MAX", 3)
    folder = folder_of(tmp_path, index_html="mine") if is_there else str(tmp_path / "gone")
    side = WebSide(apps=(folder,))
    [warned] = [deed for deed in side.hear(c.Started(KEY)) if isinstance(deed, c.Warn)]
    assert "apps: " in warned.text and folder in warned.text
    assert status_of(side.ask(request("/chat/"))) == 200
