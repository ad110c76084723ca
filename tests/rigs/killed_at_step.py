"""Run `router`, and kill its process before one of its steps on the keys of node and services:
`python -P killed_at_step.py STEP ARGUMENT...`; `STEP` counts from 0. After the last step it runs as it is.

A step makes, renames, links or removes a file in the folder `keys`, so a kill before one comes after the one before it.
"""

from __future__ import annotations

import os
import re
import runpy
import signal
import sys
from typing import Any

KEYS = re.compile(r"/keys/\.?(node|service-\w+)\.(key|rotating|successions|renewing|renewed)")
WRITES = os.O_WRONLY | os.O_RDWR
left = int(sys.argv[1])


def before_call(event: str, args: tuple[Any, ...]) -> None:
    global left
    if event == "open":
        paths = args[:1] if args[2] & WRITES else ()
    elif event in ("os.rename", "os.link", "os.remove"):
        paths = args[: 1 if event == "os.remove" else 2]
    else:
        return
    if any(isinstance(one, (str, os.PathLike)) and KEYS.search(os.fspath(one)) for one in paths):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(before_call)
sys.argv = ["router", *sys.argv[2:]]
runpy.run_module("router", run_name="__main__", alter_sys=True)
