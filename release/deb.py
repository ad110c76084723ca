"""The Debian package (`make deb`).

It has a private environment below /opt: the wheel and what it needs, by the versions and digests of
requirements/run.txt, for the Python of the Debian that it is meant for. Nothing is compiled, so one Debian builds for
another: `make deb DEB_PYTHON=3.13`. From the same sources and the same time (SOURCE_DATE_EPOCH) come the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from release import debian
from release.debian import Fault, Package
from router.actors.process import program
from router.cli.version import DISTRIBUTION

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "run.txt"
BUILT_S = 1_580_601_600
"""The time of files where SOURCE_DATE_EPOCH names none, as hatchling has it."""
MAINTAINER = f"{DISTRIBUTION} <{DISTRIBUTION}@packages.debian.org>"
PACKING = "-Zxz", "-z1"
"""How the files are packed: the default takes six times as long for a tenth less."""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/router",
    "zsh": "usr/share/zsh/vendor-completions/_router",
    "fish": "usr/share/fish/vendor_completions.d/router.fish",
}
_NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(.+)\]")
_OF_THIS_MACHINE = ("direct_url.json", "uv_cache.json", "uv_build.json", "INSTALLER", "REQUESTED")
"""Files of an installation that say where and how it was made."""


def build(wheel: Path, out: Path, python: str, uv: str) -> Path:
    """Build the package of that wheel for that Python into the folder `out`; return its path. Raise `Fault`."""
    package = Package(
        version=wheel.name.split("-")[1],
        python=python,
        architecture=_said("dpkg", "--print-architecture").strip(),
        maintainer=os.environ.get("DEB_MAINTAINER", MAINTAINER),
        built_s=int(os.environ.get("SOURCE_DATE_EPOCH", BUILT_S)),
    )
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        stage = Path(made) / "stage"
        site = stage / debian.PREFIX[1:] / "lib" / f"python{python}" / "site-packages"
        _install(wheel, site, python, uv)
        _environment(stage, package)
        _papers(stage, site, package)
        _commands_papers(stage)
        _settle(stage)
        _control(stage, site, package)
        path = out / package.file_name
        epoch = {**os.environ, "SOURCE_DATE_EPOCH": str(package.built_s)}
        _said("dpkg-deb", "--root-owner-group", *PACKING, "--build", str(stage), str(path), environment=epoch)
    return path


def _install(wheel: Path, site: Path, python: str, uv: str) -> None:
    """Put the wheel and what it needs into `site`, as wheels only and by the lock file."""
    words = [uv, "pip", "install", "-q", "--target", str(site), "--python-version", python, "--only-binary", ":all:"]
    _said(*words, "--link-mode", "copy", "--constraints", str(LOCK), str(wheel))
    for name in _OF_THIS_MACHINE:
        for found in site.glob(f"*.dist-info/{name}"):
            found.unlink()
    for folder in ("bin", "share"):  # console scripts name this machine's Python; papers go to their place
        shutil.rmtree(site / folder, ignore_errors=True)
    for record in site.glob("*.dist-info/RECORD"):
        lines = (line for line in record.read_text().splitlines(keepends=True) if _stays(site, line))
        record.write_text("".join(lines))
    for left in (".lock", ".gitignore", "CACHEDIR.TAG"):
        (site / left).unlink(missing_ok=True)


def _stays(site: Path, line: str) -> bool:
    return (site / line.split(",")[0].strip('"')).exists()


def _environment(stage: Path, package: Package) -> None:
    """Make the rest of the environment, and what puts it into the system."""
    prefix = stage / debian.PREFIX[1:]
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(f"/usr/bin/python{package.python}")
    _file(prefix / "pyvenv.cfg", package.pyvenv())
    _file(prefix / "bin" / "router", debian.LAUNCHER, mode=0o755)
    (stage / "usr" / "bin").mkdir(parents=True)
    (stage / "usr" / "bin" / "router").symlink_to(f"{debian.PREFIX}/bin/router")
    _file(stage / f"usr/lib/systemd/system/{debian.ACCOUNT}.service", debian.unit())
    _file(stage / f"usr/lib/sysusers.d/{DISTRIBUTION}.conf", debian.sysusers())
    _file(stage / f"usr/share/lintian/overrides/{DISTRIBUTION}", debian.lintian_overrides())


def _papers(stage: Path, site: Path, package: Package) -> None:
    folder = stage / "usr" / "share" / "doc" / DISTRIBUTION
    _file(folder / "copyright", debian.COPYRIGHT)
    _packed(folder / "changelog.gz", (ROOT / "CHANGELOG.md").read_text())
    _packed(folder / "changelog.Debian.gz", package.changelog())
    for name in ("README.md", "ARCHITECTURE.md"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("docs", "cddl"):
        shutil.copytree(ROOT / name, folder / name)


def _commands_papers(stage: Path) -> None:
    """Add manual pages and completion, which the program prints itself."""
    pages = stage / "usr" / "share" / "man"
    _said(*program("router", "man", "--write", str(pages)))
    for page in sorted((pages / "man1").iterdir()):
        _packed(page.with_name(f"{page.name}.gz"), page.read_text())
        page.unlink()
    for shell, place in COMPLETIONS.items():
        _file(stage / place, _said(*program("router", "completion", shell)))


def _settle(stage: Path) -> None:
    """Give all files the modes that they have once installed."""
    for path in sorted(stage.rglob("*")):
        if not path.is_symlink():
            is_run = path.is_dir() or path.parent.name == "bin"
            path.chmod(0o755 if is_run else 0o644)
    stage.chmod(0o755)


def _control(stage: Path, site: Path, package: Package) -> None:
    """Write what dpkg reads, after everything else is in place."""
    tags = [line for wheel in site.glob("*.dist-info/WHEEL") for line in wheel.read_text().splitlines()]
    files = sorted(path for path in stage.rglob("*") if path.is_file() and not path.is_symlink())
    size = sum(path.stat().st_size for path in files)
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(stage)}\n" for path in files)
    folder = stage / "DEBIAN"
    _file(folder / "control", package.control(debian.depends_on(package.python, tags, set(_needed(site))), size))
    _file(folder / "md5sums", sums)
    for name, text in debian.SCRIPTS.items():
        _file(folder / name, text, mode=0o755)
    folder.chmod(0o755)


def _needed(site: Path) -> Iterator[str]:
    """Yield the libraries that compiled modules load and that do not lie beside them."""
    modules = sorted(path for path in site.rglob("*") if ".so" in path.suffixes)
    own = {path.name for path in modules}
    for module in modules:
        yield from (name for name in _NEEDED.findall(_said("readelf", "-dW", str(module))) if name not in own)


def _packed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _file(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _said(*command: str, environment: dict[str, str] | None = None) -> str:
    """Return what a program printed. Raise `Fault` with its errors if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except FileNotFoundError:
        raise Fault(f"{command[0]} is missing: apt install dpkg binutils, and `make .venv/run.stamp`") from None
    if done.returncode:
        raise Fault(f"{' '.join(command[:4])} … failed:\n{done.stderr.strip()}")
    return done.stdout
