"""CAPD in a page: its vectors and nonces are those of Python, and the solver is nearly as fast as a bare loop."""

from __future__ import annotations

import json

import pytest
from chrome import fresh

from services.capd.core.message import NEVER, NO_HASH, rescind_hash_of
from services.capd.core.priority import bits_for
from services.capd.core.solving import PART, Draft, tried

pytestmark = pytest.mark.xdist_group("browser")
BARE_LEAST = 0.8
"""The least rate of the solver, as a part of a bare loop's in the same run."""


async def test_page_makes_the_messages_and_priorities_of_the_vectors(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/capd.html")
        assert await page.js("vectors()") == []
        assert await page.js("sealed()") == []
        assert await page.js("secretHashOf('73')") == rescind_hash_of(b"s").hex()
        assert not page.complaints


def found(draft: Draft) -> str:
    nonces = (tried(draft.solved(b"").stage1(), draft.difficulty_bits, first * PART) for first in range(100))
    return next(nonce.hex() for nonce in nonces if nonce is not None)


def as_json(draft: Draft) -> dict[str, object]:
    return {
        "data": draft.data.hex(),
        "created": draft.create_time,
        "difficultyBits": draft.difficulty_bits,
        "expiration": draft.expiration,
        "rescindHash": draft.rescind_hash.hex(),
    }


async def test_page_finds_the_nonces_that_python_finds_however_many_workers_look(devtools: str, port: int) -> None:
    wishes = [(1.0, NEVER, NO_HASH), (2.5, 300, NO_HASH), (40.0, NEVER, b"r" * 20), (600.0, 1, b"s" * 20)]
    drafts = [
        Draft(b"%d" % n, 1_700_000_000 + n, bits_for(priority, 1, n), expiration, rescind_hash)
        for n, (priority, expiration, rescind_hash) in enumerate(wishes)
    ]
    due = list(map(found, drafts))
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/capd.html")
        for workers in (1, 3):
            assert await page.js(f"solved({json.dumps(list(map(as_json, drafts)))}, {workers})") == due
        assert await page.js("cancelled()") == "enough"
        assert not page.complaints


@pytest.mark.long
async def test_solver_in_a_page_is_nearly_as_fast_as_a_bare_loop(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/capd.html")
        solver, bare = await page.js("rates()")
        assert solver >= BARE_LEAST * bare
