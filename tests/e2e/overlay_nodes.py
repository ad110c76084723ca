"""Nodes of the end-to-end tests that run discovery and pub/sub, as `router init` makes them; cores ask more often."""

from __future__ import annotations

import json
from typing import Any

from rig import QUICK, NodeProcess, Rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import connect
from router.actors.process import program
from router.rig.machines import NamespaceMachine
from router.settings.config_services import OF_AN_EDGE, NewHomeService
from router.settings.home import Home

PORT = 4100
PERIOD_S = 1.0
"""The time between two questions of a core to others, a tenth of the default, for which these tests mostly wait."""
CALM = {**QUICK, "link.dial_backoff_s_min": 0.2, "link.dial_backoff_s_max": 1.0}
"""Settings with longer pauses between dials, for several nodes on one machine that dial one which is away."""


def core(
    found: Rig,
    name: str,
    machine: NamespaceMachine | None = None,
    *,
    seeds: tuple[str, ...] = (),
    period_s: float = PERIOD_S,
) -> NodeProcess:
    """Return a core that is not started yet, on a machine of its own or on this one. `seeds`: links of the nodes that
    it knows; `period_s`: the time between two questions to others."""
    url = f"tls://127.0.0.1:{free_port()}" if machine is None else f"tls://{machine.ip}:{PORT}"
    residents = {
        "discovery": NewHomeService({"sampling": True, "period_s": period_s, "seeds": seeds}),
        "pubsub": NewHomeService({"mode": "overlay", "period_s": period_s}),
    }
    Home(found.base / name).create("core", (url,), residents)
    node = found.node(name, "core", CALM, listens=False)
    node.url = url
    return _placed(node, machine)


def edge(found: Rig, name: str, machine: NamespaceMachine | None = None) -> NodeProcess:
    """Return an edge that is not started yet."""
    Home(found.base / name).create("edge", (), OF_AN_EDGE)
    return _placed(found.node(name, "edge", CALM), machine)


def _placed(node: NodeProcess, machine: NamespaceMachine | None) -> NodeProcess:
    if machine is not None:
        node.served_by = (*machine.enter, *program("router"))
    return node


async def link_of(node: NodeProcess) -> str:
    return (await node.run("id", "--link")).stdout.strip()


async def ask_pubsub(node: NodeProcess, word: str) -> Any:
    """Return the JSON answer of a node's pub/sub service."""
    async with connect(home=node.home) as app:
        return json.loads(await app.ask("service", f"pubsub {word}", timeout_s=HANG_S))
