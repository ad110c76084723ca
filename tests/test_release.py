"""What is given out: the wheel, the texts of the Debian package, the list of components, the promise of the formats.

What has to be built is under `long`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rigs.patience import HANG_S

from release import __main__ as release
from release.debian import HOME, PREFIX, SCRIPTS, Fault, Package, depends_on, sysusers, unit
from release.sbom import bill, modules, pinned, scripts
from router.cli.version import DISTRIBUTION, versions

ROOT = Path(__file__).parents[1]
PACKAGE = Package("0.1.0", "3.13", "amd64", "A Person <person@example.org>", 1_700_000_000)


def test_the_wheel_holds_every_file_of_its_packages_and_the_papers() -> None:
    builder = WheelBuilder(str(ROOT))
    held = {one.distribution_path for one in builder.recurse_included_files()}
    parts = ("router", "services", "transports", "spark_analytics")
    files = (one for part in parts for one in (ROOT / part).rglob("*") if one.is_file())
    there = {str(one.relative_to(ROOT)) for one in files if one.suffix != ".pyc"}
    assert there - held == set() and "services/web/static/chat/index.html" in held
    papers = builder.config.target_config["shared-data"]
    assert {"cddl", "docs", "README.md"} <= papers.keys()
    assert all(place == f"share/doc/{DISTRIBUTION}/{name}" for name, place in papers.items())


def test_the_version_stands_once() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert versions()["router"] == said
    assert re.search(rf"^## \[{re.escape(said)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    sources = (path for place in ("router", "release") for path in (ROOT / place).rglob("*.py"))
    assert [str(path) for path in sources if f'"{said}"' in path.read_text()] == []


def test_the_formats_and_their_versions_are_those_of_the_code() -> None:
    text = (ROOT / "docs/formats.md").read_text()
    rows = re.findall(r"^\| [^|]+ \|[^|]*\| (\d+)[^|]* \| `([\w.]+:[\w.]+)` \|$", text, re.MULTILINE)
    assert len(rows) == 20 and rows == [(str(resolve_name(place)), place) for _, place in rows]
    grammars = {f"cddl/{one.name}" for one in (ROOT / "cddl").iterdir()}
    assert set(re.findall(r"cddl/[\w-]+\.cddl", text)) == grammars


def test_the_package_depends_on_what_its_modules_load() -> None:
    tags = ["Tag: cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64", "Tag: cp39-abi3-manylinux_2_28_x86_64"]
    found = depends_on("3.13", tags, {"libc.so.6", "libm.so.6", "libstdc++.so.6"})
    assert found == "python3.13, libc6 (>= 2.28), libstdc++6, ca-certificates"
    with pytest.raises(Fault, match=r"load libfoo\.so\.1: name its package in LIBRARIES"):
        depends_on("3.13", tags, {"libc.so.6", "libfoo.so.1"})


def test_the_package_by_value() -> None:
    assert PACKAGE.file_name == "key-addressed-router_0.1.0-1+py3.13_amd64.deb"
    control = PACKAGE.control("python3.13", 10_241)
    assert "\nInstalled-Size: 11\nDepends: python3.13\n" in control and "\n\n" not in control
    assert PACKAGE.changelog().splitlines()[-1] == " -- A Person <person@example.org>  Tue, 14 Nov 2023 22:13:20 -0000"
    first, _, body = unit().partition("\n")
    assert (
        first
        == f"# Of the package {DISTRIBUTION}, which replaces it on an upgrade: change it by `systemctl edit router`."
    )
    assert f"\nExecStart={PREFIX}/bin/router --home {HOME} serve\n" in body and "\nUser=router\n" in body
    assert sysusers().split()[:2] == ["u", "router"] and sysusers().split()[-2:] == [HOME, "/usr/sbin/nologin"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_scripts_of_the_package_are_shell_and_leave_the_home_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SCRIPTS[name])
    assert subprocess.run(["sh", "-n", tmp_path / name], timeout=HANG_S, check=False).returncode == 0
    assert not [line for line in SCRIPTS[name].splitlines() if "rm " in line and f"find {PREFIX}/lib" not in line]


def test_the_list_of_components_names_all_that_is_needed_and_depends_on_nothing_else() -> None:
    lock = (ROOT / "requirements/run.txt").read_text()
    npm = json.loads((ROOT / "services/web/static/vendor/package-lock.json").read_text())
    parts = [*modules(lock), *scripts(npm)]
    made = bill("0.1.0", b"wheel", reversed(parts), 1_700_000_000)
    assert made == bill("0.1.0", b"wheel", parts, 1_700_000_000) != bill("0.1.0", b"other", parts, 1_700_000_000)
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    named = {one["name"]: one for one in made["components"]}
    needed = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    here = {canonicalize_name(one.name) for one in needed if one.marker is None or one.marker.evaluate()}
    assert here <= named.keys() and "hatchling" not in named
    assert named["pynacl"]["version"] == pinned(lock)["pynacl"][0] and "cffi" in named
    assert named["@noble/hashes"]["hashes"][0]["alg"] == "SHA-512"
    assert [one["name"] for one in made["components"] if not one.get("licenses")] == []


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg-deb is missing: apt install dpkg")
def test_a_release_is_built_twice_to_the_same_bytes_and_its_wheel_works_outside_of_a_checkout(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    done = subprocess.run(
        [sys.executable, "-m", "release", "all", "--out", out], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    names = {line.split("  ")[1] for line in (out / release.SUMS).read_text().splitlines()}
    assert {name.rpartition(".")[2] for name in names} == {"whl", "gz", "deb", "json"} and len(names) == 4
    wheel, archive = next(out.glob("*.whl")), next(out.glob("*.tar.gz"))
    with tarfile.open(archive) as tar:
        held = {name.partition("/")[2] for name in tar.getnames()}
    assert {"Makefile", "release/debian.py", "Containerfile", "tests/homes/0.1.0.tar.xz"} <= held
    uv = str(ROOT / ".tools/bin/uv")
    place = tmp_path / "place"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, place], check=True)
    subprocess.run(
        [uv, "pip", "install", "-q", "--python", place / "bin/python", "--constraints",
         ROOT / "requirements/run.txt", wheel], check=True,
    )  # fmt: skip
    home = str(tmp_path / "home")
    for words in (["init", "--service", "web"], ["config", "check"], ["dmq", "--help"], ["capd", "--help"]):
        told = subprocess.run(
            [place / "bin/router", "--home", home, *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert told.returncode == 0, told.stderr
    assert (place / "share/doc" / DISTRIBUTION / "cddl/store.cddl").is_file()
