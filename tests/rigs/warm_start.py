"""Start commands of the router without importing its modules anew each time: fork them from a process that has.

Each is a process of its own with the arguments, environment, directory and standard streams that it would have got, and
a child of the test's process. A command behind `nsenter` enters the same namespaces. The quick tests start commands so;
all others execute them, as users do.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import pickle
import pkgutil
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from threading import Lock
from typing import Any

COMMAND = [sys.executable, "-P", "-m"]
OURS = (
    "router", "router.bench.clients", "router.bench.strangers", "router.bench.unlogged", "router.node.verifier_process",
    "router.service.apart", "router.service.worker", "services.dmq.demo.aggregator", "services.dmq.demo.signers",
    "rigs.interrupted",
)  # fmt: skip
LOADED = (
    "router.actors", "router.cli", "router.client", "router.core", "router.disk", "router.node", "router.service",
    "router.settings", "router.transport", "router.why", "router.audit.engine", "router.audit.export",
    "router.bench.clients", "router.bench.strangers", "router.bench.unlogged", "transports", "services.discovery",
    "services.dmq", "services.pubsub",
)  # fmt: skip
AT_START = (b"PYTHON", b"LC_", b"LANG", b"LD_")
"""Beginnings of variables that count while Python starts: where they differ, the command is executed."""
PATHS = b"PYTHONPATH"
ENTER = re.compile(r"nsenter --target=(\d+) --preserve-credentials (--user )?--net --")  # see router/rig/machines.py
REQUEST_BYTES_MAX = 1 << 20
SET_CHILD_SUBREAPER = 36  # prctl(2)

execute = subprocess._fork_exec  # type: ignore[attr-defined]


class WarmStart:
    """Starts commands by forking them; the process to fork from is started for the first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._env = {**os.environb}
        self._libc = ctypes.CDLL(None)
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def install(self) -> None:
        subprocess._fork_exec = self.start  # type: ignore[attr-defined]

    def close(self) -> None:
        """Execute commands again; what was forked goes on."""
        subprocess._fork_exec = execute  # type: ignore[attr-defined]
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    def start(self, *how: Any) -> int:
        """Take what `_posixsubprocess.fork_exec` takes, and return the pid."""
        args, _, close_fds, kept, cwd, env, *fds = how[:14]
        _, session, group, gid, gids, uid, umask, preexec = how[14:22]
        env = {**os.environb} if env is None else dict(one.split(b"=", 1) for one in env)
        plain = close_fds and kept == (fds[-1],) and (group, umask) == (-1, -1)
        plain = plain and (gid, gids, uid, preexec) == (None,) * 4 and _at_start(env) == _at_start(self._env)
        folders = _more_folders(self._env, env)
        spaces, command = _entered([os.fsdecode(one) for one in args])
        if not plain or folders is None or command[:3] != COMMAND or command[3] not in OURS:
            return int(execute(*how))
        told = pickle.dumps((command[3:], cwd, env, session, spaces, folders))
        streams = [fd if fd != -1 else number for number, fd in enumerate((fds[0], fds[3], fds[5]))]
        with self._lock:
            here = self._connected()
            self._libc.prctl(SET_CHILD_SUBREAPER, 1)  # Its parent ends at once: it becomes our child.
            try:
                socket.send_fds(here, [told], streams)
                return int(here.recv(100))
            finally:
                self._libc.prctl(SET_CHILD_SUBREAPER, 0)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                command = [sys.executable, "-P", __file__, str(there.fileno()), str(os.getpid())]
                kept = [there.fileno()]
                self._process = subprocess.Popen(command, pass_fds=kept, stdin=subprocess.DEVNULL, env=self._env)
        return self._socket


def _at_start(env: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in env.items() if name.startswith(AT_START) and name != PATHS}


def _more_folders(before: Mapping[bytes, bytes], env: Mapping[bytes, bytes]) -> list[str] | None:
    """Return the folders that PYTHONPATH adds; None if there are fewer, or one has modules in place of those loaded."""
    first, then = ([os.fsdecode(one) for one in each.get(PATHS, b"").split(b":") if one] for each in (before, env))
    more = [Path(one) for one in then if one not in first]
    hidden = {name.partition(".")[0] for name in LOADED}
    if not set(first) <= set(then) or any(not one.is_absolute() for one in more):
        return None
    if any((one / name).exists() or (one / f"{name}.py").exists() for one in more for name in hidden):
        return None
    return [str(one) for one in more]


def _entered(args: list[str]) -> tuple[list[str], list[str]]:
    """Return the namespaces that a command enters first, and what it executes there."""
    if args[0] != "nsenter" or "--" not in args:
        return [], args
    place = args.index("--") + 1
    found = ENTER.fullmatch(" ".join(args[:place]))
    if found is None:
        return [], args
    kinds = ("user", "net") if found[2] else ("net",)
    return [f"/proc/{found[1]}/ns/{kind}" for kind in kinds], args[place:]


# -- in the process that is forked ----------------------------------------------------------------------------


def serve(there: socket.socket, tests: int) -> list[str] | None:
    """Fork for each request; return the arguments in each child, and None at the end. `tests`: a descriptor of the
    process of the tests; if that is killed, others may still hold its end of the socket."""
    while True:
        if tests in select.select([there.fileno(), tests], [], [])[0]:
            return None
        told, fds, _, _ = socket.recv_fds(there, REQUEST_BYTES_MAX, 3)
        if not told:
            return None
        born, says = os.pipe()
        between = os.fork()
        if not between:
            child = os.fork()
            if child:
                os.write(says, b"%d" % child)
                os._exit(0)
            os.close(born)
            os.close(says)
            there.close()
            os.close(tests)
            args, cwd, env, session, spaces, folders = pickle.loads(told)
            _become(fds, cwd, env, session)
            sys.path[:0] = folders
            _enter(spaces)
            return list(args)
        os.waitpid(between, 0)
        there.send(os.read(born, 100))
        for fd in (born, says, *fds):
            os.close(fd)


def _become(fds: list[int], cwd: str | None, env: dict[bytes, bytes], session: bool) -> None:
    if session:
        os.setsid()
    if cwd is not None:
        os.chdir(cwd)
    os.environb.clear()
    os.environb.update(env)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(3))


def _enter(spaces: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for space in spaces:
        fd = os.open(space, os.O_RDONLY)
        if libc.setns(fd, 0):
            raise OSError(ctypes.get_errno(), f"{space} cannot be entered")
        os.close(fd)


def _stream(number: int) -> TextIOWrapper:
    """Return a standard stream as Python makes it at its start."""
    before = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[number]
    assert before is not None
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED")) and number > 0
    raw = FileIO(number, "wb" if number else "rb", closefd=False)
    binary: Any = BufferedReader(raw) if not number else raw if unbuffered else BufferedWriter(raw)
    by_lines = raw.isatty() or number == 2
    return TextIOWrapper(binary, before.encoding, before.errors, "\n", by_lines, write_through=unbuffered)


def load() -> None:
    for name in LOADED:
        package = import_module(name)
        for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
            import_module(found.name)
    gc.collect()
    gc.freeze()  # A child's collector copies no page of what was loaded.


def run(module: str) -> None:
    """Run a module as a program, and end this process as Python does, but without freeing what was loaded: each page of
    it would be copied first, which takes twenty times as long as `router id`."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code: object = None
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        gc.unfreeze()
        raise
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # Python itself says so at its end.
        gc.unfreeze()
        sys.exit(code)
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A Ctrl-C is the tests' to hear of; the socket ends with them.
    try:
        tests = os.pidfd_open(int(sys.argv[2]))
    except ProcessLookupError:  # They were killed meanwhile.
        os._exit(0)
    load()
    arguments = serve(socket.socket(fileno=int(sys.argv[1])), tests)
    if arguments is None:
        os._exit(0)
    else:
        module, *sys.argv[1:] = arguments
        if module != "router":
            sys.modules.pop(module, None)  # It is run, and not imported, from here on.
        run(module)
