"""Strict reading of log lines: bytes are a line only in a router's own spelling, with its event's columns.

The lines of an event are a regular language (`cddl/segment.cddl`): columns in a fixed order, no space, numbers as plain
digits. Quantifiers are possessive, so that nothing is tried twice. A newer router may write events with other names,
and further columns at the end of a line. The audit, which shares no code with the router, has the same grammar in
`spark_analytics/judgement/line_grammar.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .events import ID_BYTES, OUTWARD_EVENTS, STATE_EVENTS, TURNED_EVENTS
from .line import Line, decode_line
from .segment import SCHEMA

LINE_BYTES_MAX = 16 << 20
"""The greatest length of a line with its newline."""
RANGES_MESSAGES_MAX = 1 << 20
"""The most messages in the ranges of a line that names no parcel; older routers wrote a few thousand."""
FRAMES = ("segment", "seal")
"""Header and footer, which are no events."""


class NotALine(ValueError):
    """Raised for bytes in a log that are not one of its lines."""


def read_line(data: bytes) -> Line:
    """Return the line that these bytes, without a newline, encode; raise `NotALine` if they encode none."""
    if not _is_line(data):
        raise NotALine("not a line of an event log: it is not spelled as a router writes it")
    try:
        row = decode_line(data)
    except ValueError as error:
        raise NotALine(str(error)) from None
    if not (_columns_fit(row) and _are_of_a_parcel(row)):
        raise NotALine(f"not a line of an event log: its columns do not hold {row.n} messages")
    return row


# -- kinds of values ------------------------------------------------------------------------------------------

_INTEGER = "(?:-?[1-9][0-9]{0,17}+|0)"
_TEXT = r'"(?:[^"\\\x00-\x1f\ufffd]|\\["\\bfnrt]|\\u00[01][0-9a-f])*+"'
_NAME = '"[a-z][a-z0-9_]{0,63}+"'
_WORD = '"[a-z][a-z0-9_:-]{0,63}+"'


def _hex(count: int) -> str:
    return f'"[0-9a-f]{{{count}}}"'


def _list(of: str) -> str:
    return rf"\[(?:{of}(?:,{of})*+)?+\]"


def _map(value: str) -> str:
    return rf"\{{(?:{_NAME}:{value}(?:,{_NAME}:{value})*+)?+\}}"


_NUMBER, _SHORT = "(?:[1-9][0-9]{0,17}+|0)", "(?:[1-9][0-9]{0,9}+|0)"
_KINDS = {
    "key": _hex(64), "boot": _hex(32), "signature": _hex(128), "ids": '"(?:[0-9a-f]{64})++"', "number": _NUMBER,
    "positive": "[1-9][0-9]{0,17}+", "short": _SHORT, "time": "(?:[1-3][0-9]{18}|[1-9][0-9]{0,17}+|0)",
    "shorts": _list(_SHORT), "keys": _list(_hex(64)), "ranges": _list(rf"\[{_NUMBER},{_SHORT}\]"), "word": _WORD,
    "fields": _map(f"(?:{_TEXT}|{_INTEGER}|true|false)"), "counts": _map(_NUMBER), "schema": f'"{SCHEMA}"',
    "kind": '"(?:unicast|multicast)"',
}  # fmt: skip

# -- the columns of each event's line, in order, with their kinds; ? marks those that may be absent -------------

_PLACE = "seq:positive n:positive t?:time mono?:number router:key boot:boot "
_BROUGHT = (
    "peer?:key link:number first:number count:short ids:ids sizes:shorts ttls:shorts expiries:shorts recipients:keys"
)
_OUTWARD = (
    f"{_PLACE}link:number count:short recipient:key ranges:ranges parcel?:number reason?:word attempt:number "
    "depth:number duration_ns:number"
)
_TURNED = (
    f"{_PLACE}signer?:key peer?:key link:number count:short ids?:ids reason:word duration_ns?:number bytes?:number"
)
_FOOTER = (
    "n:positive router:key first_seq:positive last_seq:positive segments:positive lines:positive counts:counts "
    "min_t?:time max_t?:time predecessor?:key sha256:key signature:signature"
)
_OTHER = (
    f"{_PLACE}kind?:kind source?:key group?:key signer?:key destination?:key peer?:key link?:number first?:number "
    "count?:short ids?:ids sizes?:shorts ttls?:shorts expiries?:shorts recipients?:keys recipient?:key ranges?:ranges "
    "parcel?:number reason?:word attempt?:number depth?:number duration_ns?:number bytes?:number fields?:fields"
)
"""The columns of an event that this version does not know."""


def _columns(columns: str) -> str:
    parts = []
    for column in columns.split():
        name, _, kind = column.partition(":")
        part = f',"{name.removesuffix("?")}":{_KINDS[kind]}'
        parts.append(f"(?:{part})?+" if name.endswith("?") else part)
    return "".join(parts)


def _of(events: Iterable[str], columns: str) -> str:
    return f'"(?:{"|".join(sorted(events))})"{_columns(columns)}'


_START = r'\{"v":1,"event":'
_FORMS = (
    _of(OUTWARD_EVENTS, _OUTWARD),
    _of(("accepted",), f"{_PLACE}kind:kind source:key destination:key {_BROUGHT}"),
    _of(("accepted",), f"{_PLACE}kind:kind group:key {_BROUGHT}"),
    _of(TURNED_EVENTS, _TURNED),
    _of(("segment",), "router:key boot:boot schema:schema first_seq:positive predecessor?:key"),
)
_MAPPED = (_of(STATE_EVENTS, f"{_PLACE}count:short fields:fields"), _of(("seal",), _FOOTER))
_VALUE = f"(?:{_TEXT}|{_INTEGER}|true|false|null|{_list(_INTEGER)}|{_list(_TEXT)})"
_MORE = f',"(?!(?:{"|".join(Line.__struct_fields__)})"){_NAME[1:]}:{_VALUE}'
_KNOWN = "|".join(("accepted", *OUTWARD_EVENTS, *TURNED_EVENTS, *STATE_EVENTS, *FRAMES))

_plain = re.compile(rf"{_START}(?:{'|'.join(_FORMS)})\}}")
_with_names = re.compile(
    rf"{_START}(?:(?:{'|'.join(_MAPPED)})\}}|(?:{'|'.join((*_FORMS, *_MAPPED))})(?:{_MORE})++\}}|"
    rf'(?!"(?:{_KNOWN})"){_WORD}{_columns(_OTHER)}(?:{_MORE})*+\}})'
)
"""Lines with names chosen by the router that wrote them, which must be checked for duplicates in one map."""


def _is_line(data: bytes) -> bool:
    if len(data) >= LINE_BYTES_MAX:
        return False
    try:
        text = data.decode()
        if _plain.fullmatch(text):
            return True
        if not _with_names.fullmatch(text):
            return False
        json.loads(text, object_pairs_hook=_with_names_that_differ)
    except ValueError:
        return False
    return True


def _with_names_that_differ(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _columns_fit(row: Line) -> bool:
    """Whether each column of an accepted line has as many entries as the line states."""
    if row.event != "accepted":
        return True
    lengths = {len(one or ()) for one in (row.sizes, row.ttls, row.expiries)}
    return row.n == row.count and len(row.ids or "") == 2 * ID_BYTES * row.n and lengths == {row.n}


def _are_of_a_parcel(row: Line) -> bool:
    """Whether the line names its parcel or, if not, whether its ranges have at most `RANGES_MESSAGES_MAX` messages."""
    return row.parcel is not None or sum([count for _, count in row.ranges or ()]) <= RANGES_MESSAGES_MAX
