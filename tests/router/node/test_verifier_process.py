"""A verifier process ends quietly, however its node ended."""

from __future__ import annotations

import socket
import subprocess
import sys
from array import array

import pytest
from rigs.patience import HANG_S

from router.node.verifier_process import HEAD_WORDS, WORD


@pytest.mark.parametrize("unread", [False, True], ids=["node closed", "node killed with an answer unread"])
@pytest.mark.parametrize("whole_bytes", [0, 5, 4 * HEAD_WORDS, 4 * HEAD_WORDS + 7, 4 * HEAD_WORDS + 12])
def test_it_ends_with_its_node(whole_bytes: int, unread: bool) -> None:
    request = array(WORD, (100, 1, 0, 0, 100, 0)).tobytes()[:whole_bytes]
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "router.node.verifier_process"], stdin=theirs.fileno(), stderr=subprocess.PIPE
        )  # fmt: skip
        ours.sendall(request)
        if unread:
            theirs.sendall(b"\1")  # what we never read makes the kernel reset the connection when we close
        ours.close()
    _, said = process.communicate(timeout=HANG_S)
    assert (process.returncode, said) == (0, b"")
