"""An S3 server in memory, on loopback, by moto: run with the Python of `.venv-lake`. Prints its port.

Towards Hadoop it fails as object stores do: each 17th request is answered "503 Slow Down", and each 7th read of an
object breaks off in the middle of its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[import-not-found,unused-ignore]
from werkzeug.serving import make_server  # type: ignore[import-not-found,unused-ignore]

BUSY_EACH = 17
BROKEN_EACH = 7
BROKEN_MIN = 64
"""Shorter answers are not broken off."""
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"

Environ = dict[str, Any]
Respond = Callable[..., Any]


class FailingS3:
    """A WSGI app. At `/-/failures` it tells how often it has failed, as JSON."""

    def __init__(self) -> None:
        self._app: Callable[[Environ, Respond], Iterable[bytes]] = DomainDispatcherApplication(create_backend_app)
        self._requests, self._reads = count(1), count(1)
        self._failures = {"busy": 0, "broken": 0}

    def __call__(self, environ: Environ, respond: Respond) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/-/failures":
            return _answered(respond, "200 OK", "application/json", json.dumps(self._failures).encode())
        if "Hadoop" not in environ.get("HTTP_USER_AGENT", ""):
            return self._app(environ, respond)
        if next(self._requests) % BUSY_EACH == 0:
            self._failures["busy"] += 1
            return _answered(respond, "503 Slow Down", "application/xml", SLOW_DOWN)
        answer = self._app(environ, respond)
        is_object = environ["REQUEST_METHOD"] == "GET" and "list-type" not in environ.get("QUERY_STRING", "")
        if is_object and next(self._reads) % BROKEN_EACH == 0:
            body = b"".join(answer)
            if len(body) < BROKEN_MIN:
                return [body]
            self._failures["broken"] += 1
            return [body[: len(body) // 2]]
        return answer


def _answered(respond: Respond, status: str, kind: str, body: bytes) -> list[bytes]:
    respond(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, FailingS3(), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()
