"""Two cores, one of which has taken the other as a neighbour, as by the link of `router id --link`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.serving import serving

from router.client.node import Node, connect
from router.rig.process import until
from router.settings import keyring
from router.settings.home import Home


async def asked(node: Node, word: str) -> Any:
    return json.loads(await node.ask(word, timeout_s=HANG_S))


async def test_refused_words_of_the_router_are_no_reason_to_warn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The chosen core refuses the other's whereabouts: it has not chosen that one."""
    near, far, url = Home(tmp_path / "near"), Home(tmp_path / "far"), f"tls://127.0.0.1:{free_port()}"
    for home in (near, far):
        home.create()
    there = keyring.load_or_create(far, keyring.NODE).public
    far.config_path.write_text(f'[node]\nrole = "core"\nlisten = ["{url}"]\naccept = "anyone"\n')
    near.config_path.write_text(
        f'[node]\nrole = "core"\nlisten = ["tls://127.0.0.1:{free_port()}"]\n'
        f'[[peers]]\naddress = "{there.hex()}"\nurls = ["{url}"]\nuplink = true\n'
    )
    with trio.fail_after(HANG_S):
        async with (
            serving(far.path, {}),
            serving(near.path, {}),
            connect(home=near) as node,
            connect(home=far) as other,
        ):

            async def has_refused() -> bool:
                return bool((await asked(other, "status"))["reasons"].get("not-authorised"))

            await until("a word is refused", has_refused)
            await node.ask("status")
            found = await asked(node, "peers")
    assert "it refuses our messages" not in json.dumps(found) + caplog.text
