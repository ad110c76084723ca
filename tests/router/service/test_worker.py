"""The process of jobs ends in silence when the node is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from io import BytesIO

import cbor2
import pytest
from rigs.patience import HANG_S

from router.actors.process import STOP_SIGNALS
from router.service.jobs import LENGTH
from router.service.worker import serve

WORKER = [sys.executable, "-P", "-m", "router.service.worker"]


def request(function: str, argument: bytes) -> bytes:
    packed = cbor2.dumps([function, argument])
    return LENGTH.pack(len(packed)) + packed


@pytest.mark.parametrize("cut", [0, 1, LENGTH.size, LENGTH.size + 1])
def test_it_ends_with_its_requests_also_in_the_middle_of_one(cut: int) -> None:
    asked, answers = request("binascii:hexlify", b"one"), BytesIO()
    serve(BytesIO(asked + asked[:cut]), answers)
    assert cbor2.loads(answers.getvalue()[LENGTH.size :]) == [b"6f6e65", ""]


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_it_goes_on_while_the_node_drains(number: signal.Signals) -> None:
    asked = request("binascii:hexlify", b"one")
    with subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for _ in range(2):
            process.stdin.write(asked)
            process.stdin.flush()
            [size] = LENGTH.unpack(process.stdout.read(LENGTH.size))
            assert cbor2.loads(process.stdout.read(size)) == [b"6f6e65", ""]
            process.send_signal(number)
        process.stdin.close()
        assert process.wait(HANG_S) == 0


@pytest.mark.parametrize("size", [3, 1 << 20], ids=["an answer", "an answer larger than a pipe"])
def test_it_says_nothing_when_nobody_takes_its_answer(size: int) -> None:
    with subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(request("binascii:hexlify", b"1" * size))
        process.stdin.close()
        assert (process.stderr.read(), process.wait(HANG_S)) == (b"", 0)
