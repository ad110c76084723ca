"""A node whose DMQ service tells the log of nothing: `python -m services.dmq.bench.unlogged` is `router` without that.

Only the bench starts it, on a temporary home, to show what the log costs.
"""

from __future__ import annotations

from router.cli import main
from services.dmq.core import notes

if __name__ == "__main__":
    notes.accepted = lambda *_: iter(())
    notes.read = lambda *_: iter(())
    notes.expired = lambda *_: iter(())
    main()
