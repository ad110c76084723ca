"""The starts of a node on its home: once more where it learns that it is a copy, where its operator keeps it, and where
it gets another key."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from router.core.log.life import Restored
from router.core.routing.effects import BeginAnew
from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError
from router.disk import life_file
from router.disk.snapshot.directory import forget_tag
from router.settings import node_rotation
from router.settings.home import Home

log = logging.getLogger(__name__)


class NodeStarts:
    """Runs a node once, and again for as long as it is asked to begin anew. `stopping`: the present run is to drain."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._is_stopped = self._begins_anew = False
        self._rotates_s = 0
        self.stopping = trio.Event()

    def __repr__(self) -> str:
        return f"<starts of the node on {self._home}{', stopped' if self._is_stopped else ''}>"

    def stop(self) -> None:
        """End the present run, and begin no other."""
        self._is_stopped = True
        self.stopping.set()

    async def begin_anew(self, deed: BeginAnew) -> None:
        """End the present run, and begin another: in the life that the deed names, if any. If that life cannot be
        written, warn the operator, and let the node go on as it is."""
        if deed.restored is not None:
            try:
                await trio.to_thread.run_sync(_begin_life, self._home, deed.restored)
            except OSError as error:
                why = error.strerror or str(error)
                log.warning(
                    "no new life was begun: %s cannot be written (%s); mend that, and run `router copy keep` again",
                    self._home / life_file.NAME,
                    why,
                )
                return
        self._begins_anew = True
        self._rotates_s = deed.rotates_s or self._rotates_s  # another order of this run may have asked for it
        self.stopping.set()

    def rotate(self, home: Home) -> PublicKey | None:
        """Give the node of a home that is held another key if that was ordered, or finish what has begun; return the
        new address, None if the key stays. Raise an error of the home if what has begun cannot be finished."""
        at_s, self._rotates_s = self._rotates_s, 0
        try:
            done = node_rotation.rotate(home, at_s) if at_s else node_rotation.finish_begun(home)
        except RouterError as error:
            if node_rotation.has_begun(home):
                raise
            log.warning("%s; the node goes on with the key that it has", error)
            return None
        return None if done is None else done.new

    async def each(self, run: Callable[[bool], Awaitable[None]]) -> None:
        """Run the node until it is stopped; `run` is told whether it was run before."""
        await run(False)
        while self._begins_anew and not self._is_stopped:
            self._begins_anew, self.stopping = False, trio.Event()
            await run(True)


def _begin_life(home: Path, restored: Restored) -> None:
    """Write the file of the new life; its snapshots get a tag of their own, as a copy of a whole disk has the same."""
    forget_tag(home)
    life_file.write(home, restored)
