"""What may be asked of the web side itself, as `/openapi.json` describes it: by scripts, and by what monitors."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from router.service.http import EVENTS, LINES, Operation, Parameter

from .monitoring import LIVE, METRICS, READY
from .scripts.fates import WAIT_S_MAX

BYTES = "application/octet-stream"
_TEXT = "text/plain"
_ID = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_GROUP = Parameter("group", "A group of the home, by its name.")
_TOKEN = {401: "The token is missing, or is not known.", 403: "The token does not permit it."}


class GroupMessageTaken(Struct, frozen=True):
    """A message of a group that the router has in custody."""

    id: _ID
    group: str


class GroupMessageKept(Struct, frozen=True):
    """A message of a group that is kept, and not in custody yet."""

    group: str
    state: str


class FateCounts(Struct, frozen=True):
    """What became of a message, in numbers; `reasons`: why those who wait do, by reason."""

    id: _ID
    group: str
    accepted_at: float | str | None
    recipients: int
    reached: int
    waiting: int
    states: dict[str, int]
    reasons: dict[str, int]


class Ready(Struct, frozen=True):
    """Whether the node is ready, and why it is not."""

    ready: bool
    reasons: list[dict[str, Any]] = []


FOR_SCRIPTS = (
    Operation(
        "publishToGroup", "POST", "/groups/{group}", "Publish a message, of any bytes, in a group.",
        parameters=(_GROUP,), body=(BYTES, _TEXT), needs_token=True,
        answers={201: GroupMessageTaken, 202: GroupMessageKept},
        refusals={400: "The Idempotency-Key is too long.", **_TOKEN, 413: "The body is too large.",
                  422: "The router has refused it, or the key stands for another.", 503: "Too much is on its way."},
    ),
    Operation(
        "readGroup", "GET", "/groups/{group}", "Read the messages of a group as they come.",
        parameters=(_GROUP, Parameter("since", "The id behind which, or a span as 10m since when, to begin."),
                    Parameter("poll", "Alone, 1 or true: ends after what is remembered.")),
        needs_token=True, answers={200: (LINES, EVENTS)},
        refusals={400: "`since` or `poll` is wrong.", **_TOKEN, 503: "Too many read already."},
    ),
    Operation(
        "fateOfMessage", "GET", "/messages/{id}", "Ask what became of a message.",
        parameters=(Parameter("id", "Its id.", _ID),
                    Parameter("wait", "Seconds to wait for those who wait for it.",
                              Annotated[float, Meta(ge=0, le=WAIT_S_MAX)])),
        needs_token=True, answers={200: FateCounts},
        refusals={400: "Id or `wait` are wrong.", **_TOKEN, 404: "This node does not tell of it.",
                  503: "Too many ask already."},
    ),
)  # fmt: skip
"""At the door for everybody."""
FOR_OPERATORS = (
    Operation("live", "GET", LIVE, "Ask whether the web side runs.", answers={200: (_TEXT,)}),
    Operation(
        "ready", "GET", READY, "Ask whether the node is ready; 503 has the reasons.", answers={200: Ready, 503: Ready}
    ),
    Operation(
        "metrics", "GET", METRICS, "Get the metrics, as Prometheus or OpenMetrics reads them.",
        answers={200: (_TEXT, "application/openmetrics-text")}, refusals={503: "The router does not answer."},
    ),
)  # fmt: skip
"""At the operator's door."""
