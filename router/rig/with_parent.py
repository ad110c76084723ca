"""Run a module for as long as the process that started it: `python -m router.rig.with_parent PIPE MODULE ARGUMENT…`.

PIPE is the number of an inherited descriptor, the reading end of a pipe whose other end only the starting process
holds. However that process ends, by `kill -9` too, the system closes the pipe, and this one gets SIGTERM, then SIGKILL
if that is not enough.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

DRAIN_S = 5.0


def end_with(pipe: int) -> None:
    """End this process when the pipe is closed; nothing is ever written to it."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(DRAIN_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _, pipe, module, *arguments = sys.argv
    threading.Thread(target=end_with, args=(int(pipe),), name="tie", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
