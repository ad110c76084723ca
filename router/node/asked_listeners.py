"""Listeners that services ask for besides those of the configuration: one for each service, as long as it wants it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from router.transport.contract import InvalidUrl, ListenFailed

log = logging.getLogger(__name__)


class AskedListeners:
    """Owns these listeners. `listen(nursery, url)` begins to listen and returns where; `tell(service, url, problem)`
    tells the service."""

    def __init__(
        self,
        nursery: trio.Nursery,
        listen: Callable[[trio.Nursery, str], Awaitable[str]],
        tell: Callable[[bytes, str, str], None],
    ) -> None:
        self._nursery = nursery
        self._listen = listen
        self._tell = tell
        self._open: dict[bytes, tuple[str, trio.CancelScope]] = {}
        self.urls: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"<{len(self.urls)} listeners that services asked for>"

    def want(self, service: bytes, url: str) -> None:
        """Listen at this URL for the service, in place of the earlier one; "": nowhere.

        The links that came by the earlier one end with it."""
        if self._nursery.cancel_scope.cancel_called:
            return  # the node stops
        before, scope = self._open.get(service, ("", None))
        if url == before and (not url or service in self.urls):
            self._tell(service, self.urls.get(service, ""), "")
            return
        self._open.pop(service, None)
        self.urls.pop(service, None)
        if scope is not None:
            scope.cancel()
        if url:
            scope = trio.CancelScope()
            self._open[service] = url, scope
            self._nursery.start_soon(self._run, service, url, scope)
        else:
            self._tell(service, "", "")

    async def _run(self, service: bytes, url: str, scope: trio.CancelScope) -> None:
        with scope:
            try:
                async with trio.open_nursery() as nursery:
                    where = await self._listen(nursery, url)
                    self.urls[service] = where
                    self._tell(service, where, "")
                    await trio.sleep_forever()
            except* (ListenFailed, InvalidUrl) as errors:
                problem = str(errors.exceptions[0])
                log.warning("%s", problem)
                self._tell(service, "", problem)
