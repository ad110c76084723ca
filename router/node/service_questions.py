"""Operators' questions to services: numbered, forwarded by the router, and answered through it."""

from __future__ import annotations

import json
from itertools import count

from router.core.router import Router
from router.core.routing.effects import ServiceAnswered
from router.core.wire.admin import Inquiry
from router.core.wire.now import Now
from router.service.verbs.answer import Asked

SERVICE = "service"
OPEN_MAX = 256


class ServiceQuestions:
    """The open questions, at most `OPEN_MAX`; beyond it the oldest is answered with an error."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._open: dict[int, tuple[int, bytes]] = {}  # the asker's link and the service's key

    def __repr__(self) -> str:
        return f"<{len(self._open)} questions to services are open>"

    def ask(self, router: Router, link: int, argument: str, now: Now) -> None:
        """Forward a question: `argument` is the service's name, the word, and the rest of the question."""
        name, _, question = argument.partition(" ")
        services = {one.name: key for key, one in router.directory.services.items()}
        key = services.get(name)
        if key is None:
            known = ", ".join(sorted(services)) or "none"
            said = f'there is no service "{name}" here; node.services names {known}'
            module = f' ("services.{name}", or "{name}" for a folder in PYTHONPATH)' if name.isidentifier() else ""
            self._fail(router, link, f"{said}: add its module there{module}, and start the node again", now)
            return
        number = next(self._numbers)
        if not router.tell_service(key, Inquiry(Asked.WORD, f"{number} {question}"), now):
            state = "is not running" if router.links.to(key) is None else "takes no more questions for now"
            self._fail(router, link, f"the service {name} {state}; `router status` says why", now, away=True)
            return
        self._open[number] = link, key
        if len(self._open) > OPEN_MAX:
            oldest, _ = self._open.pop(next(iter(self._open)))
            self._fail(router, oldest, "the service has not answered, and many others ask; ask again", now)

    def answered(self, router: Router, answer: ServiceAnswered, now: Now) -> None:
        """Pass an answer on; ignore one that fits no open question to this service."""
        link, key = self._open.get(answer.number, (0, b""))
        if key == answer.service:
            del self._open[answer.number]
            router.answer(link, answer.text, now)

    def look(self, router: Router, now: Now) -> None:
        """Answer the questions to services without a link with an error; called when a link went down."""
        gone = [number for number, (_, key) in self._open.items() if router.links.to(key) is None]
        for number in gone:
            link, key = self._open.pop(number)
            name = router.directory.services[key].name
            self._fail(router, link, f"the service {name} ended before it answered; `router status` says why", now)

    @staticmethod
    def _fail(router: Router, link: int, text: str, now: Now, *, away: bool = False) -> None:
        """Answer with an error. `away`: the service may be about to start, so that asking again makes sense."""
        router.answer(link, json.dumps({"error": text, **({"away": True} if away else {})}).encode(), now)
