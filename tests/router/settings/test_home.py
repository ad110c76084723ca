"""The home: private, held by one node, and found by its clients through a socket at a path of any length."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rigs.short_temporary_files import short_folder

from router.settings import config
from router.settings import home as module
from router.settings.home import SOCKET_PATH_BYTES_MAX, VOLUME, Home, HomeBusy, HomeError, is_mount_point


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def long_home(tmp_path: Path) -> Home:
    home = Home(tmp_path / ("x" * 120))
    home.create()
    return home


# Choosing and making


def test_which_home_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUTER_HOME", str(tmp_path / "b"))
    assert Home.chosen(tmp_path / "a").path == tmp_path / "a"
    assert Home.chosen().path == tmp_path / "b"
    monkeypatch.delenv("ROUTER_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Home.chosen().path == tmp_path / "key-addressed-router"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    data = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
    assert Home.chosen().path == tmp_path / data / "key-addressed-router"
    assert Home("~/h").path == tmp_path / "h"


def test_a_home_is_a_path_and_reads_like_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    assert Path(home) == home.path
    assert repr(home) == f"<home {home.path}>"
    assert not home.path.exists()


def test_create(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "h")
    assert home.create("core") is True
    assert mode(home.path) == 0o700
    for directory in (home.key_path.parent, home.store_path, home.log_path, home.path / "groups"):
        assert mode(directory) == 0o700
    assert config.load(home.config_path)[0].node.role == "core"
    home.config_path.write_text("# mine\n")
    assert home.create("edge") is False
    assert home.config_path.read_text() == "# mine\n"


def test_many_that_create_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: Home(tmp_path / "h").create(), range(32)))
    assert made.count(True) == 1


def test_an_empty_directory_or_an_old_home_is_made_private(tmp_path: Path) -> None:
    for name in ("empty", "old"):
        path = tmp_path / name
        path.mkdir()
        path.chmod(0o755)
        if name == "old":
            (path / "router.toml").touch()
        Home(path).create()
        assert mode(path) == 0o700


def test_a_directory_of_other_things_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "notes").touch()
    with pytest.raises(
        HomeError, match=r"holds files that are not a node.s, and others may open it \(mode 755\).*chmod 700"
    ):
        Home(tmp_path).create()
    assert mode(tmp_path) == 0o755 and [one.name for one in tmp_path.iterdir()] == ["notes"]
    tmp_path.chmod(0o700)
    Home(tmp_path).create()


def test_the_superuser_makes_no_home_in_the_place_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whose = os.getuid() or 4_321
    os.chown(tmp_path, whose, -1)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("router.disk.private_file.NOBODY_UID", -1)  # as whom this test may run
    for path in (tmp_path, tmp_path / "not" / "there"):
        with pytest.raises(HomeError, match=rf"{tmp_path} belongs to the user .*; run this command as that user"):
            Home(path).create()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "router.toml").touch()
    Home(tmp_path).create()  # one that is there is used


def test_a_container_without_its_volume_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VOLUME, str(tmp_path))
    with pytest.raises(
        HomeError, match=rf"no volume is mounted at {tmp_path}, .* run it with one, for example `--volu"
    ):
        Home(tmp_path / "home").create()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(VOLUME, str(tmp_path / "elsewhere"))
    assert Home(tmp_path / "home").create()
    monkeypatch.setenv(VOLUME, "/")  # where something is mounted, also in a chroot, whose root is in no list
    assert Home(tmp_path / "other").create()


def test_volume_on_the_file_system_of_the_container_s_root_is_one() -> None:
    """Root and volume have one device, 254:0: the container's root is a directory of the machine."""
    root = "610 580 254:0 /containers/root / rw,relatime - ext4 /dev/vda rw\n"
    volume = "615 610 254:0 /volumes/hub /var/lib/a\\040router rw,relatime - ext4 /dev/vda rw\n"
    assert is_mount_point(root + volume, "/var/lib/a router") and is_mount_point(root, "/")
    assert not is_mount_point(root, "/var/lib/a router") and not is_mount_point(root + volume, "/var/lib")


def test_a_home_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "h", tmp_path / "file" / "h" / "i"):
        with pytest.raises(HomeError, match=r"choose another with --home DIR or ROUTER_HOME$"):
            Home(path).create()


def test_something_in_the_way_inside(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.path.mkdir(0o700)
    home.log_path.touch()
    with pytest.raises(HomeError, match=f"{home.log_path} is in the way"):
        home.create()


def test_something_in_the_way_inside_a_home_that_has_its_configuration(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.create()
    home.log_path.rmdir()
    home.log_path.touch()
    with pytest.raises(HomeError, match=f"{home.log_path} is in the way"):
        home.create()


@pytest.mark.parametrize("name", ["router.toml", "log", "keys"])
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / "h")
    home.path.mkdir(0o700)
    link = home.path / name
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(HomeError, match=f"{link} is a symbolic link to {tmp_path}/gone, which is not there; make"):
        home.create()
    assert link.is_symlink() and not (tmp_path / "gone").exists()


def test_a_home_that_was_renamed_or_replaced_while_it_is_held_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.create()
    with home.lock() as held:
        check_in_place = held.check_in_place
        check_in_place()
        home.path.rename(tmp_path / "moved")
        with pytest.raises(HomeError, match=f"the home {home.path} was renamed or removed while its node ran"):
            check_in_place()
        home.create()
        with home.lock(), pytest.raises(HomeError, match="was renamed or removed"):
            check_in_place()  # another home stands there now
        shutil.rmtree(home.path)
        (tmp_path / "moved").rename(home.path)
        check_in_place()


def test_a_home_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(HomeError, match="cannot be written: Permission denied"):
        Home(tmp_path / "h").create()


# One node per home

HOLD = """
import sys
from router.settings.home import Home
with Home(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(home: Home) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_two_nodes_on_one_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.create()
    with holder(home) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        said = f"{home.path} is in use by pid {other.pid}, another node or a command that reads it; stop it"
        with pytest.raises(HomeBusy, match=said), home.lock():
            raise AssertionError("the home was held twice")
        other.kill()
    with home.lock():
        assert home.lock_path.read_text() == f"{os.getpid()}\n"
        with pytest.raises(HomeBusy, match=f"pid {os.getpid()}, another"), home.lock():
            raise AssertionError("the home was held twice")
    with home.lock():
        pass
    assert home.lock_path.read_text() == ""


@pytest.fixture
def orphaned(tmp_path: Path) -> Iterator[tuple[Home, int]]:
    """Return a home whose lock is held on behalf of a process that has ended, and the descriptor that holds it."""
    home = Home(tmp_path / "h")
    home.create()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    with home.lock_path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{ended.pid}\n")
        file.flush()
        yield home, file.fileno()


def test_the_lock_of_a_killed_node_is_waited_for(orphaned: tuple[Home, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that was being started when the node was killed holds the lock until it runs its own program."""
    home, held = orphaned
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        fcntl.flock(held, fcntl.LOCK_UN)

    monkeypatch.setattr("router.settings.home.time.sleep", pause)
    with home.lock():
        assert home.lock_path.read_text() == f"{os.getpid()}\n"
    assert len(pauses) == 1


def test_a_lock_that_is_never_let_go_of_is_waited_for_a_while(
    orphaned: tuple[Home, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _ = orphaned
    monkeypatch.setattr(module, "LET_GO_S", 0.05)
    with pytest.raises(HomeBusy, match="in use by pid"), home.lock():
        raise AssertionError("the home was held twice")


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.create()
    with pytest.raises(KeyError), home.lock():
        raise KeyError
    with home.lock():
        pass


def test_no_home_to_lock(tmp_path: Path) -> None:
    with (
        pytest.raises(HomeError, match=r"cannot be locked: No such file.*router init"),
        Home(tmp_path / "h").lock(),
    ):
        raise AssertionError


# The socket


def listens(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    path.unlink()


def test_the_socket_lies_in_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.create()
    assert home.prepare_socket() == home.socket_path == home.path / "router.sock"
    assert not (home.path / "socket").exists()
    listens(home.socket_path)


def test_a_socket_that_is_not_there_while_the_home_is_held(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    assert home.why_no_socket() == ""
    home.create()
    with home.lock():
        said = f"there is no socket {home.socket_path}, though pid {os.getpid()} holds this home; a node that"
        assert home.why_no_socket().startswith(said)
        home.socket_path.touch()
        assert home.why_no_socket() == ""
        home.socket_path.unlink()
    assert home.why_no_socket() == "", "nobody holds it"
    home.lock_path.write_text(f"{os.getpid()}\n")
    assert home.why_no_socket() == "", "that is what one left behind that was killed"


def test_the_longest_path_that_works_stays_in_the_home(tmp_path: Path) -> None:
    room = SOCKET_PATH_BYTES_MAX - len(os.fsencode(tmp_path / "x" / "router.sock")) + 1
    for length, inside in ((room, True), (room + 1, False)):
        home = Home(tmp_path / ("y" * length))
        home.create()
        assert (home.socket_path.parent == home.path) is inside
        if inside:
            listens(home.socket_path)


def test_a_long_home_has_its_socket_under_the_runtime_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = short_folder()  # pytest's own paths may be too long for this one
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    home = long_home(tmp_path)
    path = home.prepare_socket()
    assert path.is_relative_to(run) and mode(path.parent) == 0o700
    listens(path)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    other = tmp_path / "link"
    other.symlink_to(home.path)
    assert home.socket_path == Home(other).socket_path == Home(home.path).socket_path == path


def test_what_lies_outside_the_home_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = short_folder()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    home = long_home(tmp_path)
    path = home.prepare_socket()
    path.touch()
    home.clear_socket()
    assert path.exists() and home.socket_path == path  # somebody still needs it
    path.unlink()
    home.clear_socket()
    assert not list(run.iterdir()) and not (home.path / "socket").exists()
    home.clear_socket()
    short = Home(tmp_path / "h")
    short.create()
    short.prepare_socket()
    short.clear_socket()
    assert short.path.exists()
    run.rmdir()


@pytest.mark.parametrize("runtime", ["", "relative", "/" + "r" * 100])
def test_without_a_short_runtime_directory_it_lies_under_tmp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    home = long_home(tmp_path)
    before = home.socket_path
    path = home.prepare_socket()
    try:
        assert path == before == home.socket_path
        assert path.parent.name.startswith(f"router-{os.geteuid()}-") and mode(path.parent) == 0o700
        listens(path)
    finally:
        path.parent.rmdir()


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    home = long_home(tmp_path)
    directory = home.socket_path.parent
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    with pytest.raises(HomeError, match=r"is not a private directory of this user \(mode 755\)"):
        home.prepare_socket()
    directory.rmdir()
    directory.symlink_to(tmp_path)
    with pytest.raises(HomeError, match="is not a private directory"):
        home.prepare_socket()
    directory.unlink()
    assert not (home.path / "socket").exists()


def test_a_record_that_makes_no_sense_is_ignored(tmp_path: Path) -> None:
    home = long_home(tmp_path)
    usual = home.socket_path
    for record in ("", "relative\n", "/" + "z" * 200 + "\n"):
        (home.path / "socket").write_text(record)
        (home.path / "socket").chmod(0o600)
        assert home.socket_path == usual
    (home.path / "socket").write_text("/run/else.sock\n")
    assert home.socket_path == Path("/run/else.sock")
    (home.path / "socket").chmod(0o666)
    assert home.socket_path == usual


def test_listening_urls(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    home.create()
    assert home.listen_urls(("unix:router.sock", "unix:b.sock", "unix:///run/c", "unix://d", "tls://[::]:0")) == (
        f"unix://{home.path}/router.sock",
        f"unix://{home.path}/b.sock",
        "unix:///run/c",
        f"unix://{home.path}/d",
        "tls://[::]:0",
    )
    with pytest.raises(HomeError, match="bytes; at most"):
        home.listen_urls(("unix:" + "s" * 120,))
