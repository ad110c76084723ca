"""A dial that nobody answers is given up after the configured time."""

from __future__ import annotations

import socket

import pytest
import trio
from rigs.patience import HANG_S
from samples.core import ALICE, BOB

from router.core.neighbours.dial_budget import DialBudgets
from router.core.neighbours.directory import Neighbour
from router.core.service.refusals import Refusals
from router.core.wire.crypto import PublicKey
from router.node.dialler import Dialler, LastWords
from router.settings.config import Link
from router.transport.contract import Stream


async def never(stream: Stream, expect: PublicKey) -> LastWords:
    raise AssertionError("nobody answered")


async def nothing(key: bytes) -> bool:
    return False


@pytest.mark.parametrize("timeout_s", [0.1, 0.3])
async def test_a_dial_is_given_up_after_its_time(timeout_s: float) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # the system takes the connection, and nobody shakes hands
        url = f"tls://127.0.0.1:{silent.getsockname()[1]}"
        neighbours = [Neighbour(BOB.public, uplink=True, urls=(url,))]
        limits = Link(dial_timeout_s=timeout_s, dial_backoff_s_min=600, dial_backoff_s_max=600)
        async with trio.open_nursery() as nursery:
            budget = DialBudgets(Refusals())
            dialler = Dialler(ALICE, neighbours, limits, nursery, never, nothing, lambda: 0.0, lambda: True, budget)
            dialler.reconcile(neighbours)
            with trio.fail_after(HANG_S):
                while not dialler.problems:
                    await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
    assert f"did not answer within {timeout_s:g} s" in dialler.problems[BOB.public]
