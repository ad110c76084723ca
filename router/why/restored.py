"""The restore of a home from a snapshot, told in answers about messages that the life before may have ended."""

from __future__ import annotations

from typing import Any

from router.core.log.life import Restored
from router.core.why.fate import SECOND_NS, time_text

UNKNOWN = "no message whose id begins with"
"""The first words of the error for an id that the log does not know (`answers.not_one`)."""


def with_restore(answer: dict[str, Any], restored: Restored | None) -> dict[str, Any]:
    """Return the answer, with the restore if the message is not known, or was accepted before it: then what became of
    it between the snapshot and the restore is not in this log."""
    if restored is None:
        return answer
    if "error" in answer:
        is_unknown = str(answer["error"]).startswith(UNKNOWN)
        return {**answer, "error": f"{answer['error']}; this node was {_told(restored)}"} if is_unknown else answer
    accepted_ns = answer.get("accepted_ns")
    if accepted_ns is not None and accepted_ns > restored.restored_s * SECOND_NS:
        return answer
    return {**answer, "restored": _told(restored)}


def _told(restored: Restored) -> str:
    on, moment = (
        time_text(at_s * SECOND_NS).replace(".000", "") for at_s in (restored.restored_s, restored.snapshot_s)
    )
    if restored.snapshot_s == restored.restored_s:
        return f"kept on {on}, as another node ran with its key; what that one did is not in this log"
    return f"restored on {on} from a snapshot of {moment}; what it did in between is not in its log"
