"""Nodes that cannot start print one or two lines with the fault, the value and the remedy, and exit with the contract's
code; a node that runs beside them is not disturbed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pair import scene
from raw_link import linked, multicast
from rig import ROUTER, new_key, rig

from router.cli import main
from router.rig.process import Finished, run_command
from router.settings.home import Home

PAGE_BYTES = 4096


async def serve(home: Path, *args: str) -> Finished:
    return await run_command((*ROUTER, "--home", str(home), "serve", *args))


def said_plainly(done: Finished, code: int, *words: str) -> None:
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


async def test_a_port_in_use(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        second = await serve(tmp_path / "second", "--listen", found.core.url)
        said_plainly(second, 1, found.core.url.removeprefix("tls://"), "another program uses this port")
        await found.pair.goes_on()


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


async def serve_as_anybody(home: Path) -> Finished:
    """Run `serve` as a user who is bound by file modes, unlike root."""
    bound = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    if bound and not shutil.which(bound[0]):
        pytest.skip("root may write everywhere")
    return await run_command((*bound, *ROUTER, "--home", str(home), "serve"))


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

    def run(*args: str) -> Finished:
        ran = CliRunner().invoke(main, ["--home", str(home.path), *args])
        return Finished(ran.exit_code, ran.stdout, ran.stderr)

    assert run("init").code == 0
    home.config_path.write_text(lines)
    said_plainly(run("serve"), 2, "router.toml", *said)
    checked = run("config", "check", "--json")
    assert checked.code == 2
    assert not checked.json["ok"]
    assert all(word in checked.json["problems"][0] for word in said)
