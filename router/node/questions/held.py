"""The messages of a group that the store holds, page by page."""

from __future__ import annotations

import base64
from typing import Any

from router.core.service.roles import Role
from router.node.questions.question import CycleView, Questions, Respond
from router.service.verbs.held import ListHeld
from router.service.verbs.verb import WRONG_ARGUMENT

PAGE_MAX = 2_048
"""Messages in a page of held ones, before the last parcel: some 12 ms of the loop and 0.3 MiB of memory, and one turn
of the loop for each page."""


class HeldQuestions(Questions):
    """Tells the ids of the messages that are held for those who come later."""

    def answers(self) -> dict[str, Respond]:
        return {ListHeld.WORD: self._held}

    @staticmethod
    def _held(asked: CycleView, argument: str) -> dict[str, Any]:
        """Return a page of the messages that a `ListHeld` names. `goes_on`: history is kept now."""
        try:
            said = ListHeld.from_argument(argument)
        except WRONG_ARGUMENT as error:
            return {"error": f"{ListHeld.WORD}: {str(error)[:200]}"}
        page = asked.store.records.held(said.group, said.after, PAGE_MAX, said.since_s)
        return {
            "keys": base64.b64encode(page.keys).decode(),
            "upto": page.upto,
            "more": page.more,
            "gone": page.gone,
            "times": page.times,
            "goes_on": asked.router.directory.with_role(Role.OVERLAY) is not None,
        }
