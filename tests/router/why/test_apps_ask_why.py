"""An app from elsewhere asks what became of its message: if the operator granted it `why`, and of its own alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.serving import serving

from router.client.errors import Refused
from router.client.node import Node, connect
from router.core.wire.crypto import MessageId, SigningKey
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home
from router.why.questions import NOT_PERMITTED, NOT_YOURS

GROUP, MAY, MAY_NOT = SigningKey(b"g" * 32), SigningKey(b"m" * 32), SigningKey(b"n" * 32)


async def asked(app: Node, id: MessageId) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await app.ask("why", id.hex(), timeout_s=HANG_S))["why"]
    return told


async def test_app_with_the_right_hears_in_numbers_how_far_its_own_message_came(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text('[[node.services]]\nname = "echo"\nmodule = "services.echo"\n')
    edit_peers(home.config_path, AddPeer(Peer(address=MAY.public, grant=("join", "why"))))
    edit_peers(home.config_path, AddPeer(Peer(address=MAY_NOT.public, grant=("join",))))
    guests = f"unix://{home.socket_path.with_name('guests.sock')}"
    with trio.fail_after(HANG_S):
        async with (
            serving(home.path, {}),
            connect(home=home) as owner,
            connect(url=guests, key=MAY, home=home) as may,
            connect(url=guests, key=MAY_NOT, home=home) as may_not,
        ):
            for app in (owner, may, may_not):
                await app.join(GROUP, timeout_s=HANG_S)
            own = await may.group(GROUP).publish(b"mine", raw=True)
            told = await asked(may, own)
            assert (told["message"], told["problem"]) == (own.hex(), "")
            assert sum(count for _, _, count, _, _ in told["outcomes"]) == 2, "the owner's app, and the other"
            others = await owner.group(GROUP).publish(b"not theirs", raw=True)
            assert (await asked(may, others))["problem"] == NOT_YOURS
            assert (await asked(may_not, others))["problem"] == NOT_PERMITTED
            with pytest.raises(Refused, match="owner's socket"):
                await may.ask("status", timeout_s=HANG_S)
