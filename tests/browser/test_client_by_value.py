"""The deciding parts of the page's client by value: where the Python client has the same, with the same outcome."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from chrome import Page, fresh
from msgspec.structs import replace

from router.client.custody.causal import CausalOrder, Given, OrderLimits
from router.client.custody.causes import Heads
from router.core.wire.application import SealError, content_key_id, encrypt, unseal
from router.core.wire.codec import Malformed, decode, encode
from router.core.wire.crypto import MessageId, PublicKey, SigningKey, digest
from router.core.wire.succession import formers, leads, make_succession, read_formers

pytestmark = pytest.mark.xdist_group("browser")
GAP_S = 1.0


def id_of(number: int) -> MessageId:
    return MessageId(number.to_bytes(32, "big"))


async def opened(devtools_browser: Any, port: int) -> Page:
    page: Page = await devtools_browser.page(f"http://127.0.0.1:{port}/test/values.html")
    await page.until("window.causes")
    return page


def script_of_causes(chance: random.Random) -> tuple[list[list[Any]], list[list[str]]]:
    """Return what an app is given and publishes, and its heads after each step, as Python has them."""
    heads, script, due, open_ids = Heads(), list[list[Any]](), list[list[str]](), list[MessageId]()
    for number in range(1, 200):
        id, deps = id_of(number), list(heads.ids(0))
        word = chance.choice(("given", "published", "published", "end", "end"))
        if word == "end" and open_ids:
            ended = open_ids.pop(chance.randrange(len(open_ids)))
            word = chance.choice(("kept", "refused"))
            getattr(heads, word)(ended)
            script.append([word, ended.hex()])
        elif word == "published":
            heads.published(id, number, deps)
            open_ids.append(id)
            script.append(["published", id.hex(), number, [dep.hex() for dep in deps]])
        else:
            named = [*chance.sample(deps, min(len(deps), 1)), id_of(chance.randrange(1, 300))]
            heads.given(id, number, named)
            script.append(["given", id.hex(), number, [dep.hex() for dep in named]])
        due.append([head.hex() for head in heads.ids(0)])
    return script, due


def script_of_causal(chance: random.Random) -> Iterator[tuple[list[Any], list[list[Any]]]]:
    """Yield each step of a group's messages that come in any order, and what is given after it, as Python has it."""
    order = CausalOrder[str](Given(1000), OrderLimits(gap_s=GAP_S, waiting_max=512))
    senders = [PublicKey(bytes([name]) * 32) for name in range(1, 4)]
    coming = list(range(1, 120))
    chance.shuffle(coming)
    now_s, given = 0.0, set[MessageId]()
    for number in sorted(coming, key=lambda one: one + chance.randrange(12)):
        now_s += chance.choice((0.0, 0.0625, 0.25))
        id, sender = id_of(number), chance.choice(senders)
        deps = sorted({id_of(chance.randrange(1, number + 3)) for _ in range(chance.randrange(3))} - {id})
        life_s = chance.choice((0.5, 100.0))
        turns: list[list[Any]] = []
        if chance.random() < 0.1:
            order.settle(id)
            given.add(id)
            step = [1000 * now_s, "settle", id.hex()]
        else:
            step = [1000 * now_s, "offer", id.hex(), sender.hex(), number, [dep.hex() for dep in deps], 1000 * life_s]
            unknown = [dep for dep in deps if dep not in given]
            if order.is_next(sender, unknown):
                turns.append([id.hex(), [], order.pass_by(id)])
                given.add(id)
            else:
                order.add(id, sender, number, unknown, id.hex(), size=1, now_s=now_s, life_s=life_s)
        while (turn := order.ready() or order.overdue(now_s)) is not None:
            turns.append([turn.item, [one.hex() for one in turn.missing], turn.late])
            given.add(MessageId.fromhex(turn.item))
        yield step, turns


async def test_heads_are_pythons_whatever_is_refused(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        for seed in range(5):
            script, due = script_of_causes(random.Random(seed))
            assert await page.js(f"causes({json.dumps(script)})") == due, f"seed {seed}"


async def test_causal_order_is_pythons(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        for seed in range(5):
            steps = list(script_of_causal(random.Random(seed)))
            found = await page.js(f"causal({json.dumps([step for step, _ in steps])}, {1000 * GAP_S})")
            assert found == [turns for _, turns in steps], f"seed {seed}"


async def test_equal_unicasts_are_messages_of_their_own(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        for ttl_s in (0, 5, 86_400):
            assert len(set(await page.js(f"alike(20, {ttl_s})"))) == 20


async def test_messages_that_nobody_reads_do_not_hold_up_the_others(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        await page.js("void (window.found = inbox(['read']))")
        await page.js("void found.come(1, 'alone', '')")
        come = "(_, i) => (found.come(i + 2, `m${i}`, 'read'), found.box.settle(`m${i}`))"
        await page.js(f"Promise.all(Array.from({{ length: 600 }}, {come}))")
        assert await page.js("found.link.said.filter(([word]) => word === 'refused')") == [["refused", 1, 16]]
        assert await page.js("found.link.said.at(-1)") == ["settled", 601]
        assert "no loop reads them" in (await page.js("found.problems"))[0]


async def test_message_that_was_refused_is_not_shown_again_after_a_lost_connection(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        await page.js("void (window.found = inbox(['read']))")
        await page.js("void (found.come(1, 'bad', 'read'), found.box.turnDown('bad', 1, 'nonsense'), found.lost())")
        await page.js("void found.come(1, 'bad', 'read')")
        assert await page.js("found.given") == ["bad"]
        assert await page.js("found.link.said") == [["refused", 1, 1], ["settled", 1]]
        await page.js("void (found.come(2, 'later', 'read'), found.box.turnDown('later', 16, '', true))")
        await page.js("void (found.lost(), found.come(1, 'later', 'read'))")
        assert await page.js("found.given") == ["bad", "later", "later"]


async def test_signed_words_that_another_member_seals_again_are_shown_once(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        await page.js("void (window.found = inbox(['read']))")
        await page.js("void (found.come(1, 'first', 'read', 'words'), found.come(2, 'copy', 'read', 'words'))")
        assert await page.js("found.given") == ["first"]
        assert "shown once" in (await page.js("found.problems"))[0]


NUMBERS = [0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**64 - 1]
TEXTS = [
    "",
    "a",
    "aa",
    "b",
    "é",
    "aé",
    "日本",
    "🙂",
    "x" * 23,
    "x" * 24,
    "x" * 300,
    "\ufeff",
    "__proto__",
    "1",
    "10",
    "2",
]
BYTES = [bytes(size) for size in (0, 1, 23, 24, 255, 256, 65535, 65536, 200_000)]


def value(chance: random.Random, depth: int = 0) -> Any:
    """Return a plain value of any kind."""
    match chance.randrange(9 if depth < 5 else 7):
        case 0:
            return chance.choice(NUMBERS)
        case 1:
            return -1 - chance.choice(NUMBERS)
        case 2:
            return chance.choice(BYTES[:6])
        case 3 | 4:
            return chance.choice(TEXTS)
        case 5 | 6:
            return chance.choice((True, False, None))
        case 7:
            return [value(chance, depth + 1) for _ in range(chance.randrange(30))]
        case _:
            return {key: value(chance, depth + 1) for key in chance.sample(TEXTS, chance.randrange(8))}


def is_plain(item: bytes) -> bool:
    try:
        decode(item, 1 << 20)
    except Malformed:
        return False
    return True


async def test_items_are_read_and_written_as_python_does(devtools: str, port: int) -> None:
    chance = random.Random(7)
    whole = [encode(one) for one in (*NUMBERS, *(-1 - one for one in NUMBERS), *TEXTS, *BYTES)]
    whole += [encode(value(chance)) for _ in range(300)]
    spoilt = [bytes.fromhex(one) for one in (
        "", "1800", "1817", "190018", "1900ff", "1a00000100", "1a0000ffff", "1b0000000000000001",
        "1b00000000ffffffff", "5803414243", "780141", "9801f6", "b80161610a", "5f4141ff", "7f6161ff", "9fff",
        "bfff", "c11a00000000", "c2410a", "d9d9f7f6", "f7", "f0", "f818", "f93c00", "fa3f800000",
        "fb3ff0000000000000", "ff", "fc", "1c", "3f", "0000", "61ff", "62c328", "a1f6f6", "a2616201616101",
        "a2616101616101", "a2626161016162f6", "8301", "a26161", "44414243", "9bffffffffffffffff",
        "bbffffffffffffffff", "5bffffffffffffffff", "7bffffffffffffffff", "9affffffff", "81" * 40,
        *("81" * deep + "f6" for deep in range(14, 19)), *("a16161" * deep + "f6" for deep in range(14, 19)),
        "63eda080", "62c080", "64f4908080", "3b7fffffffffffffff", "3bffffffffffffffff", "3b001fffffffffffff", "f97e00",
        "f98000", "fb8000000000000000", "a2616101616201ff", "a261620161610a", "a2626262016163f6",
    )]  # fmt: skip
    for one in whole[:200]:
        if len(one) > 1:
            spoilt.append(one[: chance.randrange(len(one))])
            at = chance.randrange(min(len(one), 40))
            spoilt.append(one[:at] + bytes([chance.randrange(256)]) + one[at + 1 :])
    items = whole + spoilt
    due = [one.hex() if is_plain(one) else "malformed" for one in items]
    assert not any(one.startswith("malformed") for one in due[: len(whole)]) and "malformed" in due
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        found = await page.js(f"cbor({json.dumps([one.hex() for one in items])})")
        assert [row for row in zip(items, due, found, strict=True) if row[1] != row[2]] == []


MEMBER, GROUP, CONTENT_KEY = SigningKey(b"m" * 32), SigningKey(b"g" * 32).public, b"c" * 32
SOUND = {"to": GROUP, "seq": 3, "deps": [bytes(32)], "from": MEMBER.public}
SAID: list[tuple[Any, Any]] = [
    (SOUND, [2, b"hello"]), (SOUND, [1, b""]), (SOUND, [0, {}]), (SOUND, [10, {"a": [1, None]}]), (SOUND, [15, 7]),
    ({**SOUND, "deps": [bytes([n]) * 32 for n in range(256)]}, [2, b"x"]), ({**SOUND, "seq": 2**64 - 1}, [2, b"x"]),
    (SOUND, [10, [0] * 4095]), (SOUND, [13, b"x"]), (SOUND, [10, [0] * 5000]),
    ({**SOUND, "seq": -1}, [2, b"x"]), ({**SOUND, "seq": "3"}, [2, b"x"]), ({**SOUND, "seq": None}, [2, b"x"]),
    ({**SOUND, "more": 1}, [2, b"x"]), ({**SOUND, "deps": [bytes(32)] * 257}, [2, b"x"]),
    ({**SOUND, "deps": ["a" * 32]}, [2, b"x"]), ({**SOUND, "deps": [bytes(31)]}, [2, b"x"]),
    ({**SOUND, "deps": {}}, [2, b"x"]), ({**SOUND, "to": b"g" * 31}, [2, b"x"]), ({**SOUND, "to": "g"}, [2, b"x"]),
    ({**SOUND, "to": MEMBER.public}, [2, b"x"]), ({**SOUND, "from": GROUP}, [2, b"x"]),
    ({**SOUND, "from": 1}, [2, b"x"]),
    (SOUND, [2, "text"]), (SOUND, [2, b"x", 1]), (SOUND, [2]), (SOUND, {}), (SOUND, [99, b"x"]), (SOUND, ["2", b"x"]),
    (SOUND, [0, b""]), (SOUND, [0, {"a": 1}]), ({**SOUND, "deps": []}, [0, {}]), (SOUND, [-1, b"x"]), ([], [2, b"x"]),
    ({"to": GROUP}, [2, b"x"]), (None, None),
]  # fmt: skip
"""Headers and bodies that a member of a group signs and seals, as the rules have it and otherwise."""


def sealed_words(header: Any, said: Any) -> bytes:
    sig = MEMBER.sign(encode([header, said]))
    plain = encode([{**header, "sig": sig} if type(header) is dict else header, said])
    secret = encrypt(plain, b"upsycle group body 1" + GROUP, bytes(24), CONTENT_KEY)
    return encode([1, content_key_id(CONTENT_KEY), bytes(24), secret])


def opened_by_python(body: bytes) -> Any:
    try:
        found = unseal(body, GROUP, {content_key_id(CONTENT_KEY): CONTENT_KEY})
    except (Malformed, SealError):
        return "malformed"
    deps = [one.hex() for one in found.deps]
    return [found.sender.hex(), str(found.seq), deps, found.code, found.content.hex(), found.said.hex()]


async def test_words_that_members_sign_are_taken_and_refused_as_python_does(devtools: str, port: int) -> None:
    bodies = [sealed_words(*one) for one in SAID]
    whole = decode(bodies[0], 5)
    bodies += [
        encode([*whole[:at], *wrong, *whole[at + 1 :]]) for at in range(4) for wrong in ([3], [b"x"], [], [1, 2])
    ]
    due = [opened_by_python(one) for one in bodies]
    assert [one != "malformed" for one in due[:9]] == [True] * 9 and set(due[9:]) == {"malformed"}
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        asked = f"words({json.dumps([one.hex() for one in bodies])}, '{GROUP.hex()}', '{CONTENT_KEY.hex()}')"
        found = await page.js(asked)
        assert [row for row in zip([*SAID, *bodies[len(SAID) :]], due, found, strict=True) if row[1] != row[2]] == []


async def test_what_is_said_in_one_turn_goes_together(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        assert await page.js("gathered(true)") == [1, [2, 3], 4, 5, 6, 7, [8, 9]]
        assert await page.js("gathered(false)") == [1, 2, 3, 4, 5, 6, 7, 8, 9], "an older end takes one at a time"
        goodbye = encode([8, 25, "over"])[0]
        assert await page.js("linked(5, 100)") == [[0, 1, 2, 3, 4], [99, goodbye], None]
        assert await page.js("linked(3, 200000)") == [[0, 1], [2], [99, goodbye], None], "256 KiB are enough for one"


async def test_digests_are_those_of_python(devtools: str, port: int) -> None:
    sizes = [
        0,
        1,
        2,
        63,
        64,
        65,
        127,
        128,
        129,
        1023,
        1024,
        1025,
        2048,
        2049,
        3072,
        3073,
        4096,
        4097,
        5121,
        8192,
        16385,
    ]
    sizes += [31_744, 100_000, 1 << 20]
    due = [digest(bytes(at % 251 for at in range(size))).hex() for size in sizes]
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        assert await page.js(f"digests({sizes})") == due


async def test_a_node_is_followed_to_another_key_as_python_follows_it(devtools: str, port: int) -> None:
    keys = [SigningKey(bytes([number]) * 32) for number in range(1, 8)]
    said = [
        make_succession(old, new, 1_800_000_000 + at, 1_800_000_009 + at)
        for at, (old, new) in enumerate(pairwise(keys))
    ]
    forged = [said[0], replace(said[1], until_s=said[1].until_s + 1), said[2]]
    hellos = list[tuple[list[Any], bytes, bytes]]()
    for chain in (said[:1], said[:5], said[1:4], said[2:6], [said[0], said[2]], forged[:3]):
        was = [one.items() for one in formers(chain)]
        for old in keys[:3]:
            for key in (keys[1], keys[4], keys[6], keys[5], keys[3], old):
                hellos.append((was, bytes(old.public), bytes(key.public)))
    due = [leads(read_formers(decode(encode(was), 64)), old, PublicKey(key)) for was, old, key in hellos]
    assert any(due) and not all(due)
    async with fresh(devtools) as browser:
        page = await opened(browser, port)
        asked = json.dumps([[encode(was).hex(), old.hex(), key.hex()] for was, old, key in hellos])
        assert await page.js(f"led({asked})") == due
        assert await page.js(f"led([['80', '{bytes(32).hex()}', '{bytes(32).hex()}'], ['a0', '00', '00']])") == [
            False,
            False,
        ]
