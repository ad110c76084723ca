"""`router lan`: nodes on local networks."""

from __future__ import annotations

from services.discovery.lan_commands import lan

COMMANDS = {
    "lan": "Find other nodes on local networks, and be found there.",
}

__all__ = ["COMMANDS", "lan"]
