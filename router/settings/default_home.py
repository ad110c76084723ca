"""Find the default home without loading the code that reads homes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "ROUTER_HOME"
APPLICATION = "key-addressed-router"


def default_home() -> Path:
    """Return `ROUTER_HOME`, else this application's folder in the user's data directory; the path may begin with
    `~`."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME", "")
    if not data.startswith("/"):  # the XDG specification has relative paths ignored
        data = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(data, APPLICATION)
