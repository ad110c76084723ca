"""Build what is given out: `python -m release dist|deb|all`, into `dist/`.

`all` builds everything twice and compares: from the same sources and the same time come the same bytes. The time is
SOURCE_DATE_EPOCH, else that of the last commit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release import deb, sbom
from release.debian import Fault

SUMS = "SHA256SUMS"


def set_time() -> None:
    """Set SOURCE_DATE_EPOCH for all that is built, unless it is set."""
    command = ["git", "-C", str(deb.ROOT), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stdout.strip()
    except OSError:
        said = ""
    os.environ.setdefault("SOURCE_DATE_EPOCH", said or str(deb.BUILT_S))


def build_distribution(out: Path, uv: str) -> Path:
    """Build source archive and, from that, the wheel into the folder `out`; return the wheel's path. Raise `Fault`."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        command = [
            uv,
            "build",
            "-q",
            "--no-build-isolation",
            "--python",
            sys.executable,
            "--out-dir",
            made,
            str(deb.ROOT),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Fault(f"wheel and source archive cannot be built:\n{done.stderr.strip()}")
        for found in (*Path(made).glob("*.tar.gz"), *Path(made).glob("*.whl")):
            shutil.copy(found, out)
    return out / found.name


def build_all(out: Path, python: str, uv: str) -> dict[str, str]:
    """Build everything into the folder `out`; return the SHA-256 of each file by its name. Raise `Fault`."""
    wheel = build_distribution(out, uv)
    deb.build(wheel, out, python, uv)
    sbom.write(wheel, out)
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in sorted(out.iterdir())}


def build_twice(out: Path, python: str, uv: str) -> None:
    """Build everything twice, and put it into the folder `out` if both are the same bytes. Raise `Fault` if not."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        sums, again = (build_all(Path(one), python, uv) for one in (first, second))
        other = sorted(name for name in sums.keys() | again.keys() if sums.get(name) != again.get(name))
        if other:
            raise Fault(f"built twice, these differ: {', '.join(other)}; nothing was put into {out}")
        out.mkdir(parents=True, exist_ok=True)
        for name in sums:
            shutil.copy(Path(first) / name, out)
    (out / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    for name, digest in sums.items():
        print(f"{digest}  {out / name}")


def main() -> int:
    """Build what the command line asks for; return the exit code."""
    reader = argparse.ArgumentParser(prog="python -m release", description=(__doc__ or "").partition("\n\n")[0])
    reader.add_argument("what", choices=("dist", "deb", "all"))
    reader.add_argument("--out", type=Path, default=deb.ROOT / "dist")
    reader.add_argument("--for-python", default="{}.{}".format(*sys.version_info), metavar="3.N", help="of the Debian")
    reader.add_argument("--uv", default=str(deb.ROOT / ".tools" / "bin" / "uv"))
    given = reader.parse_args()
    set_time()
    try:
        if given.what == "all":
            build_twice(given.out, given.for_python, given.uv)
            return 0
        wheel = build_distribution(given.out, given.uv)
        print(deb.build(wheel, given.out, given.for_python, given.uv) if given.what == "deb" else wheel)
    except Fault as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
