"""A transport is one file (law 1), shown by running one: a new scheme brings its URL's form, its options and its
checks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from rigs.patience import HANG_S
from rigs.serving import serving

from router.cli import main
from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.settings import keyring
from router.settings.home import Home

TRANSPORT = '''
"""Streams in this process under names that may be loud."""
from transports import memory
from router.transport.contract import InvalidUrl

LOCAL = True
heard = []

def check(url):
    name, _, option = url.partition("?")
    if option not in ("", "loud=yes"):
        raise InvalidUrl(f"{option!r} is no option of a drum; there is loud=yes")
    if len(name) < len("drum://ab"):
        raise InvalidUrl(f"{url!r} is too short a name; write drum://tom")

async def dial(url, key, expect, *, timeout_s):
    return await memory.dial(url.replace("drum:", "memory:"), key, expect, timeout_s=timeout_s)

async def listen(url, key, handler, *, task_status, on_refused, connections_max, handshakes):
    heard.append(handshakes)
    class Started:
        def started(self, value):
            task_status.started(value.replace("memory:", "drum:"))
    await memory.listen(url.replace("drum:", "memory:"), key, handler, task_status=Started(), on_refused=on_refused,
                        connections_max=connections_max)
'''


async def test_a_new_scheme_is_checked_listened_on_and_dialled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transports

    folder = tmp_path / "place" / "transports"
    folder.mkdir(parents=True)
    (folder / "drum.py").write_text(TRANSPORT)
    monkeypatch.setattr(transports, "__path__", [*transports.__path__, str(folder)])
    home, guest = Home(tmp_path / "home"), SigningKey(b"g" * 32)
    home.create()
    keyring.load_or_create(home, keyring.NODE)

    def checked(listen: str) -> str:
        peer = f'[[peers]]\naddress = "{guest.public.hex()}"\ngrant = ["join"]\n'
        home.config_path.write_text(f'[node]\nlisten = ["{listen}"]\n{peer}')
        return CliRunner().invoke(main, ["--home", str(home.path), "config", "check"]).output

    assert "there is no transport for horn://; known are drum" in checked("horn://tom")
    assert "line 2: node.listen: 'drum://a' is too short a name; write drum://tom" in checked("drum://a")
    assert "'soft=yes' is no option of a drum; there is loud=yes" in checked("drum://tom?soft=yes")
    with trio.fail_after(HANG_S):
        listening = serving(home.path, {"node.listen": ["drum://tom?loud=yes"]})
        async with listening, connect(url="drum://tom?loud=yes", key=guest, home=tmp_path) as node:
            await node.join(SigningKey(b"h" * 32), timeout_s=HANG_S)
    assert sys.modules["transports.drum"].heard, "the node gave it the limits that it names"
    monkeypatch.delitem(sys.modules, "transports.drum")
