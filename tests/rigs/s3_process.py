"""An S3 server in memory, on loopback, by moto: run with the Python of `.venv-lake`. Prints its port.

Towards Hadoop it fails as object stores do: each 17th request is answered "503 Slow Down", and each 7th read of an
object breaks off in the middle of its bytes. If it is told to, it lists new objects late.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable
from html import unescape
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote

from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[import-not-found,unused-ignore]
from werkzeug.serving import make_server  # type: ignore[import-not-found,unused-ignore]

BUSY_EACH = 17
BROKEN_EACH = 7
BROKEN_MIN = 64
"""Shorter answers are not broken off."""
_CONTENTS = re.compile(rb"<Contents>.*?<Key>(.*?)</Key>.*?</Contents>", re.DOTALL)
_FOLDERS = re.compile(rb"<CommonPrefixes>.*?<Prefix>(.*?)</Prefix>.*?</CommonPrefixes>", re.DOTALL)
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"

Environ = dict[str, Any]
Respond = Callable[..., Any]


class LateLists:
    """Lists of objects (`ListObjectsV2`) from which new ones are left out, each for the first `lists` answers that
    would name it."""

    def __init__(self) -> None:
        self.lists = 0
        self._known: set[str] = set()
        self._hidden: dict[str, int] = {}
        self._lock = threading.Lock()

    def be_late(self, lists: int) -> None:
        """From now on leave new objects out of that many answers; with 0, list all objects."""
        with self._lock:
            self.lists = lists
            if not lists:
                self._hidden.clear()

    def note(self, environ: Environ) -> None:
        """Note an object that this request writes."""
        path, query = environ["PATH_INFO"].lstrip("/"), environ.get("QUERY_STRING", "")
        is_whole = environ["REQUEST_METHOD"] == "PUT" and "partNumber" not in query
        if not (is_whole or (environ["REQUEST_METHOD"] == "POST" and "uploadId" in query)):
            return
        with self._lock:
            if self.lists and path not in self._known:
                self._hidden[path] = self.lists
            self._known.add(path)

    def seen(self, bucket: str, answer: bytes) -> tuple[bytes, int]:
        """Return the answer without what is not listed yet, and how many objects that are."""
        with self._lock:
            due: set[str] = set()

            def object_of(found: re.Match[bytes]) -> bytes:
                name = f"{bucket}/{_text(found[1])}"
                if name not in self._hidden:
                    return found[0]
                due.add(name)
                return b""

            def folder_of(found: re.Match[bytes]) -> bytes:
                own = [name for name in self._known if name.startswith(f"{bucket}/{_text(found[1])}")]
                is_hidden = bool(own) and all(name in self._hidden for name in own)
                due.update(own if is_hidden else ())
                return b"" if is_hidden else found[0]

            answer = _CONTENTS.sub(object_of, answer)
            answer = _FOLDERS.sub(folder_of, answer)
            for name in due:
                self._hidden[name] -= 1
                if not self._hidden[name]:
                    del self._hidden[name]
            return answer, len(due)


class FailingS3:
    """A WSGI app. At `/-/failures` it tells how often it has failed, as JSON; from `/-/late?lists=N` on it lists new
    objects late."""

    def __init__(self) -> None:
        self._app: Callable[[Environ, Respond], Iterable[bytes]] = DomainDispatcherApplication(create_backend_app)
        self._requests, self._reads = count(1), count(1)
        self._failures = {"busy": 0, "broken": 0, "late": 0}
        self._late = LateLists()

    def __call__(self, environ: Environ, respond: Respond) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/-/failures":
            return _answered(respond, "200 OK", "application/json", json.dumps(self._failures).encode())
        if environ["PATH_INFO"] == "/-/late":
            self._late.be_late(int(parse_qs(environ["QUERY_STRING"])["lists"][0]))
            return _answered(respond, "200 OK", "text/plain", b"")
        self._late.note(environ)
        if "Hadoop" not in environ.get("HTTP_USER_AGENT", ""):
            return self._app(environ, respond)
        if next(self._requests) % BUSY_EACH == 0:
            self._failures["busy"] += 1
            return _answered(respond, "503 Slow Down", "application/xml", SLOW_DOWN)
        is_list = environ["REQUEST_METHOD"] == "GET" and "list-type" in environ.get("QUERY_STRING", "")
        if is_list and self._late.lists:
            return self._listed_late(environ, respond)
        answer = self._app(environ, respond)
        is_object = environ["REQUEST_METHOD"] == "GET" and not is_list
        if is_object and next(self._reads) % BROKEN_EACH == 0:
            body = b"".join(answer)
            if len(body) < BROKEN_MIN:
                return [body]
            self._failures["broken"] += 1
            return [body[: len(body) // 2]]
        return answer

    def _listed_late(self, environ: Environ, respond: Respond) -> list[bytes]:
        told: list[Any] = []
        whole = b"".join(self._app(environ, lambda status, headers, *_: told.extend((status, headers))))
        body, late = self._late.seen(environ["PATH_INFO"].strip("/"), whole)
        self._failures["late"] += late
        status, headers = told
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        respond(status, [*kept, ("Content-Length", str(len(body)))])
        return [body]


def _text(found: bytes) -> str:
    return unescape(unquote(found.decode()))


def _answered(respond: Respond, status: str, kind: str, body: bytes) -> list[bytes]:
    respond(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, FailingS3(), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()
