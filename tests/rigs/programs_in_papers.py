"""The programs that a paper shows as files, as a test writes them."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def programs(paper: str) -> dict[str, str]:
    """Return the Python programs in a paper of `docs/`, by the comment in the first line of each."""
    found = re.findall(r"^```python\n# ([^\n]+)\n(.*?)^```", (DOCS / paper).read_text(), re.MULTILINE | re.DOTALL)
    return dict(found)
