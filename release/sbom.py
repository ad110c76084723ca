"""The list of components of a release, as CycloneDX has it.

It names the Python modules that the wheel needs, by the versions and digests of requirements/run.txt, with the licences
that their own descriptions name, and the scripts of others that the web pages load.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.deb import BUILT_S, LOCK, ROOT
from router.cli.version import DISTRIBUTION

SCRIPTS_LOCK = ROOT / "services" / "web" / "static" / "vendor" / "package-lock.json"
_PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)")
_DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def bill(version: str, wheel: bytes, components: Iterable[Mapping[str, Any]], built_s: int) -> dict[str, Any]:
    """Return the list of components (CycloneDX 1.6). From the same arguments comes the same list."""
    digest = hashlib.sha256(wheel).hexdigest()
    ours = _python(DISTRIBUTION, version, [digest], "Apache-2.0")
    parts = sorted(components, key=lambda one: str(one["bom-ref"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'sha256:{digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(built_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**ours, "type": "application"},
        },
        "components": parts,
        "dependencies": [{"ref": ours["bom-ref"], "dependsOn": [one["bom-ref"] for one in parts]}],
    }


def pinned(lock: str) -> dict[str, tuple[str, list[str]]]:
    """Return version and SHA-256 digests of each package in a lock file, by its name."""
    found: dict[str, tuple[str, list[str]]] = {}
    digests: list[str] = []
    for line in lock.splitlines():
        if head := _PINNED.match(line):
            digests = []
            found[head[1]] = (head[2], digests)
        digests += _DIGEST.findall(line)
    return found


def needed(names: Iterable[str]) -> set[str]:
    """Return the names of what the packages need in turn, on this machine, without extras; the names among them."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    environment: dict[str, str | AbstractSet[str]] = {
        **{one: str(said) for one, said in default_environment().items()},
        "extra": "",
    }
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for text in _requires(name):
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate(environment):
                waiting.append(canonicalize_name(one.name))
    return found


def modules(lock: str) -> Iterator[dict[str, Any]]:
    """Yield the Python modules that the program needs."""
    known = pinned(lock)
    for name in sorted(needed([DISTRIBUTION]) - {DISTRIBUTION}):
        version, digests = known[name]
        yield _python(name, version, digests, licence(name))


def scripts(lock: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the scripts of others that pages load, from npm's lock file."""
    for place, one in lock["packages"].items():
        if place:
            name = place.removeprefix("node_modules/")
            reference = f"pkg:npm/{name.replace('@', '%40')}@{one['version']}"
            found = _component(name, one["version"], reference, [], one.get("license", ""))
            algorithm, _, digest = one["integrity"].partition("-")
            hashes = [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": b64decode(digest).hex()}]
            yield {**found, "hashes": hashes}


def licence(name: str) -> str:
    """Return the licence that an installed package says it has, as an SPDX expression if it does; "" if none."""
    try:
        said = metadata(name)
    except PackageNotFoundError:
        return ""
    text = next((said[one] for one in ("License-Expression", "License") if one in said), "").strip()
    if not text or len(text) > 80:  # some put the whole text there
        classes = (one for one in said.get_all("Classifier") or () if one.startswith("License :: "))
        text = next((one.rpartition(" :: ")[2] for one in classes), "")
    return " ".join(text.split())


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:  # for another system
        return []


def _python(name: str, version: str, digests: list[str], said: str) -> dict[str, Any]:
    return _component(name, version, f"pkg:pypi/{name}@{version}", digests, said)


def _component(name: str, version: str, reference: str, digests: list[str], said: str) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": one} for one in digests]
    files = [{"type": "distribution", "url": reference, "hashes": [one]} for one in hashes]
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        **({"licenses": [{"license": {"name": said}}]} if said else {}),
        **({"hashes": hashes} if len(hashes) == 1 else {"externalReferences": files} if files else {}),
    }


def write(wheel: Path, out: Path) -> Path:
    """Write the list for that wheel into the folder `out`; return its path."""
    version = wheel.name.split("-")[1]
    parts = [*modules(LOCK.read_text()), *scripts(json.loads(SCRIPTS_LOCK.read_text()))]
    found = bill(version, wheel.read_bytes(), parts, int(os.environ.get("SOURCE_DATE_EPOCH", BUILT_S)))
    path = out / f"{DISTRIBUTION}-{version}.cdx.json"
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return path
