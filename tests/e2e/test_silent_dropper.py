"""A core that takes custody of every copy and passes none on loses its place at all others, and is named; nobody else
is, and every message arrives."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
from overlay_nodes import ask_pubsub, core, link_of
from rig import ROUTER, NodeProcess, new_key, rig
from rigs.patience import HANG_S

from router import SigningKey, connect
from router.rig.process import run_command, until

RULES = '''"""Takes every message that other routers bring, holds none, and passes none on."""

from msgspec.structs import replace

from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub import rules


class Silent:
    def __init__(self, setup):
        self._rules = rules.PubSub(setup)

    def hear(self, heard, now):
        if isinstance(heard, c.Message) and heard.group is not None and heard.via is not None:
            return []
        if isinstance(heard, o.HeldPage):
            heard = replace(heard, keys=b"", times=(), more=False)
        return self._rules.hear(heard, now)
'''
FOLDER = {
    "__init__.py": '"""A pub/sub service that drops."""\n\nROLE = "overlay"\n',
    "settings.py": "from services.pubsub.settings import Settings as Settings\n",
    "events.py": "from services.pubsub.events import EVENTS as EVENTS\n",
    "rules.py": RULES,
}
CORES = 5
PACE_S = 4.0
"""Seconds between two messages: copies are judged when they are two to ten minutes old."""
BARRED_WITHIN_S = 1_500.0


def drops(node: NodeProcess, place: Path) -> None:
    """Let a core run a pub/sub service that drops, instead of the shipped one."""
    folder = place / "silent" / "pubsub"
    folder.mkdir(parents=True)
    (place / "silent" / "__init__.py").write_text("")
    for name, text in FOLDER.items():
        (folder / name).write_text(text)
    config = node.home.config_path
    config.write_text(config.read_text().replace('"services.pubsub"', '"silent.pubsub"'))


async def read(node: NodeProcess, group: SigningKey, got: Counter[bytes], task_status: trio.TaskStatus[None]) -> None:
    async with connect(home=node.home, key=new_key(), when_down="queue") as app:
        messages = await app.join(group.public, timeout_s=HANG_S)
        task_status.started()
        async for message in messages:
            got[bytes(message.id)] += 1


async def barred(nodes: list[NodeProcess]) -> list[set[str]]:
    """Return the routers that each core has barred."""
    found = [(await ask_pubsub(one, "peers"))["peers"] for one in nodes]
    return [{row["router"] for row in rows if row["barred_s"]} for rows in found]


@pytest.mark.long  # Copies are judged after minutes; the decisions stand in test_withholding.
async def test_a_core_that_passes_nothing_on_is_named_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, place = new_key(), tmp_path / "place"
    monkeypatch.setenv("PYTHONPATH", str(place))
    async with rig(tmp_path, BARRED_WITHIN_S) as found, trio.open_nursery() as nursery:
        first = core(found, "core0")
        await first.start()
        link = await link_of(first)
        nodes = [first, *(core(found, f"core{number}", seeds=(link,)) for number in range(1, CORES))]
        dropper, honest = nodes[2], [one for one in nodes if one is not nodes[2]]
        drops(dropper, place)
        got = [Counter[bytes]() for _ in nodes]
        for one, mine in zip(nodes, got, strict=True):
            if one is not first:
                await one.start()
            await nursery.start(read, one, group, mine)

        async def have_met() -> bool:
            rows = [(await ask_pubsub(one, "topics"))["topics"] for one in nodes]
            return all(row[group.public.hex()]["neighbours"] == CORES - 1 for row in rows)

        await until("the meeting of all cores", have_met)
        sent: list[bytes] = []
        while any(one != {dropper.address.hex()} for one in await barred(honest)):
            async with connect(home=honest[len(sent) % len(honest)].home) as app:
                sent.append(bytes(await app.group(group).publish(b"%d" % len(sent))))
            await trio.sleep(PACE_S)
        ledger = [mine for one, mine in zip(nodes, got, strict=True) if one is not dropper]

        async def have_all() -> bool:
            return all(set(mine) >= set(sent) for mine in ledger)

        await until("the arrival of everything at every honest core", have_all)
        assert all(set(mine.values()) == {1} for mine in ledger)
        shown = (await honest[0].run("pubsub", "peers")).stdout
        assert "nothing: barred for" in shown
        nursery.cancel_scope.cancel()
    homes = [str(one.home.path) for one in nodes]
    audit: dict[str, Any] = (await run_command((*ROUTER, "audit", *homes, "--json"))).json
    judged(audit, dropper, honest, shown)


def judged(audit: dict[str, Any], dropper: NodeProcess, honest: list[NodeProcess], shown: str) -> None:
    """Compare what the audit says: nothing is wrong but that one drops."""
    assert audit["unaccounted"] == audit["residual"] == 0, json.dumps(audit["findings"])
    assert {row["peer"] for row in audit["barred"]} == {dropper.address.hex()}
    assert {row["router"] for row in audit["barred"]} == {one.address.hex() for one in honest}
    told = [one["text"] for one in audit["findings"] if one["level"] in ("bad", "warning")]
    assert len(told) == len(honest) and all("passes none on" in one for one in told), told
    assert shown.count("barred") == 1
