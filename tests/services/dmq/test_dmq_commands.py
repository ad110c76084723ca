"""`router dmq` keygen, sign, verify, submit and watch: from keys to a message at a consumer, and the errors."""

from __future__ import annotations

import json
import stat
import time
from base64 import b64decode
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from rigs.patience import HANG_S
from rigs.plain_dmq_node import PlainNode
from samples.dmq import SIGNED

from router.cli import main
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create
from services.dmq.core.protocols import notification as n
from services.dmq.core.stake.distribution import StakeSet, read_stake

BODY = "a body " * 20
PERIOD = "1430"


def dmq(*arguments: object, **given: Any) -> Result:
    return CliRunner().invoke(main, ["dmq", *map(str, arguments)], **given)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    [made] = lines(dmq("keygen", tmp_path / "keys", "--kes-period", PERIOD, "--json"))
    assert made["files"] == ["cold.skey", "cold.vkey", "kes.skey", "kes.vkey", "opcert.cert", "stake.json"]
    assert all(stat.S_IMODE((tmp_path / "keys" / name).stat().st_mode) == 0o600 for name in made["files"])
    return tmp_path / "keys"


def signed(keys: Path, *options: object, body: str = BODY) -> str:
    result = dmq("sign", "--keys", keys, "--kes-period", PERIOD, *options, body)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_what_is_signed_verifies(keys: Path, tmp_path: Path) -> None:
    first, second = signed(keys), signed(keys, "--ttl", 60, body="b" * 90)
    (tmp_path / "lines").write_text(f"{first}\n{second}\n")
    (tmp_path / "bytes").write_bytes(bytes.fromhex(first))
    asked = ("--json", "--at", time.time(), "--pools", keys / "stake.json")
    result = dmq("verify", *asked, tmp_path / "lines", tmp_path / "bytes", second)
    assert result.exit_code == 0
    found = lines(result)
    assert [set(one) for one in found] == [{"id", "revision", "verdict", "reason", "pool", "sentence"}] * 4
    assert [one["verdict"] for one in found] == ["accept"] * 4
    assert found[0] == found[2] and found[1]["id"] != found[0]["id"]
    [text] = dmq("verify", first).stdout.splitlines()
    own_id, revision, verdict, reason, pool, _ = text.split(" ", 5)
    assert (own_id, revision, verdict, reason) == (found[0]["id"], "dmq-0.5", "accept", "-")
    assert pool.startswith("pool1")


def test_a_body_from_standard_input_and_its_facts(keys: Path) -> None:
    result = dmq("sign", "--keys", keys, "--kes-period", PERIOD, "--json", "-", input=b"\xff\n" * 100)
    [found] = lines(result)
    assert (found["size"], found["kes_period"]) == (len(found["message"]) // 2, 1430)
    assert bytes.fromhex(found["message"]).count(b"\xff\n" * 100) == 1


def test_the_revisions(keys: Path) -> None:
    for name in ("dmq-0.4", "dmq-0.5"):
        assert lines(dmq("verify", "--json", "--revision", name, signed(keys, "--revision", name)))[0]["verdict"] == (
            "accept"
        )
    old = signed(keys, "--revision", "cip-29ffe0e", body="c" * 360)
    found = dmq("verify", "--json", "--revision", "cip-29ffe0e", "--at", 1_776_894_291, old)
    assert lines(found)[0]["verdict"] == "accept"


def test_a_rejected_message_ends_with_4(tmp_path: Path) -> None:
    vectors = {one["name"]: one["hex"] for one in SIGNED["messages"]}
    late = dmq("verify", vectors["valid_evolution_5"], "--at", SIGNED["expires_at"] + 1)
    assert late.exit_code == 4 and " reject SigExpired pool1" in late.stdout
    few = dmq("verify", "--max-kes-evolutions", 61, "--at", 1789999000, vectors["valid_evolution_61_last_for_mainnet"])
    assert few.exit_code == 4 and " reject KESAfterEndOCERT " in few.stdout
    none = dmq("verify", "--json", "8100")
    assert none.exit_code == 4
    assert lines(none)[0] == {
        "id": None, "revision": "dmq-0.5", "verdict": "reject", "reason": "DecoderFailure", "pool": None,
        "sentence": "This is no message of dmq-0.5: the message has 1 item instead of 5.",
    }  # fmt: skip
    (tmp_path / "notes").write_text("hello")
    named = dmq("verify", tmp_path / "notes").stdout
    assert f"{tmp_path}/notes is no message of dmq-0.5: the message is not a list; name a file that holds" in named


PREVIEW_GENESIS = {
    "systemStart": "2022-10-25T00:00:00Z", "networkMagic": 2, "slotLength": 1, "slotsPerKESPeriod": 129_600,
    "epochLength": 86_400, "maxKESEvolutions": 62,
}  # fmt: skip
"""The constants that the published genesis of preview has."""
PREVIEWS = " is Cardano preview's magic (CardanoNetworkMagic), and that of its DMQ network is 2147483650; give that"
WRONG: list[tuple[tuple[str, ...], str]] = [
    (("verify", "nothing"), "'nothing' is neither a file nor hexadecimal; give a message as HEX or as FILE"),
    (("verify", "abc"), "is no file, and as a message in hex it has an odd number of hexadecimal digits, 3; write two"),
    (("verify", "{empty}"), "is empty; give a file that holds a message"),
    (("verify", "{home}"), "Is a directory; name a file that can be read"),
    (("verify", "--pools", "{empty}", "00"), "the stake file"),
    (("serve", "-p", "99999"), "--port '99999' is no port; give a number up to 65535, or leave it out"),
    (("serve", "--host-addr", "300.1.1.1"), "--host-addr '300.1.1.1' is no IPv4 address; give one, or leave it out"),
    (("serve", "-c", "{empty}"), "empty: the configuration is not JSON, line 1, column 1 (Expecting value); correct"),
    (
        ("sign", "--keys", "{keys}", "x"),
        "which is the present one of mainnet, since --network was not given: if the keys are of another network, name",
    ),
    (("sign", "--keys", "{keys}", "--network", "preview", "x"), "the present one of preview, as --network says: if"),
    (("verify", "--genesis", "{empty}", "00"), "this is no Shelley genesis"),
    (
        ("verify", "--network", "moon", "00"),
        'network: "moon" is none; write mainnet, preprod, preview or a number below 2^32',
    ),
    (("sign", "--keys", "{home}", "x"), "No such file or directory; name the directory of a pool's keys"),
    (("sign", "--keys", "{keys}", "--kes-period", "1430", "short"), "5 bytes instead of 90 to 2,000; change the body"),
    (("sign", "--keys", "{keys}", "--kes-period", "1429", "x"), "signs in the periods 1430 to 1493, not in 1429"),
    (("conform", "unix://x", "--keys", "{keys}"), "the present one of mainnet, since --network was not given: if the"),
    (("conform", "tcp://127.0.0.1:99999"), "names no place: its port is above 65535; write tcp://HOST:PORT"),
    (("conform", "tcp://:6161"), "'tcp://:6161' names no host; write tcp://HOST:PORT"),
    (("conform", "--as-node", "tcp://127.0.0.1:99999"), "names no place: its port is above 65535"),
    (("conform", "--as-node", "udp://127.0.0.1:1"), "names no place; write PATH or tcp://HOST:PORT"),
    (("keygen", "{keys}"), "opcert.cert, stake.json already; name another directory"),
    (("submit", "00"), "Missing option '--socket'"),
    (
        ("--home", "{new}", "serve", "--network", "preview", "--dmq-network-magic", "7"),
        "--network preview has the magic 2147483650, and --dmq-network-magic names 7; leave one of them out",
    ),
    (
        ("--home", "{new}", "serve", "--network", "preview", "--cardano-network-magic", "1"),
        "--network preview has the Cardano magic 2, and --cardano-network-magic names 1; leave one of them out",
    ),
    (
        ("--home", "{new}", "serve", "--dmq-network-magic", "2912307721", "--cardano-network-magic", "2"),
        "--dmq-network-magic 2912307721 is of mainnet, and --cardano-network-magic 2 is of preview; give both of one",
    ),
    (
        ("--home", "{new}", "serve", "--network", "mainnet", "--genesis", "{preview}"),
        "preview.json is of preview, and the network is mainnet; give the genesis of mainnet with --genesis, or",
    ),
    (("--home", "{new}", "serve", "--genesis", "{preview}"), "preview.json is of preview, and the network is mainnet"),
    (
        ("--home", "{new}", "serve", "-c", "{private}"),
        "ShelleyGenesisFile names {home}/none.json, which does not exist\n"
        "{home}/private.json: NetworkMagic 4711 is that of a network whose times are not known; name its Shelley",
    ),
    (("--home", "{new}", "serve", "--network", "4711"), "name its Shelley genesis with --genesis; nothing was made"),
    (("--home", "{new}", "serve", "--dmq-network-magic", "2"), f"--dmq-network-magic 2{PREVIEWS}; nothing was made"),
    (("--home", "{new}", "serve", "--network", "2"), f"--network 2{PREVIEWS}; nothing was made"),
    (
        ("--home", "{new}", "serve", "-c", "{cardano}"),
        "{home}/cardano.json: NetworkMagic 764824073 is Cardano mainnet's",
    ),
    (
        ("--home", "{made}", "serve", "-c", "{cardano}"),
        "{home}/cardano.json: NetworkMagic 764824073 is Cardano mainnet's",
    ),
    (
        ("--home", "{new}", "serve", "--network", "2", "--genesis", "{preview}", "--stake", "none"),
        f"--network 2{PREVIEWS}, unless this is a network of your own\n--stake none: there is no such file",
    ),
    (("--home", "{made}", "serve", "--network", "2"), f"--network 2{PREVIEWS}\n"),
    (("--home", "{new}", "serve", "--stake", "/"), "--stake / is a directory; give the output of cardano-cli query"),
    (("--home", "{new}", "serve", "--genesis", "{empty}"), "this is no Shelley genesis: it is no JSON"),
    (("--home", "{new}", "doctor"), "its socket is not known; name the node's socket with --socket"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG, ids=lambda one: one if isinstance(one, str) else one[0])
def test_wrong_usage(arguments: tuple[str, ...], text: str, keys: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "preview.json").write_text(json.dumps(PREVIEW_GENESIS))
    (tmp_path / "private.json").write_text('{"NetworkMagic": 4711, "ShelleyGenesisFile": "none.json"}')
    (tmp_path / "cardano.json").write_text('{"NetworkMagic": 764824073}')
    Home(tmp_path / "made").create()
    load_or_create(Home(tmp_path / "made"), NODE)
    files = {"empty": tmp_path / "empty", "preview": tmp_path / "preview.json", "new": tmp_path / "new",
             "private": tmp_path / "private.json", "cardano": tmp_path / "cardano.json",
             "made": tmp_path / "made"}  # fmt: skip
    places = {"home": tmp_path, "keys": keys, **files}
    before, rest = (arguments[:2], arguments[2:]) if arguments[0] == "--home" else ((), arguments)
    words = [one.format(**places) for one in (*before, "dmq", *rest)]
    result = CliRunner().invoke(main, words)
    assert not (tmp_path / "new").exists()
    assert result.exit_code == (1 if arguments[0] == "keygen" else 2)
    assert text.format(**places) in result.stderr and "Traceback" not in result.stderr


async def run(*arguments: object) -> Result:
    """Run a command in a thread, because it has a loop of its own."""
    result: Result = await trio.to_thread.run_sync(partial(dmq, *arguments))
    return result


async def test_from_a_signer_to_a_consumer(keys: Path, tmp_path: Path) -> None:
    stake = read_stake((keys / "stake.json").read_bytes(), 0.0)
    first, second, expired = signed(keys), signed(keys, body="b" * 90), signed(keys, "--ttl", 0, body="e" * 90)
    socket = ("--socket", tmp_path / "node", "--network", "preprod", "--json")
    with trio.fail_after(HANG_S):
        async with PlainNode(stake).listening(tmp_path / "node"):
            taken = await run("submit", *socket, first, second)
            assert (taken.exit_code, [one["verdict"] for one in lines(taken)]) == (0, ["accept"] * 2)
            again = await run("submit", *socket, first, "8100", expired)
            watched = await run("watch", *socket, "--count", 2)
            text = await run("watch", *socket[:-1], "--count", 1)
            late = await run("watch", *socket, "--count", 3, "--timeout", 0.2)
            other = await run("watch", "--socket", f"unix://{tmp_path / 'node'}", "--count", 1)
    assert again.exit_code == 4
    assert [one["reason"] for one in lines(again)] == ["alreadyReceived", "DecoderFailure", "expired"]
    assert watched.exit_code == 0
    found = lines(watched)
    assert [list(one) for one in found] == [["id", "pool", "size", "expires_at", "body_base64"]] * 2
    assert [one["id"] for one in found] == [one["id"] for one in lines(taken)]
    assert b64decode(found[0]["body_base64"]).decode() == BODY and found[0]["size"] == len(first) // 2
    assert text.stdout.split()[0] == found[0]["id"] and text.stdout.split()[1].startswith("pool1")
    assert late.exit_code == 5 and "of 3 messages came within 0.2 s" in late.stderr
    assert other.exit_code == 4 and "name its network with --network" in other.stderr


class Recording(PlainNode):
    """A node that keeps what it reads of notification."""

    def __init__(self, stake: StakeSet) -> None:
        super().__init__(stake)
        self.read: list[bytes] = []
        self.is_done = trio.Event()

    def reads(self, numbered: int, payload: bytes) -> Iterable[tuple[int, bytes]]:
        if numbered == n.NUMBER:
            self.read.append(payload)
            if payload == self.revision.notification.encode(n.MsgClientDone()):
                self.is_done.set()
        return super().reads(numbered, payload)


async def test_watch_ends_in_order_and_acknowledges_what_it_has_printed_whole(keys: Path, tmp_path: Path) -> None:
    node = Recording(read_stake((keys / "stake.json").read_bytes(), 0.0))
    socket = ("--socket", tmp_path / "node", "--network", "preprod")
    encode = node.revision.notification.encode
    asked, more = encode(n.MsgRequestMessagesBlocking()), encode(n.MsgRequestMessagesNonBlocking())
    done = encode(n.MsgClientDone())
    with trio.fail_after(HANG_S):
        async with node.listening(tmp_path / "node"):
            assert (await run("submit", *socket, signed(keys), signed(keys, body="b" * 90))).exit_code == 0
            for count, expected in ((1, [asked, done]), (2, [asked, more, done])):
                node.read.clear()
                node.is_done = trio.Event()
                assert len((await run("watch", *socket, "--count", count)).stdout.splitlines()) == count
                await node.is_done.wait()  # the command may have ended before its last words were read
                assert node.read == expected


async def test_no_node(tmp_path: Path) -> None:
    for command in (
        ("submit", "--socket", tmp_path / "none", SIGNED["messages"][0]["hex"]),
        ("watch", "--socket", "x"),
    ):
        result = await run(*command)
        assert result.exit_code == 3 and "start the node, or name its socket with --socket" in result.stderr
