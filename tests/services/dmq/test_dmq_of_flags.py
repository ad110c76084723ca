"""A DMQ node that flags describe, in a home with a router: its commands ask the node that runs, not `router.toml`."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result
from rigs.patience import HANG_S

from router.actors.process import program
from router.cli import main
from router.cli.output import time_text
from router.rig.node import NodeProcess
from router.rig.process import until
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create

GENESIS = {
    "systemStart": "2022-06-01T00:00:00Z", "networkMagic": 42, "slotLength": 1, "slotsPerKESPeriod": 86_400,
    "epochLength": 432_000, "maxKESEvolutions": 62,
}  # fmt: skip
"""That of a network of one's own."""
ANY = ("--network", "4711")


async def dmq(home: Home, *arguments: object) -> Result:
    """Run `router dmq` on this home."""
    whole = ["--home", str(home.path), "dmq", *map(str, arguments)]
    return await trio.to_thread.run_sync(CliRunner().invoke, main, whole)


async def test_its_commands_know_its_socket_and_its_genesis(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    load_or_create(home, NODE)
    genesis, keys, socket = tmp_path / "genesis.json", tmp_path / "keys", tmp_path / "dmq.socket"
    genesis.write_text(json.dumps(GENESIS))
    flags = (*ANY, "--genesis", str(genesis), "--local-socket", str(socket), "--consumer", f"one={tmp_path}/one.socket")
    stake = ("--stake", str(keys / "stake.json"))
    node = NodeProcess(
        "node", home, tmp_path / "stderr", {}, *flags, *stake, served_by=(*program("router"), "dmq")
    )  # fmt: skip
    assert (await dmq(home, "keygen", *ANY, "--genesis", str(genesis), str(keys))).exit_code == 0
    before = home.config_path.read_text()
    await node.start()
    try:
        signed = await dmq(home, "sign", *ANY, "--genesis", str(genesis), "--keys", str(keys), "a body " * 20)
        taken = await dmq(home, "submit", *ANY, "--socket", str(socket), signed.stdout.strip())
        assert taken.exit_code == 0, taken.stderr
        found = await dmq(home, "doctor", "--json")
        checks = {one["check"]: one for one in json.loads(found.stdout)}
        names = ("settings", "clock", "socket", "magic", "genesis", "stake", "certificates", "consumers", "nodes")
        assert found.exit_code == 0 and {name: one["ok"] for name, one in checks.items()} == dict.fromkeys(
            (*names, "topology", "doors", "spacing"), True
        )
        assert checks["settings"]["found"] == "router.toml is in order"
        assert checks["socket"]["found"].startswith(str(socket)) and "clients of 4711" in checks["magic"]["found"]
        assert checks["consumers"]["found"].startswith("1 named, none lags: at most 1 message to read; one lags from")
        status = json.loads((await dmq(home, "status", "--json")).stdout)
        assert (status["magic"], status["socket"], status["genesis"]) == (4711, f"unix:{socket}", str(genesis))
        assert re.search(r"^stake +1 pool, \d+ (s|min) old$", (await dmq(home, "status")).stdout, re.MULTILINE)
        [held] = json.loads((await dmq(home, "mempool", "--json")).stdout)

        async def is_told() -> bool:
            why = (await node.run("why", held["id"])).stdout
            return ", owed to one\n" in why and "to_be_read_by one, " in why

        await until("the service's event is in the log, to which it comes behind the answer", is_told)
        conform = await dmq(
            home, "conform", f"unix://{socket}", "--keys", str(keys), "--only", "taken", "--only", "given"
        )
        assert conform.stderr == "2 checks: 2 ok, 0 wrong, 0 left out\n", "it counts KES periods as the node does"
    finally:
        await node.stop()
    assert home.config_path.read_text() == before, "flags change nothing in it"
    done = await node.run("dmq", "serve", "--network", "preview", "--local-socket", str(socket))
    assert (done.code, done.stdout) == (1, "") and done.stderr == (
        "the service dmq cannot start: it was made for the network 4711 in dmq-0.5, and is to serve preview in "
        "dmq-0.5; name that network again, or give this one a home of its own, or in this home a service of another "
        "name\n"
    ), "what it finds only after its doors are open ends it, too"


async def test_a_consumer_that_one_start_does_not_name_goes_on_where_it_stopped(tmp_path: Path) -> None:
    home, keys, stderr = Home(tmp_path / "home"), tmp_path / "keys", tmp_path / "stderr"
    preview, stake = ("--network", "preview"), ("--stake", str(keys / "stake.json"))
    assert (await dmq(home, "keygen", *preview, str(keys))).exit_code == 0
    agg, other = (f"{name}={tmp_path}/{name}.socket" for name in ("agg", "other"))
    flags = (*preview, "--local-socket", f"{tmp_path}/dmq.socket", *stake)
    node = NodeProcess("node", home, stderr, {}, *flags, "--consumer", agg, served_by=(*program("router"), "dmq"))

    async def submitted(*bodies: str) -> None:
        for body in bodies:
            signed = await dmq(home, "sign", *preview, "--keys", str(keys), body * 20)
            done = await dmq(home, "submit", *preview, "--socket", f"{tmp_path}/dmq.socket", signed.stdout.strip())
            assert done.exit_code == 0, done.stderr

    async def watched(count: int) -> list[str]:
        done = await dmq(home, "watch", *preview, "--socket", f"{tmp_path}/agg.socket", "--count", str(count), "--json")
        return [b64decode(json.loads(line)["body_base64"]).decode()[:6] for line in done.stdout.splitlines()]

    async def counts() -> list[tuple[str, int]]:
        found = json.loads((await dmq(home, "status", "--json")).stdout)
        return [(one["name"], one["lag"]) for one in (*found["consumers"], *found["named_no_more"])]

    async def acknowledged() -> None:
        with trio.fail_after(HANG_S):  # the command may have ended before its last words were read
            while await counts() != [("agg", 0)]:
                pass

    async def audited() -> dict[str, int]:
        [found] = json.loads((await node.run("audit", str(home.path), "--json")).stdout)["services"]
        return dict(found)

    await node.start()
    try:
        await submitted("first ", "second")
        assert await watched(2) == ["first ", "second"]
        await acknowledged()
        await submitted("third ")
        await node.stop()
        node.flags = (*flags, "--consumer", other)
        await node.start()
        assert await counts() == [("other", 3), ("agg", 1)]
        assert re.search(r"^agg +named no more; forgotten at \d\d:\d\d:\d\d UTC +1 +0$",
                         (await dmq(home, "status")).stdout, re.MULTILINE)  # fmt: skip
        await node.stop()
        node.flags = flags
        await node.start()
        assert await counts() == [("agg", 1)] and await watched(1) == ["third "]
        with trio.fail_after(HANG_S):  # the node's log lags a little behind its services
            while (found := await audited())["done"] < 3:
                pass
    finally:
        await node.stop()
    said = stderr.read_text()
    assert said.count("--consumer gives other in the place of all consumers that router.toml names: agg\n") == 1
    assert (
        said.count("the consumers are those that router.toml names: agg; --consumer gives others in their place") == 1
    )
    assert "the consumer agg is named no more; 1 message waits for it. Named again, it goes on where it stopped" in said
    assert {key: found[key] for key in ("messages", "owed", "done", "doubled", "unaccounted")} == {
        "messages": 3, "owed": 3, "done": 3, "doubled": 0, "unaccounted": 0,
    }  # fmt: skip


async def test_why_says_that_a_message_is_owed_to_nobody_and_what_comes_next(tmp_path: Path) -> None:
    home, keys, socket = Home(tmp_path / "home"), tmp_path / "keys", tmp_path / "dmq.socket"
    assert (await dmq(home, "keygen", "--network", "preview", str(keys))).exit_code == 0
    flags = ("--network", "preview", "--local-socket", str(socket), "--stake", str(keys / "stake.json"))
    node = NodeProcess("node", home, tmp_path / "stderr", {}, *flags, served_by=(*program("router"), "dmq"))
    await node.start()
    try:
        signed = await dmq(home, "sign", "--network", "preview", "--keys", str(keys), "a body " * 20)
        done = await dmq(
            home, "submit", "--network", "preview", "--socket", str(socket), "--json", signed.stdout.strip()
        )
        own_id = json.loads(done.stdout)["id"]
        [held] = json.loads((await dmq(home, "mempool", "--json")).stdout)
        until = time_text(held["expires_at"])
        with trio.fail_after(HANG_S):  # the node's log lags a little behind its services
            while "to_be_read_by" not in (said := (await node.run("why", own_id)).stdout):
                pass
        assert re.search(rf"^at dmq +to_be_read_by nobody, kept_until_it_expires {until}$", said, re.MULTILINE), said
        assert f", due {until}, " in said and "owed to nobody" in said and "handover" not in said
        fields = json.loads((await node.run("why", own_id, "--json")).stdout)["noted"][0]["fields"]
        assert (fields["handover"], fields["recipients"]) == ("owed", ""), "in JSON as it is in the log"
    finally:
        await node.stop()
    assert "owed to nobody" in (await node.run("why", own_id)).stdout, "also while it is stopped"


async def test_a_home_without_a_node_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "none")
    for command in ("status", "mempool", "again one"):
        done = await dmq(home, *command.split())
        assert (done.exit_code, done.stdout) == (3, "")
        assert done.stderr == (
            f"there is no node in the home {tmp_path}/none; name the DMQ node's home with --home or ROUTER_HOME, or "
            f"make one with `router --home {tmp_path}/none dmq serve`\n"
        )
    file = tmp_path / "file"
    file.touch()
    done = await dmq(home, "watch", "--socket", str(file))
    assert done.stderr == (
        f"no node listens on {file}: it is no socket; start the node, or name its socket with --socket\n"
    )
    assert not home.path.exists()


async def test_a_trial_beside_a_dmq_node_that_holds_the_port_of_metrics(tmp_path: Path) -> None:
    [taken] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with taken:
        port = taken.socket.getsockname()[1]
        config = tmp_path / "dmq.config.json"
        config.write_text(
            json.dumps({"NetworkMagic": 2147483650, "TraceOptions": {"": {"backends": [f"PrometheusSimple {port}"]}}})
        )
        home = Home(tmp_path / "home")
        given = ("-c", str(config), "--local-socket", str(tmp_path / "dmq.socket"))
        node = NodeProcess("node", home, tmp_path / "stderr", {}, *given, served_by=(*program("router"), "dmq"))
        done = await node.run("dmq", "serve", *given)
        assert done.code == 1 and f"tcp://127.0.0.1:{port}: address already in use" in done.stderr
        done = await node.run("dmq", "serve", *given, "--network", "preprod", "--metrics", f"udp://127.0.0.1:{port}")
        assert done.code == 2 and f"--network preprod comes before the network preview of {config}\n" in done.stderr
        assert f'metrics is "udp://127.0.0.1:{port}"; it must be tcp://HOST:PORT' in done.stderr
        trial = NodeProcess(
            "trial", home, tmp_path / "stderr", {}, *given, "--metrics", "none", served_by=(*program("router"), "dmq")
        )  # fmt: skip
        await trial.start()
        try:
            assert (await dmq(home, "status")).exit_code == 0
        finally:
            await trial.stop()


SEVERAL = """[node]
services = [{name = "main", module = "services.dmq"}, {name = "other", module = "services.dmq"}]

[services.main]
network = "preview"
local_socket = "unix:main.socket"

[services.other]
network = "preprod"
local_socket = "unix:other.socket"
"""


async def test_conform_does_not_read_in_a_named_consumers_place(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    load_or_create(home, NODE)
    home.config_path.write_text(f'{SEVERAL}consumers = ["agg=unix:agg.socket?mode=660"]\n')
    done = await dmq(home, "conform", "--network", "preprod", f"unix://{home.path}/agg.socket")
    assert (done.exit_code, done.stdout) == (4, "") and done.stderr == (
        f"{home.path}/agg.socket is the socket of the named consumer agg, whose messages the checks would read in its "
        "place; name the node's common socket\n"
    )
    done = await dmq(home, "conform", "--network", "preprod", f"unix://{home.path}/other.socket")
    assert done.exit_code == 3, "the common one is only away"


async def test_one_of_several_is_to_be_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    load_or_create(home, NODE)
    home.config_path.write_text(SEVERAL)
    said = f"there are several DMQ nodes in the home {home.path}: main, other; "
    for command in ("status", "mempool", "again one", "doctor", f"conform unix://{home.path}/main.socket"):
        done = await dmq(home, *command.split())
        assert (done.exit_code, done.stderr) == (2, f"{said}name one of them with --name\n")
    done = await dmq(home, "serve", "--network", "mainnet")
    assert done.stderr == f"{said}`router --home {home.path} serve` runs them as router.toml says\n"
    assert done.exit_code == 2
    for command in ("status", "doctor"):
        done = await dmq(home, command, "--name", "nope")
        assert (done.exit_code, done.stderr) == (
            2,
            f'there is no DMQ node "nope" in the home {home.path}; its names are: main, other\n',
        )
    found = await dmq(home, "doctor", "--name", "other")
    assert f"there is no {home.path}/other.socket" in found.stdout and "by the clock the KES period is" in found.stdout
    named = await dmq(home, "conform", "--name", "other", f"unix://{home.path}/other.socket")
    assert (named.exit_code, "no node listens on" in named.stderr) == (3, True)
    home.config_path.write_text(
        SEVERAL.replace(', {name = "other", module = "services.dmq"}', "").split("[services.o")[0]
    )
    alone = await dmq(home, "doctor")
    assert f"there is no {home.path}/main.socket" in alone.stdout, "a single one is the one that is meant"


WRONG_FILES = (
    ("[node]\nservices = [\n", "router.toml line 3: a value is missing"),
    (SEVERAL.replace("preview", "mainet"), 'router.toml line 5: network: "mainet" is none'),
    (SEVERAL.replace("local_socket", "socket", 1), "router.toml line 6: unknown key `services.main.socket`"),
)


@pytest.mark.parametrize(("text", "mistake"), WRONG_FILES)
async def test_what_is_wrong_with_the_settings_is_said_instead_of_judging_others(
    tmp_path: Path, text: str, mistake: str
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    load_or_create(home, NODE)
    home.config_path.write_text(text)
    checked = await trio.to_thread.run_sync(CliRunner().invoke, main, ["--home", str(home.path), "config", "check"])
    assert checked.exit_code == 2 and mistake in checked.stderr
    for command in ("doctor", "conform"):
        done = await dmq(
            home, command, "--name", "main", *([f"unix://{home.path}/main"] if command == "conform" else [])
        )
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", checked.stderr)
    elsewhere = ("--socket", home.path / "none", "--network", "preview", "--json")
    done = await dmq(home, "doctor", "--name", "main", *elsewhere)
    [settings, *others] = json.loads(done.stdout)
    assert done.exit_code == 1 and settings["remedy"] == "correct it; `router config check` lists all"
    assert settings["ok"] is False and mistake in settings["found"]
    assert others[1]["found"] == f"there is no {home.path}/none", "what does not hang on the file is judged"
