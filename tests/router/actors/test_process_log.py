"""What a process logs, as lines on standard error."""

from __future__ import annotations

import subprocess
import sys

from rigs.patience import HANG_S

FLOOD = """
import logging
from router.actors.process_log import log_to
log_to(logging.WARNING, "bell: %(message)s")
for number in range(99):
    logging.getLogger("router.service").warning("ring %s\\x1b[2J", number)
"""


def test_a_flood_of_one_kind_is_ten_lines_that_move_no_cursor() -> None:
    command = [sys.executable, "-c", FLOOD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert [line.partition(" WARNING ")[2] for line in done.stderr.splitlines()] == [
        f"bell: ring {number} [2J" for number in range(10)
    ]
