"""Long lists as answers to inquiries: page by page, each no longer than an answer may be."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from .admin import LEFT_OUT, NEXT, PAGE

ANSWER_BYTES_MAX = 900_000
"""The longest JSON of an answer."""
ROWS_MAX = 4_000
"""Rows of one page of a list: the router makes them between two batches of messages."""
AROUND_BYTES = 100
"""Room for what stands around the rows of a page."""
Row = TypeVar("Row")


class ListPage(NamedTuple):
    """Rows of a list as values for JSON, `first` of which come before them, of `total` in all."""

    rows: Sequence[Any]
    first: int
    total: int

    def encoded(self, bytes_max: int) -> str:
        """Return the rows as JSON if they are the whole list and fit; else a page with as many as fit, at least one,
        and which comes next (`router.core.wire.admin.rows_in`)."""
        texts, size = list[str](), AROUND_BYTES
        for row in self.rows:
            text = json.dumps(row)
            size += len(text) + 2
            if texts and size > bytes_max:
                break
            texts.append(text)
        rows, after = f"[{', '.join(texts)}]", self.first + len(texts)
        if len(texts) == self.total:
            return rows
        more = f', "{NEXT}": {after}' if after < self.total else ""
        return f'{{"{PAGE}": {rows}, "{LEFT_OUT}": {self.total - after}{more}}}'


def page_of(found: Sequence[Row], argument: str, row: Callable[[Row], Any]) -> ListPage | dict[str, str]:
    """Return a page of a list, made by `row`: from the row whose number is the argument on, the first page without one.

    Who asks for one page after the other while the list changes may miss a row or get one twice."""
    if not ((argument.isascii() and argument.isdecimal() and len(argument) <= 18) or not argument):
        return {"error": f"a list is asked for from a row on, by its number, not {argument[:40]!r}"}
    first = min(int(argument or 0), len(found))
    return ListPage([row(one) for one in found[first : first + ROWS_MAX]], first, len(found))


def json_of(answer: Any) -> str:
    """Return an answer as JSON, of a list as many rows as fit. Raise `TypeError` or `ValueError` if it has none."""
    return answer.encoded(ANSWER_BYTES_MAX) if isinstance(answer, ListPage) else json.dumps(answer)
