"""Headless Chromium, driven by its DevTools protocol: pages in contexts that share nothing, and what they complain of.

`/json/new?URL` drops what stands behind `#`, so pages are navigated; a page's exceptions come as events."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import trio
from rigs.patience import HANG_S
from rigs.short_temporary_files import short_place
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Message, Request, TextMessage

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = f"there is no browser: none of {', '.join(NAMES)} is on the PATH"
INSECURE_HOST = "router.test"
"""A name of this machine to which browsers give no keys over http."""

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--remote-allow-origins=*",
    "--disable-backgrounding-occluded-windows", "--ignore-certificate-errors",
    f"--host-resolver-rules=MAP {INSECURE_HOST} 127.0.0.1",
    "--remote-debugging-port=0",
)  # fmt: skip
_UNTIL = """new Promise(done => {
  const look = async () => (await (async () => (%s))()) ? done(true) : setTimeout(look, 10);
  look();
})"""


_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " ")}


class PageFailed(AssertionError):
    """A script of a page failed; the text is the page's."""


def browser() -> str | None:
    """Return the path of a browser; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Yield the DevTools URL of a browser of its own, which ends with the block.

    Chromium puts a socket of 45 characters below TMPDIR, and does not start where that path is too long for one."""
    path = browser()
    assert path is not None, MISSING
    command = [path, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    with (
        TemporaryDirectory(prefix="web-", dir=short_place(), ignore_cleanup_errors=True) as short,
        (folder / "stderr").open("wb") as said,
        subprocess.Popen(command, stderr=said, stdout=said, env={**os.environ, "TMPDIR": short}) as process,
    ):
        try:
            yield _devtools(process, folder)
        finally:
            process.terminate()


def _devtools(process: subprocess.Popen[bytes], folder: Path) -> str:
    while process.poll() is None:
        found = re.search(r"DevTools listening on (ws://\S+)", (folder / "stderr").read_text(errors="replace"))
        if found:
            return found[1]
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            pass
    raise PageFailed(f"the browser ended: {(folder / 'stderr').read_text(errors='replace')[-2000:]}")


class Tools:
    """The connection to a browser's DevTools."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._end = WSConnection(ConnectionType.CLIENT)
        self._numbers = count(1)
        self._answers: dict[int, tuple[trio.Event, list[dict[str, Any]]]] = {}
        self._begun = trio.Event()
        self.pages: dict[str, Page] = {}

    async def greet(self, url: str) -> None:
        where = urlsplit(url)
        await self._stream.send_all(self._end.send(Request(host=where.netloc, target=where.path)))
        with trio.fail_after(HANG_S):
            await self._begun.wait()

    async def read(self) -> None:
        """Read until the connection is closed."""
        parts: list[str] = []
        async for data in self._stream:
            self._end.receive_data(bytes(data))
            for event in self._end.events():
                assert isinstance(event, AcceptConnection | Message), event
                if isinstance(event, AcceptConnection):
                    self._begun.set()
                elif isinstance(event, TextMessage):
                    parts.append(event.data)
                    if event.message_finished:
                        self._hear(json.loads("".join(parts)))
                        parts.clear()

    async def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Return the browser's answer."""
        number = next(self._numbers)
        wanted: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            wanted["sessionId"] = session
        came, found = self._answers.setdefault(number, (trio.Event(), []))
        await self._stream.send_all(self._end.send(Message(json.dumps(wanted))))
        with trio.fail_after(HANG_S):
            await came.wait()
        if "error" in found[0]:
            raise PageFailed(f"{method}: {found[0]['error']['message']}")
        answer: dict[str, Any] = found[0]["result"]
        return answer

    def _hear(self, said: dict[str, Any]) -> None:
        if "id" in said:
            came, found = self._answers.pop(said["id"])
            found.append(said)
            came.set()
        elif (page := self.pages.get(said.get("sessionId", ""))) is not None:
            page.note(said["method"], said["params"])


class Page:
    """A tab. `complaints`: what it threw and what the browser logged of it."""

    def __init__(self, tools: Tools, target: str, session: str) -> None:
        self._tools = tools
        self._target = target
        self._session = session
        self.complaints: list[str] = []
        self._loaded = trio.Event()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._tools.call(method, self._session, **parameters)

    async def goto(self, url: str) -> None:
        """Load that address, and wait until it is loaded."""
        self._loaded = trio.Event()
        found = await self.call("Page.navigate", url=url)
        assert "errorText" not in found, found
        if "loaderId" in found:  # Else only what stands behind # is another.
            with trio.fail_after(HANG_S):
                await self._loaded.wait()

    async def js(self, expression: str) -> Any:
        """Return the value of an expression, awaited."""
        text = f"(async () => ({expression}))()"
        found = await self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            said = found["exceptionDetails"]
            raise PageFailed(said.get("exception", {}).get("description") or said["text"])
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        try:
            await self.js(_UNTIL % expression)
        except (PageFailed, trio.TooSlowError) as error:
            raise PageFailed(f"{expression} did not come to be: {error}; {self.complaints}") from None

    @asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Wait until what the block does has loaded a page."""
        self._loaded = trio.Event()
        yield
        with trio.fail_after(HANG_S):
            await self._loaded.wait()

    async def picture(self, path: Path) -> None:
        """Write a picture of what is seen to this file."""
        path.write_bytes(b64decode((await self.call("Page.captureScreenshot"))["data"]))

    async def keys(self, *names: str) -> None:
        """Press these keys, one after the other, as somebody at a keyboard: a name, or a character."""
        for name in names:
            code, text = _KEYS.get(name, (0, name))
            pressed = {"key": name, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def close(self) -> None:
        await self._tools.call("Target.closeTarget", targetId=self._target)

    def note(self, event: str, said: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Log.entryAdded" and said["entry"]["level"] == "error" and "favicon" not in str(said):
            self.complaints.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
        elif event == "Page.loadEventFired":
            self._loaded.set()


class Browser:
    """A context of its own: nothing that other contexts keep is seen here."""

    def __init__(self, tools: Tools, context: str) -> None:
        self._tools = tools
        self._context = context

    async def allow(self, origin: str, *names: str) -> None:
        """Give a site these permissions, as somebody does who is asked."""
        await self._tools.call(
            "Browser.grantPermissions", permissions=list(names), origin=origin, browserContextId=self._context
        )

    async def processes(self) -> list[tuple[int, str]]:
        """Return the processes of the whole browser, each with what it is, as "renderer"."""
        found = (await self._tools.call("SystemInfo.getProcessInfo"))["processInfo"]
        return [(one["id"], one["type"]) for one in found]

    async def page(self, url: str) -> Page:
        """Return a new tab that has loaded this address."""
        target = (await self._tools.call("Target.createTarget", url="about:blank", browserContextId=self._context))[
            "targetId"
        ]
        session = (await self._tools.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = self._tools.pages[session] = Page(self._tools, target, session)
        for domain in ("Runtime", "Log", "Page"):
            await page.call(f"{domain}.enable")
        await page.goto(url)
        return page


@asynccontextmanager
async def fresh(devtools: str) -> AsyncIterator[Browser]:
    """Yield a browser's new context, which is forgotten with the block."""
    where = urlsplit(devtools)
    assert where.hostname is not None and where.port is not None
    async with await trio.open_tcp_stream(where.hostname, where.port) as stream, trio.open_nursery() as nursery:
        tools = Tools(stream)
        nursery.start_soon(tools.read)
        await tools.greet(devtools)
        context = (await tools.call("Target.createBrowserContext"))["browserContextId"]
        try:
            yield Browser(tools, context)
        finally:
            with trio.CancelScope(shield=True):
                await tools.call("Target.disposeBrowserContext", browserContextId=context)
            nursery.cancel_scope.cancel()
