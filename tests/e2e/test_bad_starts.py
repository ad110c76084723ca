"""Nodes that cannot start print one or two lines with the fault, the value and the remedy, and exit with the contract's
code; a node that runs beside them is not disturbed."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from pair import scene
from raw_link import linked, multicast
from rig import ROUTER, new_key, rig
from rigs.commands import AS_ANY_USER

from router.cli import main
from router.rig.process import EndedCommand, Process, run_command
from router.settings.config_services import NewHomeService
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create

PAGE_BYTES = 4096


async def serve(home: Path, *args: str) -> EndedCommand:
    return await run_command((*ROUTER, "--home", str(home), "serve", *args))


def said_plainly(done: EndedCommand, code: int, *words: str) -> None:
    """Check for one or two lines on standard error, without a traceback, and nothing on standard output."""
    assert (done.code, done.stdout) == (code, ""), done.stderr
    assert 1 <= len(done.stderr.splitlines()) <= 2, done.stderr
    for word in words:
        assert word in done.stderr


async def test_two_nodes_on_one_home(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        second = await serve(found.core.home.path)
        said_plainly(second, 1, f"is in use by pid {found.core.pid}, another node", str(found.core.home.path))
        await found.pair.goes_on()


async def test_a_node_whose_home_is_renamed_ends_with_that_reason(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    node = Process("the node", (*ROUTER, "--home", str(home.path), "serve"), tmp_path / "stderr")
    await node.start()
    home.path.rename(tmp_path / "elsewhere")
    assert await node.wait() == 1
    assert node.said().endswith(
        f"\nthe home {home.path} was renamed or removed while its node ran, so nothing more can be kept there; "
        "start the node where the home is now, with --home DIR, or move it back first\n"
    )
    assert not home.path.exists(), "nothing is made in its place"


async def test_a_port_in_use(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        second = await serve(tmp_path / "second", "--listen", found.core.url)
        said_plainly(second, 1, found.core.url.removeprefix("tls://"), "another program uses this port")
        await found.pair.goes_on()


async def dmq_serve(home: Path, *args: object) -> EndedCommand:
    return await run_command((*ROUTER, "--home", str(home), "dmq", "serve", *map(str, args)))


async def test_a_dmq_node_that_cannot_start_leaves_nothing_behind(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Its command ends at once, and the home that it made is gone."""
    home = tmp_path / "new" / "home"
    file, bad = tmp_path / "file", tmp_path / "bad.json"
    file.touch()
    bad.write_text("{}")
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    metrics = {"TraceOptions": {"": {"backends": [f"PrometheusSimple suffix 127.0.0.1 {port}"]}}}
    (tmp_path / "dmq.config.json").write_text(json.dumps(metrics))
    cases: dict[str, tuple[tuple[object, ...], int, str]] = {
        "a port that is taken": (
            ("-c", tmp_path / "dmq.config.json"), 1,
            f'the service dmq cannot start: its door "metrics" cannot be opened at tcp://127.0.0.1:{port}: address '
            "already in use; another program listens there: stop it, or name another place",
        ),
        "a socket where there is a file": (
            ("--local-socket", file), 1,
            f'door "local" cannot be opened at unix:{file}: file exists; that file is no socket: move it away, or name',
        ),
        "a directory that is not there": (
            ("--local-socket", tmp_path / "s", "--consumer", f"one={tmp_path}/none/one.socket"), 1,
            f'door "consumer one" cannot be opened at unix:{tmp_path}/none/one.socket: no such file or directory; name',
        ),
        "no stake": (("--stake", bad), 2, f'{bad}: the stake file has no object "pools"; give the unchanged output of'),
        "stake that is not there": (("--stake", tmp_path / "none"), 2, "there is no such file, and no program of that"),
        "no genesis": (("--network", "4711"), 2, "name its Shelley genesis with --genesis; nothing was made"),
        "an empty genesis": (("--genesis", file), 2, f"{file}: this is no Shelley genesis: it is no JSON"),
    }  # fmt: skip
    for name, (arguments, code, sentence) in cases.items():
        with subtests.test(name):
            done = await dmq_serve(home, *arguments)
            assert (done.code, done.stdout) == (code, ""), done.stderr
            assert sentence in done.stderr.splitlines()[-1]
            assert ("it is removed again, as it cannot start" in done.stderr) == (code == 1)
            assert not home.parent.exists() and file.read_bytes() == b""
    taken.close()


async def test_a_dmq_node_of_a_home_that_cannot_start_ends_too_and_the_home_stays(tmp_path: Path) -> None:
    none = str(tmp_path / "none.json")
    door = 'the service dmq cannot start: its door "local" cannot be opened at unix:none/a'
    unread = f"cannot read {none}: No such file or directory; name a file that can be read"
    cases: tuple[tuple[dict[str, object], tuple[str, ...], int, str], ...] = (
        ({"local_socket": "unix:none/a"}, (), 1, door),
        ({"genesis": none}, (), 2, unread),
        ({"stake_file": none, "local_socket": "unix:none/a"}, ("--stake", none), 1, door),  # its stake may be kept
        ({"local_socket": "unix:none/a"}, ("--stake", none), 2, f"--stake {none}: there is no such file"),
    )
    for number, (settings, arguments, code, sentence) in enumerate(cases):
        home = Home(tmp_path / str(number))
        home.create("edge", (), {"dmq": NewHomeService(settings, is_public=False)})
        load_or_create(home, NODE)
        said_plainly(await dmq_serve(home.path, *arguments), code, sentence)
        assert home.holds_node


async def test_a_corrupted_database(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The damage is reported at the start, with the place and the remedy, and the damaged file stays as it is."""
    async with rig(tmp_path) as found:
        node = found.node("node")
        await node.start()
        key, group = new_key(), new_key()
        async with linked(node, key, durable=True) as app:
            await app.join(group.public)
        async with linked(node, new_key()) as speaker:
            for _ in range(20):
                await speaker.publish(*[multicast(group, os.urandom(500)) for _ in range(10)])
        await node.kill()
        data = node.home.store_path / "data.mdb"
        good = data.read_bytes()
        damages = {
            "overwritten": os.urandom(len(good)),
            "with both meta pages gone": bytes(2 * PAGE_BYTES) + good[2 * PAGE_BYTES :],
            "of another program": b"SQLite format 3\x00" + bytes(len(good)),
            "empty but for a byte": b"\x00",
            "cut off": good[: 2 * PAGE_BYTES],
        }
        for name, bad in damages.items():
            with subtests.test(name):
                data.write_bytes(bad)
                said_plainly(await serve(node.home.path), 1, str(node.home.store_path))
                assert data.read_bytes()[: len(bad)] == bad
        data.write_bytes(good)
        await node.start()
        async with linked(node, key, durable=True) as app:
            await app.until("what the good file holds comes", lambda: len(app.got) == 200)


async def test_a_database_that_is_damaged_under_a_running_node(tmp_path: Path) -> None:
    """The node ends, and its last lines say what failed, where, and what to do."""
    async with rig(tmp_path) as found:
        node, group = found.node("node"), new_key()
        await node.start()
        async with linked(node, new_key(), durable=True) as app:
            await app.join(group.public)
            with (node.home.store_path / "data.mdb").open("r+b") as data:
                size = data.seek(0, os.SEEK_END)
                data.seek(2 * PAGE_BYTES)
                data.write(bytes(size - 2 * PAGE_BYTES))
            await app.send(multicast(group, b"too late"))
            settled = app.settled
            await app.until_closed()
            assert app.settled == settled, "nothing is acknowledged after it"
        assert await node.wait() == 1
        [said] = node.said().splitlines()
        assert said.startswith(f"the store in {node.home.store_path} failed: it is damaged (")
        assert "move store/ and log/ away together and start" in said


async def test_a_home_that_is_not_writable(tmp_path: Path, subtests: pytest.Subtests) -> None:
    with subtests.test("below a file"):
        (tmp_path / "file").write_text("")
        said_plainly(await serve(tmp_path / "file" / "home"), 1, str(tmp_path / "file"), "--home")
    with subtests.test("where the system lets nobody write"):
        said_plainly(await serve(Path("/proc/home")), 1, "/proc/home", "--home")
    home = Home(tmp_path / "home")
    assert (await run_command((*ROUTER, "--home", str(home.path), "init"))).code == 0
    for place in (home.path, home.store_path):
        with subtests.test(f"where {place.relative_to(tmp_path)} may be read only"):
            place.chmod(0o500)
            said_plainly(await serve_as_anybody(home.path), 1, str(home.path))
            place.chmod(0o700)


async def serve_as_anybody(home: Path) -> EndedCommand:
    """Run `serve` as a user who is bound by file modes, unlike root."""
    if AS_ANY_USER and not shutil.which(AS_ANY_USER[0]):
        pytest.skip("root may write everywhere")
    return await run_command((*AS_ANY_USER, *ROUTER, "--home", str(home), "serve"))


async def test_a_typo_in_the_configuration_ends_the_process(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.config_path.write_text("[limits]\nhelo_s = 3\n")
    said_plainly(await serve(home.path), 2, "router.toml", "line 2", "helo_s", "did you mean", "hello_s")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("[limits]\nhelo_s = 3\n", ("line 2", "helo_s", "did you mean", "hello_s")),
        ("[link]\nping_s = true\n", ("link.ping_s", "number")),
        ("[lnk]\n", ("lnk", "did you mean", "link")),
        ("[node]\nrole = 'egde'\n", ("role", "edge")),
        ("[node\n", ("line 1",)),
        ('[[peers]]\naddress = "12"\n', ("address",)),
    ],
)
def test_a_configuration_with_a_typo(lines: str, said: tuple[str, ...], tmp_path: Path) -> None:
    home = Home(tmp_path / "home")

    def run(*args: str) -> EndedCommand:
        ran = CliRunner().invoke(main, ["--home", str(home.path), *args])
        return EndedCommand(ran.exit_code, ran.stdout, ran.stderr)

    assert run("init").code == 0
    home.config_path.write_text(lines)
    said_plainly(run("serve"), 2, "router.toml", *said)
    checked = run("config", "check", "--json")
    assert checked.code == 2
    assert not checked.json["ok"]
    assert all(word in checked.json["problems"][0] for word in said)
