"""Start commands of the router without importing its modules anew each time: fork them from a process that has.

Each is a process of its own with the arguments, environment, directory and descriptors that it would have got, shown by
`ps` with its command line, and a child of the process that started it. A command behind `nsenter` enters the same
namespaces, and one behind `BOUND` is bound by the modes of files. What a command starts itself, as a node its services,
is forked as well, from a copy of it made at its start. The quick tests start commands so; all others execute them, as
users do.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
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
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple

TREE = Path(__file__).resolve().parents[2]
OURS = re.compile(
    r"router|router\.(bench\.(clients|strangers|unlogged)|chaos\.(app|moved_clock)|demo\.(listener|speaker)"
    r"|node\.verifier_process|rig\.with_parent|service\.(apart|worker))"
    r"|services\.(capd\.solver_process|dmq\.demo\.(aggregator|signers))|rigs\.\w+"
)
"""Modules that are run in a forked process."""
SHARED = ("services", "transports")
"""Packages to which every directory on Python's path may add a folder."""
SCRIPTS = re.compile(re.escape(str(TREE)) + r"/(examples/\w+|tests/e2e/(apps|sealed_apps|shifted))\.py")
"""Scripts that are run in a forked process."""
VARIABLE = re.compile(r"\w+=.*", re.DOTALL)
LOADED = (
    "router.actors", "router.cli", "router.client", "router.core", "router.demo", "router.disk", "router.doctor",
    "router.node", "router.service", "router.settings", "router.transport", "router.why", "router.audit.engine",
    "router.audit.export", "router.bench.clients", "router.bench.strangers", "router.bench.unlogged", "router.chaos",
    "transports", "services.capd", "services.discovery", "services.dmq", "services.pubsub", "services.web",
)  # fmt: skip
STARTERS = re.compile(r" (serve|demo|bench|chaos|run) | router\.service\.apart ")
"""Words of commands that start others."""
AT_START = (b"PYTHON", b"LC_", b"LANG", b"LD_")
"""Beginnings of variables that count while Python starts: where they differ, the command is executed."""
PATHS = b"PYTHONPATH"
ENTER = re.compile(r"nsenter --target=(\d+) --preserve-credentials (--user )?--net --")  # see router/rig/machines.py
BOUND = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""Words before a command that the modes of files are to bind though it is root's."""
DAC = 1, 2
"""The numbers of these two capabilities."""
TIED = "router.rig.with_parent"
"""Runs the module that its second argument names."""
REQUEST_BYTES_MAX = 1 << 20
ARGUMENT_BYTES = 4096  # for the command line of what is forked
FDS_MAX = 16
FREE_FDS = 100  # descriptors from here on are in nobody's way
SET_CHILD_SUBREAPER, DROP_FROM_BOUNDING_SET = 36, 24  # prctl(2)
CAPABILITIES_VERSION = 0x20080522  # capset(2)

execute = subprocess._fork_exec  # type: ignore[attr-defined]


class WarmStart:
    """Starts commands by forking them from a process that has loaded them; that is started for the first, unless there
    is one at the other end of `here` already."""

    def __init__(self, here: socket.socket | None = None) -> None:
        self._lock = Lock()
        self._before: tuple[Any, bool] | None = None
        self._env = {**os.environb}
        self._libc = ctypes.CDLL(None)
        self._socket = here
        self._process: subprocess.Popen[bytes] | None = None

    def install(self) -> None:
        self._before = subprocess._fork_exec, subprocess._USE_POSIX_SPAWN  # type: ignore[attr-defined]
        subprocess._USE_POSIX_SPAWN = False  # type: ignore[misc]  # which Python 3.13 prefers to `_fork_exec`
        subprocess._fork_exec = self.start  # type: ignore[attr-defined]

    def close(self) -> None:
        """Start commands as before `install`, if that was called; what was forked goes on."""
        if self._before is not None:
            subprocess._fork_exec, subprocess._USE_POSIX_SPAWN = self._before  # type: ignore[attr-defined, misc]
            self._before = None
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    def start(self, *how: Any) -> int:
        """Take what `_posixsubprocess.fork_exec` takes, and return the pid."""
        args, _, close_fds, kept, cwd, env, *fds = how[:14]
        _, session, group, gid, gids, uid, umask, preexec = how[14:22]
        args, more = _with_env(args)
        env = ({**os.environb} if env is None else dict(one.split(b"=", 1) for one in env)) | more
        passed = [fd for fd in kept if fd != fds[-1]]
        plain = close_fds and len(passed) <= FDS_MAX - 3 and (group, umask) == (-1, -1)
        plain = plain and (gid, gids, uid, preexec) == (None,) * 4 and _at_start(env) == _at_start(self._env)
        is_bound = args[: len(BOUND)] == BOUND
        spaces, command = _entered(args[len(BOUND) :] if is_bound else args)
        program = _program(command, os.fsdecode(cwd or "."))
        if not plain or program is None or not _finds_all(self._env, env):
            return int(execute(*how))
        told = pickle.dumps((command, tuple(program), cwd, env, session, spaces, passed, is_bound))
        streams = [fd if fd != -1 else number for number, fd in enumerate((fds[0], fds[3], fds[5]))]
        return self._forked(told, [*streams, *passed]) or int(execute(*how))

    def _forked(self, told: bytes, fds: list[int]) -> int:
        """Return the pid; 0 if the process to fork from has ended."""
        with self._lock:
            here = self._connected()
            self._libc.prctl(SET_CHILD_SUBREAPER, 1)  # Its parent ends at once: it becomes our child.
            try:
                socket.send_fds(here, [told], fds)
                return int(here.recv(100) or 0)
            except ConnectionError:
                return 0
            finally:
                self._libc.prctl(SET_CHILD_SUBREAPER, 0)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                command = [sys.executable, "-P", __file__, str(there.fileno()), str(os.getpid())]
                command.append(" " * ARGUMENT_BYTES)
                kept = [there.fileno()]
                self._process = subprocess.Popen(command, pass_fds=kept, stdin=subprocess.DEVNULL, env=self._env)
        return self._socket


class Program(NamedTuple):
    """What a command runs: a module, or a script; `folder` is where Python looks for modules first."""

    name: str
    arguments: list[str]
    folder: str = ""


def _program(command: list[str], cwd: str) -> Program | None:
    """Return what a command runs if it is to be forked."""
    match command:
        case [sys.executable, "-P", "-m", name, *arguments] if OURS.fullmatch(name):
            return Program(name, arguments)
        case [sys.executable, "-m", name, *arguments] if OURS.fullmatch(name) and not _hides(Path(cwd).absolute()):
            return Program(name, arguments, cwd)
        case [sys.executable, name, *arguments] if SCRIPTS.fullmatch(name) and not _hides(Path(name).parent):
            return Program(name, arguments, str(Path(name).parent))
    return None


def _with_env(args: Sequence[bytes]) -> tuple[list[str], dict[bytes, bytes]]:
    """Return a command and the variables that an `env` before it sets."""
    words = [os.fsdecode(one) for one in args]
    sets = list(takewhile(VARIABLE.fullmatch, words[1:])) if words[0] == "env" else []
    return words[len(sets) + 1 :] if sets else words, dict(os.fsencode(one).split(b"=", 1) for one in sets)


def _at_start(env: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in env.items() if name.startswith(AT_START) and name != PATHS}


def _finds_all(before: Mapping[bytes, bytes], env: Mapping[bytes, bytes]) -> bool:
    """Whether PYTHONPATH is no shorter than before, and adds no folder with modules in place of those loaded."""
    first, then = ([os.fsdecode(one) for one in each.get(PATHS, b"").split(b":") if one] for each in (before, env))
    return set(first) <= set(then) and not any(_hides(Path(one)) for one in then if one not in first)


def _hides(folder: Path) -> bool:
    """Whether a folder that is looked through first has modules in place of those loaded."""
    if folder == TREE or not folder.is_absolute():
        return folder != TREE
    for name in {name.partition(".")[0] for name in LOADED}:
        package = folder / name
        if (package / "__init__.py").exists():
            ours = {one.name for one in (TREE / name).iterdir()} - {"__init__.py", "__pycache__"}
            if name not in SHARED or ours & {one.name for one in package.iterdir()}:
                return True
        elif package.with_suffix(".py").exists():
            return True
    return False


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


def serve(there: socket.socket, tests: int) -> tuple[list[str], Program] | None:
    """Fork for each request; return the command in each child, and None at the end. `tests`: a descriptor of the
    process that requests; if that is killed, others may still hold its end of the socket."""
    while True:
        if tests in select.select([there.fileno(), tests], [], [])[0]:
            return None
        told, fds, _, _ = socket.recv_fds(there, REQUEST_BYTES_MAX, FDS_MAX)
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
            command, program, cwd, env, session, spaces, passed, is_bound = pickle.loads(told)
            _become(dict(zip((0, 1, 2, *passed), fds, strict=True)), cwd, env, session)
            program = Program(*program)
            _look_in(program.folder)
            _enter(spaces)
            if is_bound:
                _bind()
            return command, program
        os.waitpid(between, 0)
        there.send(os.read(born, 100))
        for fd in (born, says, *fds):
            os.close(fd)


def _become(fds: dict[int, int], cwd: str | None, env: dict[bytes, bytes], session: bool) -> None:
    """`fds`: received descriptors by their numbers to be."""
    if session:
        os.setsid()
    if cwd is not None:
        os.chdir(cwd)
    os.environb.clear()
    os.environb.update(env)
    tempfile.tempdir = None  # TMPDIR may be another one
    free = {number: fcntl.fcntl(fd, fcntl.F_DUPFD, FREE_FDS) for number, fd in fds.items()}
    for fd in fds.values():
        os.close(fd)
    for number, fd in free.items():
        os.dup2(fd, number)
        os.close(fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(3))


def _look_in(folder: str) -> None:
    """Look for modules in this folder first, then in those that PYTHONPATH adds."""
    places = [one for one in os.environ.get("PYTHONPATH", "").split(":") if one and one not in sys.path]
    places[:0] = [folder] if folder else []
    sys.path[:0] = places
    for name in SHARED:
        found = [str(Path(one) / name) for one in places if (Path(one) / name / "__init__.py").exists()]
        package = sys.modules[name]
        package.__path__ = list(dict.fromkeys([*found, *package.__path__]))


def _copied(command: list[str], program: Program) -> tuple[list[str], Program]:
    """Go on as this process, which forks what it starts from a copy of itself as it is now; or, in that copy, as one of
    those processes."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    starter = os.pidfd_open(os.getpid())
    if os.fork():
        there.close()
        os.close(starter)
        WarmStart(here).install()
        return command, program
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    here.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    low, high = sorted((there.fileno(), starter))
    for first, end in ((3, low), (low + 1, high), (high + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(first, end)
    return _begin(there, starter)


def _show(command: list[str]) -> None:
    """Let `ps` show a command line in place of that of the process forked from."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    shown = b"".join(os.fsencode(one) + b"\0" for one in command)[: end - start - 1]
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


def _begin(there: socket.socket, tests: int) -> tuple[list[str], Program]:
    """Return the command that this process has been forked for."""
    found = serve(there, tests)
    if found is None:
        os._exit(0)
    command, program = found
    _show(command)
    starts = STARTERS.search(f" {program.name} {' '.join(program.arguments)} ")
    return _copied(command, program) if starts else found


def _enter(spaces: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for space in spaces:
        fd = os.open(space, os.O_RDONLY)
        if libc.setns(fd, 0):
            raise OSError(ctypes.get_errno(), f"{space} cannot be entered")
        os.close(fd)


def _bind() -> None:
    """Give up what lets root pass over the modes of files, for this process and all that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION), (ctypes.c_uint32 * 6)()
    failed = [libc.prctl(DROP_FROM_BOUNDING_SET, one, 0, 0, 0) for one in DAC] + [libc.capget(header, rights)]
    for at in range(3):  # effective, permitted, inheritable: the first 32 of each
        rights[at] &= ~sum(1 << one for one in DAC)
    if any(failed) or libc.capset(header, rights):
        raise OSError(ctypes.get_errno(), "the rights of root cannot be given up")


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
    _describe()
    gc.collect()
    gc.freeze()  # A child's collector copies no page of what was loaded.


def _describe() -> None:
    """Read a configuration, as most commands do: what is found of types and expressions is kept for all of them."""
    from router.cli.preflight import rules
    from router.settings import config
    from router.settings.config_services import OF_AN_EDGE
    from router.settings.home import Home

    with TemporaryDirectory() as place:
        home = Home(Path(place) / "home")
        home.create(residents=OF_AN_EDGE)
        config.load(home.config_path, rules=rules(home))


def run(module: str) -> None:
    """Run a module or a script as a program, and end this process as Python does, but without freeing what was loaded:
    each page of it would be copied first, which takes twenty times as long as `router id`."""
    try:
        if module.endswith(".py"):
            sys.argv[0] = module
            runpy.run_path(module, run_name="__main__")
        else:
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


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A Ctrl-C is the tests' to hear of; the socket ends with them.
    try:
        tests = os.pidfd_open(int(sys.argv[2]))
    except ProcessLookupError:  # They were killed meanwhile.
        os._exit(0)
    load()
    _, program = _begin(socket.socket(fileno=int(sys.argv[1])), tests)
    sys.argv[1:] = program.arguments
    for name in (program.name, *(program.arguments[1:2] if program.name == TIED else ())):
        if name != "router":
            sys.modules.pop(name, None)  # It is run, and not imported, from here on.
    run(program.name)


if __name__ == "__main__":
    main()
