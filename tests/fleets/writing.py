"""Write the event logs of a simulated fleet, as its nodes seal them, and the expected findings of an audit."""

from __future__ import annotations

import json
from pathlib import Path

from world.node import Node
from world.sealed_log import SealedLog
from world.world import World

from fleets.fleet import Fleet
from fleets.truth import truth_of
from router.core.wire.crypto import SigningKey
from router.disk.limits import LogLimits

TRUTH = "truth.json"
KEYS = "keys.json"
SEGMENT_BYTES = 8 << 20
SEGMENT_S = 3600


def log_directory(directory: Path, name: str) -> Path:
    return directory / name / "log"


def write_fleet(
    directory: Path,
    nodes: int,
    messages: int,
    seed: int,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    segment_s: int = SEGMENT_S,
    is_over: bool = False,
) -> World:
    """Write `directory`/NODE/log/events-*.jsonl of each node, truth.json and keys.json. Same arguments, same bytes.

    The logs stop in the middle of all activity; if `is_over`, every message has ended and every node has stopped.
    """
    limits = LogLimits(segment_bytes=segment_bytes, segment_s=segment_s)

    def log(node: Node) -> SealedLog:
        return SealedLog(node, log_directory(directory, node.name), limits)

    with World(seed, open_log=log) as world:
        fleet = Fleet(world, nodes, messages)
        fleet.run()
        if is_over:
            fleet.end()
    for node in world.nodes:
        node.book.close()
        log(node).tidy()
    truth = truth_of(fleet.clocks_ns, world.time.now().wall_ns + 60 * 10**9)
    (directory / TRUTH).write_text(json.dumps(truth, indent=1) + "\n")
    (directory / KEYS).write_text(json.dumps({node.name: node.key.seed.hex() for node in world.nodes}))
    return world


def keys_of(directory: Path) -> dict[str, SigningKey]:
    """Return the key of each node of a fleet, by its name."""
    said: dict[str, str] = json.loads((directory / KEYS).read_text())
    return {name: SigningKey(bytes.fromhex(secret)) for name, secret in said.items()}
