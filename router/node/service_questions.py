"""Operators' questions to services: numbered, forwarded by the router, and answered through it."""

from __future__ import annotations

import json
from itertools import count
from typing import NamedTuple

from router.core.router import Router
from router.core.routing.effects import ServiceAnswered
from router.core.wire.admin import Inquiry, no_service, numbered
from router.core.wire.now import Now
from router.service.verbs.answer import Asked

SERVICE = "service"
OPEN_MAX = 256


class _Open(NamedTuple):
    """A question: the asker's link, the key of the service, and the asker's own number of it."""

    link: int
    service: bytes
    mark: int | None


class ServiceQuestions:
    """The open questions, at most `OPEN_MAX`; beyond it the oldest is answered with an error."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._open: dict[int, _Open] = {}

    def __repr__(self) -> str:
        return f"<{len(self._open)} questions to services are open>"

    def ask(self, router: Router, link: int, argument: str, now: Now, mark: int | None = None) -> None:
        """Forward a question: `argument` is the service's name, the word, and the rest of the question. `mark`: the
        number that a service gave it, None from others."""
        name, _, question = argument.partition(" ")
        services = {one.name: key for key, one in router.directory.services.items()}
        key = services.get(name)
        if key is None:
            known = ", ".join(sorted(services)) or "none"
            said = f"{no_service(name)}; node.services names {known}"
            module = f' ("services.{name}", or "{name}" for a folder in PYTHONPATH)' if name.isidentifier() else ""
            advice = f"add its module there{module}, and start the node again"
            self._fail(router, _Open(link, b"", mark), f"{said}: {advice}", now)
            return
        number = next(self._numbers)
        if not router.tell_service(key, Inquiry(Asked.WORD, f"{number} {question}"), now):
            state = "is not running" if router.links.to(key) is None else "takes no more questions for now"
            said = f"the service {name} {state}; `router status` says why"
            self._fail(router, _Open(link, key, mark), said, now, away=True)
            return
        self._open[number] = _Open(link, key, mark)
        if len(self._open) > OPEN_MAX:
            oldest = self._open.pop(next(iter(self._open)))
            self._fail(router, oldest, "the service has not answered, and many others ask; ask again", now)

    def answered(self, router: Router, answer: ServiceAnswered, now: Now) -> None:
        """Pass an answer on; ignore one that fits no open question to this service."""
        asked = self._open.get(answer.number)
        if asked is not None and asked.service == answer.service:
            del self._open[answer.number]
            router.answer(asked.link, numbered(asked.mark, answer.text), now)

    def look(self, router: Router, now: Now) -> None:
        """Answer the questions to services without a link with an error; called when a link went down."""
        gone = [number for number, one in self._open.items() if router.links.to(one.service) is None]
        for number in gone:
            asked = self._open.pop(number)
            name = router.directory.services[asked.service].name
            self._fail(router, asked, f"the service {name} ended before it answered; `router status` says why", now)

    @staticmethod
    def _fail(router: Router, asked: _Open, text: str, now: Now, *, away: bool = False) -> None:
        """Answer with an error. `away`: the service may be about to start, so that asking again makes sense."""
        said = json.dumps({"error": text, **({"away": True} if away else {})}).encode()
        router.answer(asked.link, numbered(asked.mark, said), now)
