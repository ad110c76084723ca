"""Lines of an event log, and near misses: each kind of line, damaged in many ways, from a seed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from random import Random

from msgspec.structs import replace

from router.core.log.line import Line, encode_line
from samples.audit_logs import APP, OTHER_APP, Log, message_id

EDGES = (0, 1, 9, 10**10 - 1, 10**10, 10**18 - 1, 10**18, 4 * 10**18 - 1, 4 * 10**18, 2**63 - 1, 2**63, 2**64, 10**30)
NUMBERS = ('"5"', "1.0", "1e2", "1E2", "-1", "-0", "01", "+1", "true", "false", "null", "5 ", " 5", "1.5", "NaN", "[]",
           "0x5", *map(str, EDGES))  # fmt: skip
TEXTS = ("5", "null", "true", '"\\ud800"', '"\\udc00x"', "'delivered'", '"Delivered"', '""', '"a\\u0062"', '"\\/"',
         '"é"', '"\\u0000"', '"\ufffd"', f'"{APP.upper()}"', f'"{APP[:-1]}"', f'"{APP}0"', '["x"]', "{}")  # fmt: skip
WHOLE = (b"", b"{}", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"v":1}', b"\xef\xbb\xbf", b"\x00", b"hello {", b"{" * 2000)
Spoil = Callable[[Random, str], str]


def lines() -> list[Line]:
    """Return one line of each kind, of the router A, each with the sequence number 2."""
    log = Log()
    log.seq = 2
    log.accepted(1, range(3), (APP, OTHER_APP))
    log.accepted(4, [4], (), kind="unicast", group=None, source=APP, destination=OTHER_APP, peer=None)
    log.outward("forwarded", [(1, 3)])
    log.outward("delivered", [(1, 1), (3, 1)])
    log.outward("refused", [(4, 1)], parcel=4, reason="peer-refused")
    log.turned("duplicate", 3, "duplicate")
    log.turned("refused", 5, "bad-signature")
    log.state("link_up", peer=APP, link=2, standing='a "peer" \\ of\tours é')
    log.state("link", peer=APP, rtt_ns=5, offset_ns=-7, head_seq=3, head_digest=message_id(1))
    log.state("clock_step", by_s=7200, doubted=True)
    log._add("teleported", 1, peer=APP, link=2, recipients=[APP], fields={"so": 1})
    return [replace(line, seq=2) for line in log.lines]


def _number(chance: Random, text: str) -> str:
    return _one(chance, r"(?<=[:\[,])\d+(?=[,\]}])", chance.choice(NUMBERS), text)


def _text(chance: Random, text: str) -> str:
    return _one(chance, r'(?<=:)"[^"]*"|(?<=\[)"[^"]*"', chance.choice(TEXTS), text)


def _column(chance: Random, text: str) -> str:
    """Remove a column, double it, or make it null."""
    column = r',"\w+":(?:"[^"\\]*"|\d+|\[[^\]]*\]+)'
    found = [one[0] for one in re.finditer(column, text)]
    one = chance.choice(found)
    key = one.partition(":")[0]
    return text.replace(one, chance.choice(("", one + one, f"{key}:null", f"{one}{key}:null", f" {one}")), 1)


def _order(chance: Random, text: str) -> str:
    row = list(json.loads(text).items())
    chance.shuffle(row)
    return json.dumps(dict(row), separators=(",", ":"))


def _spaces(chance: Random, text: str) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice((" ", "\t", "\r", "\x00", "\x1f", "\x7f", "\\", '"', ",", "}")) + text[at:]


def _tail(chance: Random, text: str) -> str:
    """Append an unknown or a known column."""
    column = chance.choice(("mood", "t", "seq", "Mood", "mood-", "v", "fields"))
    value = chance.choice(
        ("1", "-1", "1.5", '"x"', "null", "true", "[1,2]", '["a"]', "[1,[2]]", '{"a":1}', "[]", '"\\q"')
    )
    return f'{text[:-1]},"{column}":{value}}}'


def _fields(chance: Random, text: str) -> str:
    more = chance.choice(('"a":1,"a":2', '"a":{"b":1}', '"a":[1]', '"a":null', '"a":1.5', '"A":1', '"a":"x"', '"a":-5'))
    return text.replace('"fields":{', f'"fields":{{{more},', 1)


def _event(chance: Random, text: str) -> str:
    words = "segment", "seal", "accepted", "delivered", "start", "refused", "swallowed", "Odd", "a b"
    return re.sub(r'"event":"\w+"', f'"event":"{chance.choice(words)}"', text, count=1)


def _one(chance: Random, pattern: str, new: str, text: str) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.start()] + new + text[one.end() :]


SPOILS: tuple[Spoil, ...] = (_number, _number, _number, _text, _text, _column, _order, _spaces, _tail, _fields, _event)


def spoilt(chance: Random, line: Line) -> bytes:
    """Return the line with one fault; or, seldom, other text in its place, or the line with one byte changed."""
    text = encode_line(line).decode()
    match chance.randrange(12):
        case 0:
            return chance.choice(WHOLE)
        case 1:
            data = bytearray(text.encode())
            data[chance.randrange(len(data))] = chance.choice([*range(10), *range(11, 256)])
            return bytes(data)
    return chance.choice(SPOILS)(chance, text).encode("utf-8", "surrogatepass").replace(b"\n", b" ")


def samples(seed: int, count: int) -> Iterator[tuple[Line, bytes]]:
    """Yield lines, each with a damaged encoding; every tenth is intact."""
    chance, found = Random(seed), lines()
    for number in range(count):
        line = chance.choice(found)
        yield line, encode_line(line) if number % 10 == 0 else spoilt(chance, line)
