"""The grammar of an event log's line, byte by byte, by which both engines judge (`cddl/segment.cddl`).

A router writes lines with one encoder: columns in a fixed order, no space, numbers as plain digits. So each line has
one spelling, the lines of an event are a regular language, and any other spelling is invalid. Numbers have so few
digits that their sums and differences stay within 64 bits. The expressions use only what Python's `re` and Java's
`Pattern` have in common; quantifiers are possessive, so that neither engine backtracks or needs a stack.

A newer router may write events with other names, and further columns at the end of a line: numbers, text, true, false,
null, or a list of numbers or of text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .schema import COLUMNS, OUTWARD_EVENTS, SCHEMA, STATE_EVENTS, TURNED_EVENTS

TIME_MAX = 3_999_999_999_999_999_999
"""Nanoseconds since 1970, up to 2096: together with the longest ttl this stays within 64 bits."""
NUMBER_MAX = 10**18 - 1
SHORT_MAX = 10**10 - 1
"""Numbers that a message holds in 32 bits, and the messages that a line stands for: a sum over 900 million lines fits
64 bits."""
LINE_BYTES_MAX = 16 << 20
"""Most bytes of a line with its newline: room for an acceptance of 4,096 messages owed to 200,000 recipients."""
KNOWN_EVENTS = ("accepted", *OUTWARD_EVENTS, *TURNED_EVENTS, *STATE_EVENTS, "segment", "seal")

HEX = "[0-9a-f]"

# -- kinds of values: as regular expressions; the longest alternative first, because there is no backtracking -

_NUMBER = "(?:[1-9][0-9]{0,17}+|0)"
_POSITIVE = "[1-9][0-9]{0,17}+"
_SHORT = "(?:[1-9][0-9]{0,9}+|0)"
_TIME = "(?:[1-3][0-9]{18}|[1-9][0-9]{0,17}+|0)"
_INTEGER = "(?:-?[1-9][0-9]{0,17}+|0)"
_WORD = '"[a-z][a-z0-9_:-]{0,63}+"'
_NAME = '"[a-z][a-z0-9_]{0,63}+"'
_TEXT = r'"(?:[^"\\\x00-\x1f\ufffd]|\\["\\bfnrt]|\\u00[01][0-9a-f])*+"'
"""A JSON string. A replacement character stands for bytes that were not UTF-8, so a line must not contain one."""


def _list(of: str) -> str:
    return rf"\[(?:{of}(?:,{of})*+)?+\]"


def _map(value: str) -> str:
    return rf"\{{(?:{_NAME}:{value}(?:,{_NAME}:{value})*+)?+\}}"


def _kinds(
    digit: str = HEX, number: str = _NUMBER, positive: str = _POSITIVE, short: str = _SHORT, time: str = _TIME
) -> dict[str, str]:
    """Return the expression of each kind of value. `digit`: the expression of one digit of a key."""
    key = f'"{digit}{{64}}"'
    return {
        "key": key,
        "boot": f'"{digit}{{32}}"',
        "digest": f'"{HEX}{{64}}"',
        "signature": f'"{HEX}{{128}}"',
        "ids": f'"(?:{HEX}{{64}})++"',
        "number": number,
        "positive": positive,
        "short": short,
        "time": time,
        "shorts": _list(short),
        "keys": _list(key),
        "ranges": _list(rf"\[{number},{short}\]"),
        "word": _WORD,
        "fields": _map(f"(?:{_TEXT}|{_INTEGER}|true|false)"),
        "counts": _map(_NUMBER),
        "schema": f'"{SCHEMA}"',
        "kind": '"(?:unicast|multicast|copy)"',
    }


# -- the table: which columns the line of an event has, in which order, and of which kind; ? those that may lack ----

_PLACE = {"seq": "positive", "n": "positive", "t?": "time", "mono": "number", "router": "key", "boot": "boot"}
_FORMS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "outward": (OUTWARD_EVENTS, _PLACE | {
        "link": "number", "count": "short", "recipient": "key", "ranges": "ranges", "parcel": "number",
        "reason?": "word", "attempt": "number", "depth": "number", "duration_ns": "number",
    }),
    "unicast": (("accepted",), _PLACE | {
        "kind": "kind", "source": "key", "destination": "key", "peer?": "key", "link": "number", "first": "number",
        "count": "short", "ids": "ids", "sizes": "shorts", "ttls": "shorts", "expiries": "shorts", "recipients": "keys",
    }),
    "multicast": (("accepted",), _PLACE | {
        "kind": "kind", "group": "key", "peer?": "key", "link": "number", "first": "number",
        "count": "short", "ids": "ids", "sizes": "shorts", "ttls": "shorts", "expiries": "shorts", "recipients": "keys",
    }),
    "turned": (TURNED_EVENTS, _PLACE | {
        "signer?": "key", "peer?": "key", "link": "number", "count": "short", "ids?": "ids", "reason": "word",
        "duration_ns?": "number", "bytes?": "number",
    }),
    "header": (("segment",), {
        "router": "key", "boot": "boot", "schema": "schema", "first_seq": "positive", "predecessor?": "digest",
    }),
    "state": (STATE_EVENTS, _PLACE | {"count": "short", "fields": "fields"}),
    "footer": (("seal",), {
        "n": "positive", "router": "key", "first_seq": "positive", "last_seq": "positive", "segments": "positive",
        "lines": "positive", "counts": "counts", "min_t?": "time", "max_t?": "time", "predecessor?": "digest",
        "sha256": "digest", "signature": "signature",
    }),
}  # fmt: skip
MESSAGES = ("outward", "unicast", "multicast", "turned")
"""The forms of nearly all lines."""
_PLAIN = (*MESSAGES, "header")
_MAPPED = ("state", "footer")
_OTHER = _PLACE | {
    "kind?": "kind", "source?": "key", "group?": "key", "signer?": "key", "destination?": "key", "peer?": "key",
    "link?": "number", "first?": "number", "count?": "short", "ids?": "ids", "sizes?": "shorts", "ttls?": "shorts",
    "expiries?": "shorts", "recipients?": "keys", "recipient?": "key", "ranges?": "ranges", "parcel?": "number",
    "reason?": "word", "attempt?": "number", "depth?": "number", "duration_ns?": "number", "bytes?": "number",
    "fields?": "fields",
}  # fmt: skip
"""The columns of events that this version does not know."""
_OF_NONE = f'"(?!(?:{"|".join(COLUMNS)})")' + _NAME[1:]
_UNKNOWN = f",{_OF_NONE}:(?:{_TEXT}|{_INTEGER}|true|false|null|{_list(_INTEGER)}|{_list(_TEXT)})"
_START = r'\{"v":1,"event":'
EVENT = rf'{_START}"([a-z][a-z0-9_:-]*+)"'
"""An expression for the event at the start of a line."""


def _form(name: str, kinds: Mapping[str, str]) -> str:
    events, columns = _FORMS[name]
    return f'"(?:{"|".join(events)})"{_columns(columns, kinds)}'


def _columns(columns: Mapping[str, str], kinds: Mapping[str, str]) -> str:
    parts = []
    for name, kind in columns.items():
        part = f',"{name.removesuffix("?")}":{kinds[kind]}'
        parts.append(f"(?:{part})?+" if name.endswith("?") else part)
    return "".join(parts)


def _lines(names: Sequence[str], kinds: Mapping[str, str], tail: str = "") -> str:
    return f"{_START}(?:{'|'.join(_form(name, kinds) for name in names)}){tail}" + r"\}"


_HEX = _kinds()
PLAIN = _lines(_PLAIN, _HEX)
MAPPED = _lines(_MAPPED, _HEX)
NEWER = _lines(tuple(_FORMS), _HEX, f"(?:{_UNKNOWN})++")
OTHER = f"{_START}{_WORD}{_columns(_OTHER, _HEX)}(?:{_UNKNOWN})*+" + r"\}"
"""A line matches `PLAIN`; or, if all names within each map differ, `MAPPED`, `NEWER`, or `OTHER` with an event that is
none of `KNOWN_EVENTS`."""
EXACT = _lines(MESSAGES, _HEX)
QUICK = _lines(MESSAGES, _kinds('[^"]', "[0-9]{1,18}+", "[0-9]{1,18}+", "[0-9]{1,10}+", "[1-3]?+[0-9]{1,18}+"))
"""Expressions for lines about messages. `QUICK` takes half the time, but does not check within values that keys are hex
digits and that numbers have no leading zeros (which JSON forbids)."""


# -- judging ------------------------------------------------------------------------------------------------

_plain, _mapped, _newer, _other, _event = map(re.compile, (PLAIN, MAPPED, NEWER, OTHER, EVENT))


def is_line(data: bytes) -> bool:
    """Whether these bytes, without a newline, are a valid line of an event log."""
    if len(data) >= LINE_BYTES_MAX:
        return False
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    if _plain.fullmatch(text):
        return True
    if not (_mapped.fullmatch(text) or _newer.fullmatch(text) or _is_of_another_event(text)):
        return False
    try:
        json.loads(text, object_pairs_hook=_with_names_that_differ)
    except ValueError:
        return False
    return True


def columns_fit(row: Mapping[str, Any]) -> bool:
    """Whether the columns of an accepted line are as long as the line says."""
    n, columns = row.get("n"), (row.get("sizes"), row.get("ttls"), row.get("expiries"))
    return (
        n == row.get("count")
        and len(row.get("ids") or "") == 64 * (n or 0)
        and all(len(one or ()) == n for one in columns)
    )


def _is_of_another_event(text: str) -> bool:
    found = _event.match(text)
    return found is not None and found[1] not in KNOWN_EVENTS and _other.fullmatch(text) is not None


def _with_names_that_differ(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name stands there twice")
