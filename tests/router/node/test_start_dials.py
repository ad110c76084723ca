"""A node that starts dials whom it owes messages, also at addresses that only its services have learned."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import trio
from rigs.patience import HANG_S
from samples.stores import accepted, apply, opened, parcel

from router.core.neighbours.book import Book, Learned
from router.core.routing.effects import Changes
from router.core.wire.crypto import SigningKey
from router.node.node import Ready, RunningNode
from router.node.start_files import StartFiles
from router.settings import config, keyring
from router.settings.config import Config
from router.settings.config_services import key_name
from router.settings.home import Home

FRIEND = SigningKey(b"f" * 32).public
SETTINGS = {"verify.verifiers": 0, "node.services": ["services.pubsub"], "services.pubsub.mode": "overlay"}


async def test_a_learned_router_that_is_owed_messages_is_dialled_as_the_node_starts(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    me = keyring.load_or_create(home, keyring.NODE).public
    pubsub = keyring.load_or_create(home, key_name("pubsub")).public
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    now_s = int(time.time())
    learned = Learned(pubsub, FRIEND, "friend", (f"tls://127.0.0.1:{port}",), now_s + 3600, "pubsub")
    owed = replace(parcel(Random(1), 1, now_s, count=1), recipients=(FRIEND,))
    key, value = Book(16).learn(learned, now_s)
    store = opened(home.path / "store", owner=me)
    apply(store, Changes(parcels=[owed], events=[accepted(owed)], book={key: value}), now_s)
    store.close()

    def load() -> Config:
        return config.load(home.config_path, SETTINGS)[0]

    files = StartFiles(home, load)
    node, is_dialled = RunningNode(home, files(), files), trio.Event()

    async def answer(stream: trio.SocketStream) -> None:
        is_dialled.set()
        await stream.aclose()

    def on_ready(_: Ready) -> None: ...

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        nursery.start_soon(node.run, on_ready)
        with trio.fail_after(HANG_S):
            await is_dialled.wait()
        node.stop()
        nursery.cancel_scope.deadline = trio.current_time() + HANG_S
        nursery.cancel_scope.cancel()
