"""Pages of one's own, which a setting names: served below /apps/, and a folder that cannot be served is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.web_sides import KEY, WebSide, body_of, request, status_of

from router.service import contract as c
from services.web import static_files


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
