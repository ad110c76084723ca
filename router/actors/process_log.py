"""Where a process writes its log: the journal, if its standard error leads there, else lines on standard error."""

from __future__ import annotations

import logging
import sys

from router.actors.few_of_a_kind import FewOfAKind
from router.actors.journal import journal_handler
from router.actors.log_lines import OneLine


def log_to(level: int, text: str = "%(message)s") -> None:
    """Write what the process logs at that level and above, few of a kind. `text`: the format of a message."""
    handler = journal_handler(text)
    if handler is None:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(OneLine(f"%(asctime)s %(levelname)-7s {text}"))
    handler.addFilter(FewOfAKind())
    logging.basicConfig(level=level, handlers=[handler])
