"""Unix sockets: the file, its directory, who is let in, and left-over sockets."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from rigs.patience import HANG_S
from rigs.short_temporary_files import short_place
from two_ends import CLIENT, SERVER, echo, listening, receive_exactly, two_ends

from router.core.wire.reasons import Reason
from router.transport import socket_file
from router.transport.contract import ConnectFailed, InvalidUrl, ListenFailed, dial
from router.transport.socket_file import PATH_BYTES_MAX
from transports.unix import listen, unix_path


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory with a short path, because socket paths have a limit."""
    with tempfile.TemporaryDirectory(prefix="sock", dir=short_place()) as name:
        yield Path(name)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_the_socket_is_the_owner_s_alone(directory: Path) -> None:
    path = directory / "new" / "deeper" / "s"
    async with listening(f"unix://{path}", handler=echo) as this:
        assert this.url == f"unix://{path}"
        assert mode_of(path) == 0o600
        assert mode_of(path.parent) == 0o700
        stream = await this.connect()
        await stream.send_all(b"x")
        assert await stream.receive_some(1) == b"x"
    assert not path.exists()


async def test_relative_paths_and_home(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    monkeypatch.setenv("HOME", str(directory))
    async with listening("unix://here", handler=echo) as this:
        assert this.url == f"unix://{directory}/here"
        await this.connect()
    async with listening("unix://~/there", handler=echo) as this:
        assert this.url == f"unix://{directory}/there"
        await this.connect()


def test_a_working_directory_that_has_been_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    assert unix_path("unix:///run/x?y=1") == Path("/run/x")
    with pytest.raises(InvalidUrl, match="has been removed; write the path in full"):
        unix_path("unix://x")


async def test_the_socket_of_a_dead_process_is_replaced(directory: Path) -> None:
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    async with listening(f"unix://{path}", handler=echo) as this:
        await this.connect()


async def test_the_socket_of_a_live_process_is_not(directory: Path) -> None:
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(path))
        alive.listen(0)
        for _ in range(2):  # the second time its backlog is full
            with pytest.raises(ListenFailed) as caught:
                await listen(f"unix://{path}", SERVER, echo)
            expected = f"another node is listening on {path}; stop it first, or choose another path"
            assert caught.value.text == expected
    assert path.exists()


async def test_a_file_that_is_no_socket_is_left_alone(directory: Path) -> None:
    path = directory / "s"
    path.write_text("precious")
    with pytest.raises(ListenFailed, match="exists and is not a socket"):
        await listen(f"unix://{path}", SERVER, echo)
    assert path.read_text() == "precious"


async def test_a_directory_locked_by_a_starting_node_is_waited_for(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    async with trio.open_nursery() as nursery:

        async def come() -> None:
            async with listening(f"unix://{directory}/s"):
                pass

        nursery.start_soon(come)
        await trio.testing.wait_all_tasks_blocked(0.005)
        assert not (directory / "s").exists()
        os.close(handle)


async def test_another_s_socket_is_not_removed_at_the_end(directory: Path) -> None:
    path = directory / "s"
    async with listening(f"unix://{path}", handler=echo):
        path.unlink()
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"


@pytest.mark.parametrize("takes_directory", [False, True])
async def test_a_socket_that_was_removed_is_made_again_with_its_rights_and_said_once(
    directory: Path, takes_directory: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket_file, "LOOK_S", 0.001)
    path = directory / "run" / "s"
    path.parent.mkdir()
    path.parent.chmod(0o750)
    async with listening(f"unix://{path}?mode=660", handler=echo) as this:
        kept = await this.connect()
        for _ in range(2):
            shutil.rmtree(path.parent) if takes_directory else path.unlink()
            while not path.exists() or mode_of(path) != 0o660:
                await trio.sleep(0.001)
            assert mode_of(path.parent) == 0o750
            new = await this.connect()
            for stream in (new, kept):
                await stream.send_all(b"x")
                assert await stream.receive_some(1) == b"x"
    assert not path.exists()
    said = f"the socket file {path} was gone, and is made again; keep cleaners of temporary files away from it"
    assert caplog.messages == [said] * 2


async def test_a_socket_that_cannot_be_made_again_is_said_once_and_made_when_it_can(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket_file, "LOOK_S", 0.001)
    monkeypatch.setattr(socket_file, "AGAIN_S", 0.001)
    path = directory / "s"
    async with listening(f"unix://{path}", handler=echo) as this:
        path.unlink()
        path.write_text("in the way")
        while not caplog.messages:
            await trio.sleep(0.001)
        for _ in range(20):  # as many attempts
            await trio.sleep(0.001)
        path.unlink()
        while not path.is_socket():
            await trio.sleep(0.001)
        await this.connect()
    assert len(caplog.messages) == 2 and caplog.messages[0].startswith(
        f"the socket file {path} is gone, so nobody can connect there, and it cannot be made again: another file is "
        "in its place; "
    )


async def test_a_path_too_long_is_told_the_limit(directory: Path) -> None:
    url = f"unix://{directory}/{'s' * 100}"
    expected = f"has {len(url) - 7} bytes and may have {PATH_BYTES_MAX}; choose a shorter one"
    with pytest.raises(ListenFailed, match=expected):
        await listen(url, SERVER, echo)
    with pytest.raises(ConnectFailed, match=expected):
        await dial(url, CLIENT, None, timeout_s=HANG_S)


async def test_a_directory_open_to_all_is_refused(directory: Path) -> None:
    shared = directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(ListenFailed) as caught:
        await listen(f"unix://{shared}/s", SERVER, echo)
    assert f"others may write to the directory {shared} (mode 0777)" in caught.value.text
    assert f"chmod 700 {shared}" in caught.value.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another's directory")
async def test_another_user_s_directory_is_refused(directory: Path) -> None:
    os.chown(directory, 65534, 65534)
    directory.chmod(0o755)
    with pytest.raises(ListenFailed, match=r"is not yours \(user number 65534, mode 0755\)"):
        await listen(f"unix://{directory}/s", SERVER, echo)
    os.chown(directory, 0, 0)


@pytest.mark.parametrize("path", ["/proc/nowhere/s", "/dev/null/s"])
async def test_an_unwritable_place_is_named(path: str) -> None:
    with pytest.raises(ListenFailed) as caught:
        await listen(f"unix://{path}", SERVER, echo)
    assert caught.value.text.startswith(f"cannot listen on {path}: ")
    assert caught.value.text.endswith("choose a directory of your own")


async def test_a_directory_of_the_system_is_refused_to_every_user() -> None:
    """The kernel refuses root, the owner of the directory others; no message advises to change its mode."""
    with pytest.raises(ListenFailed) as caught:
        await listen("unix:///proc/s", SERVER, echo)
    assert "/proc" in caught.value.text and "a directory of your own" in caught.value.text
    assert "chmod" not in caught.value.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
async def test_another_user_is_refused_at_both_ends(directory: Path) -> None:
    path = directory / "s"
    directory.chmod(0o755)
    async with listening(f"unix://{path}", handler=echo) as this:
        path.chmod(0o666)
        with socket.socket(socket.AF_UNIX) as stranger:
            os.seteuid(65534)
            try:
                stranger.connect(str(path))
            finally:
                os.seteuid(0)
            assert await this.refusal() == "user number 65534 is not the owner of this node"
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(path))
        os.seteuid(65534)
        try:
            impostor.listen()
        finally:
            os.seteuid(0)
        with pytest.raises(ConnectFailed, match=r"is served by another user .*`sudo -u '#65534'`"):
            await dial(f"unix://{path}", CLIENT, None, timeout_s=HANG_S)


@pytest.mark.parametrize("left_over", [False, True])
async def test_nobody_listens(directory: Path, left_over: bool) -> None:
    path = directory / "s"
    if left_over:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    with pytest.raises(ConnectFailed) as caught:
        await dial(f"unix://{path}", CLIENT, None, timeout_s=HANG_S)
    assert caught.value.text == f"no node is listening on {path}; start one with `router serve`"


async def test_a_node_that_does_not_accept_is_given_up(directory: Path) -> None:
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as deaf, socket.socket(socket.AF_UNIX) as first:
        deaf.bind(str(path))
        deaf.listen(0)
        first.connect(str(path))
        with pytest.raises(ConnectFailed, match=r"did not accept within 0\.05 s") as caught:
            await dial(f"unix://{path}", CLIENT, None, timeout_s=0.05)
        assert caught.value.reason is Reason.CONNECT_TIMEOUT


async def test_a_full_backlog_is_waited_for(directory: Path) -> None:
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as slow, socket.socket(socket.AF_UNIX) as first:
        slow.bind(str(path))
        slow.listen(0)
        first.connect(str(path))
        async with trio.open_nursery() as nursery:

            async def come() -> None:
                stream = await dial(f"unix://{path}", CLIENT, None, timeout_s=HANG_S)
                await stream.aclose()

            nursery.start_soon(come)
            await trio.testing.wait_all_tasks_blocked(0.005)
            for _ in range(2):
                accepted, _address = await trio.to_thread.run_sync(slow.accept)
                accepted.close()


async def test_more_parts_than_one_call_takes() -> None:
    parts = [b"%05d" % number for number in range(5000)]
    async with two_ends("unix") as (ours, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_parts, parts)
        assert await receive_exactly(theirs, 25_000) == b"".join(parts)
