"""Make the home that a release leaves behind, for every later one to open: `python tests/homes/make.py`.

Run it once for a release, and commit the archive `VERSION.tar.xz` beside this file; never make an earlier one again.
The node is a core with its usual services. In its home are: a group; a kept key `laptop` that has read one message and
is owed two more, in the state of an app; an invitation; the event log with what led there. Messages last for the
366 days that are possible, and a node that finds its clock years ahead lets nothing expire.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from router.actors.process import program
from router.cli.version import versions

HERE = Path(__file__).parent
YEAR_S = 366 * 86_400
LASTS = (f"limits.lifetime_s_max={YEAR_S}", f"limits.ttl_s_max={YEAR_S}")
SMALL = ("store.map_bytes_initial=1048576", "log.segment_s=1")
READ, WAITING = "read before", ("waits, the first", "waits, the second")
LEFT_OUT = ("lock", "router.sock", "socket", "last_start")
"""What belongs to a running node, or to the machine that made the home."""


def run(home: Path, *words: str) -> str:
    """Return what the command printed."""
    command = program("router", "--home", str(home), *words)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def make(home: Path) -> dict[str, str]:
    """Make the home; return the ids of its messages by their bodies, its address and its group."""
    core = ("--role", "core", "--listen", "tls://127.0.0.1:0", "--advertise", "tls://hub.example:4101")
    run(home, "init", "--name", "first", *core)
    settings = (word for one in (*LASTS, *SMALL) for word in ("--set", one))
    node = subprocess.Popen(
        program("router", "--home", str(home), "serve", "--json", *settings), stdout=subprocess.PIPE
    )
    try:
        assert node.stdout is not None and node.stdout.readline()
        run(home, "group", "new", "friends")
        run(home, "invite", "--group", "friends", "--uses", "3")
        facts = {"address": run(home, "id").strip()}
        listening = program("router", "--home", str(home), "sub", "friends", "--as", "laptop", "--count", "1")
        with subprocess.Popen(listening, stdout=subprocess.PIPE) as reader:
            while not json.loads(run(home, "groups", "--json")):
                assert reader.poll() is None
            long = ("--ttl", "366d", "--expiry", "366d")
            facts[READ] = run(home, "pub", "friends", READ, *long).strip()
            assert reader.wait() == 0
        for body in WAITING:
            facts[body] = run(home, "pub", "friends", body, *long).strip()
    finally:
        node.terminate()
        assert node.wait() == 0
    return facts


def pack(home: Path, facts: dict[str, str], archive: Path) -> None:
    """Write the home as the folder `home` of an archive, beside `facts.json`."""
    said = json.dumps({"versions": versions(), **facts}, indent=1).encode()
    with tarfile.open(archive, "w:xz") as tar:
        entry = tarfile.TarInfo("facts.json")
        entry.size = len(said)
        tar.addfile(entry, io.BytesIO(said))
        tar.add(home, "home", filter=_as_given_out)


def _as_given_out(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if Path(entry.name).name in LEFT_OUT else entry


def main() -> None:
    """Make the archive of this release, unless it is there."""
    archive = HERE / f"{versions()['router']}.tar.xz"
    if archive.exists():
        sys.exit(f"{archive.name} is there: the home of a release is made once, and later releases open that one")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        pack(home, make(home), archive)
    print(f"{archive.name}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
