"""Executors or a driver with too little memory: how the errors of Spark tell of it, and what to do."""

from __future__ import annotations

import re

SIGNS = re.compile(
    r"OutOfMemoryError|Java heap space|UNABLE_TO_ACQUIRE_MEMORY|GC overhead limit|Not enough memory to build"
    r"|[Ee]xit(ed)?( with)?( exit)? (code|status):? ?(52|137)\b|exceeding (physical |virtual )?memory limits"
)
"""An error of Java, the code with which an executor ends itself for want of memory (52), or a process that the machine
or the cluster killed for it (137)."""
_EXECUTOR = re.compile(r"ExecutorLostFailure|Lost task|Lost executor|[Ee]xit(ed)? ")
_LOCAL = "executor driver)"
"""So a task of a session on one machine is told, whose threads are no executors."""
CAUSE_MAX = 300
"""Most characters of what Spark said that a sentence repeats."""


def sentence(error: str) -> str | None:
    """Return what ran out of memory and what to do, from the text of an error; None if it tells of something else."""
    if SIGNS.search(error) is None:
        return None
    cause = next(line for line in error.splitlines() if SIGNS.search(line)).strip()[:CAUSE_MAX]
    if _EXECUTOR.search(error) and _LOCAL not in cause:
        who, more = "an executor", "executors more memory (--executor-memory) or fewer cores each (--executor-cores)"
    else:
        who, more = (
            "Spark",
            "it more memory (spark-submit --driver-memory; where there are executors, --executor-memory too)",
        )
    return (
        f"the audit stopped, for {who} ran out of memory ({cause}). Give {more}: a core needs four times the largest"
        " log file, of a compressed one its text. Tables written meanwhile are marked as unfinished; run the job again."
    )
