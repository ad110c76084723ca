"""What may be asked of a pool over HTTP, as `/openapi.json` describes it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from router.service.http import EVENTS, LINES, Operation, Parameter

from ..messages import PAGE_IDS_MAX, PAGE_MESSAGES_MAX
from . import forms as f

_KEY_HEX = Annotated[str, Meta(pattern=r"^([0-9A-Fa-f]{2}){0,16}$")]
_PATTERN = (
    Parameter("prefix", "The first bytes of the data, at most 16, in hexadecimal digits.", _KEY_HEX),
    Parameter("value", "The first bytes of the data, of which the bits in `mask` count.", _KEY_HEX),
    Parameter("mask", "The bits of `value` that count; as long as that.", _KEY_HEX),
)
_HASH = Parameter("hash", "The id of a message, as people see it.", f.Hash)
_BUSY = {429: "Your address asks too much.", 503: "The pool does not answer, or is full."}

OPERATIONS = (
    Operation(
        "postMessage", "POST", "/messages",
        "Post a message whose work is done; or one whose work the node is to do, if `poolInfo` says that it solves.",
        body=(f.SolvedMessage, f.UnsolvedMessage),
        answers={201: f.PostResult, 200: f.PostResult},
        refusals={400: "The body is wrong.", 403: "The node does no work for others.", 413: "The body is too large.",
                  422: "The pool does not take the message.", **_BUSY},
    ),
    Operation(
        "findMessages", "GET", "/messages", "Find messages by the first bytes of their data, the newest first.",
        parameters=(
            *_PATTERN,
            Parameter("start", "How many matches to leave out.", Annotated[int, Meta(ge=0, le=f.UINT32_MAX)]),
            Parameter("limit", f"The most matches; without `hashes` at most {PAGE_MESSAGES_MAX}.",
                      Annotated[int, Meta(ge=1, le=PAGE_IDS_MAX)]),
            Parameter("hashes", "Whether only ids are wanted.", bool),
        ),
        answers={200: (f.MessagePage, f.IdPage)},
        refusals={400: "A parameter is wrong.", **_BUSY},
    ),
    Operation(
        "getMessage", "GET", "/messages/{hash}", "Get a message, in whatever state it is.",
        parameters=(_HASH,), answers={200: f.ShownMessage},
        refusals={400: "That is no hash.", 404: "The pool does not hold it.", **_BUSY},
    ),
    Operation(
        "rescindMessage", "POST", "/messages/{hash}/rescind", "End a message by its secret.",
        parameters=(_HASH,), body=(f.Secret,), answers={200: f.RescindedMessages},
        refusals={400: "Hash or secret are wrong.", 404: "The pool does not hold it.", 413: "The body is too large.",
                  422: "It is not the secret of this message.", **_BUSY},
    ),
    Operation(
        "watchMessages", "GET", "/watch",
        "Hear of messages that match as they come; `Last-Event-ID` or `since` begins behind one.",
        parameters=(*_PATTERN, Parameter("since", "The hash behind which to begin.", f.Hash)),
        answers={200: (LINES, EVENTS)},
        refusals={400: "A parameter is wrong.", **_BUSY},
    ),
    Operation(
        "poolInfo", "GET", "/info", "Get the pool's size, and below which priorities it passes on or takes nothing.",
        answers={200: f.PoolState}, refusals={400: "It takes no body, and not so many parameters.", **_BUSY},
    ),
)  # fmt: skip
"""Each operation; the names of what is said are the reference's."""
