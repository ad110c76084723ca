"""The texts of the Debian package (deb-control(5), Debian Policy 4.7), and what it depends on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import formatdate

from msgspec import Struct

from router.cli.unit.unit_file import STATE, Unit
from router.cli.version import DISTRIBUTION

PREFIX = f"/opt/{DISTRIBUTION}"
ACCOUNT = "router"
HOME = str(STATE / ACCOUNT)
LIBRARIES = {
    "libc.so.6": "libc6",
    "libm.so.6": "libc6",
    "libpthread.so.0": "libc6",
    "libdl.so.2": "libc6",
    "librt.so.1": "libc6",
    "ld-linux-x86-64.so.2": "libc6",
    "ld-linux-aarch64.so.1": "libc6",
    "libgcc_s.so.1": "libgcc-s1",
    "libstdc++.so.6": "libstdc++6",
    "libz.so.1": "zlib1g",
}
"""The package of each library of the system that compiled modules may load."""
_GLIBC = re.compile(r"manylinux_2_(\d+)_")


class Fault(Exception):
    """The package cannot be built; the text says why and what to do."""


class Package(Struct, frozen=True):
    """A package. `python`: the version whose modules it holds, such as "3.13"; `built_s`: seconds since 1970."""

    version: str
    python: str
    architecture: str
    maintainer: str
    built_s: int

    @property
    def debian_version(self) -> str:
        return f"{self.version}-1+py{self.python}"

    @property
    def file_name(self) -> str:
        return f"{DISTRIBUTION}_{self.debian_version}_{self.architecture}.deb"

    def control(self, depends: str, installed_bytes: int) -> str:
        """Return the package's description for dpkg."""
        return f"""\
Package: {DISTRIBUTION}
Version: {self.debian_version}
Architecture: {self.architecture}
Maintainer: {self.maintainer}
Installed-Size: {-(-installed_bytes // 1024)}
Depends: {depends}
Recommends: systemd
Suggests: bash-completion, man-db
Section: net
Priority: optional
Description: message router addressed by Ed25519 keys
 Messages between devices and people that arrive even where somebody is away:
 what the router accepts is on disk, and what became of each message can be
 told afterwards for each recipient. Every node, app, service and group is a
 public key; messages are signed, and sealed for the members of their group.
 .
 This package holds the program with the Python modules that it needs in
 {PREFIX}, its unit for systemd, manual pages and completion.
"""

    def changelog(self) -> str:
        """Return Debian's own changelog of the package; the program's stands beside it."""
        date = formatdate(self.built_s)
        lines = (f"{DISTRIBUTION} ({self.debian_version}) unstable; urgency=medium", f"  * Release {self.version}.")
        return "\n\n".join((*lines, f" -- {self.maintainer}  {date}")) + "\n"

    def pyvenv(self) -> str:
        """Return the mark of an environment of Python's own (PEP 405)."""
        return f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {self.python}\n"


def depends_on(python: str, wheel_tags: Iterable[str], needed: Iterable[str]) -> str:
    """Return the packages that this one depends on. `wheel_tags`: for which systems its modules were built (PEP 600);
    `needed`: the libraries of the system that they load. Raise `Fault` for a library of no known package."""
    strange = sorted(set(needed) - LIBRARIES.keys())
    if strange:
        raise Fault(f"compiled modules load {', '.join(strange)}: name its package in LIBRARIES of release/debian.py")
    glibc = max((int(found) for tag in wheel_tags for found in _GLIBC.findall(tag)), default=17)
    packages = {LIBRARIES[one] for one in needed} | {"libc6"}
    others = sorted(packages - {"libc6"})
    return ", ".join((f"python{python}", f"libc6 (>= 2.{glibc})", *others, "ca-certificates"))


def unit() -> str:
    """Return the unit of the machine's node, as `router service install --system` writes it but for the first line."""
    node = Unit(ACCOUNT, (f"{PREFIX}/bin/router",), HOME, ACCOUNT)
    return node.text_of_package(DISTRIBUTION)


def sysusers() -> str:
    """Return the account of the machine's node (sysusers.d(5))."""
    return f'u {ACCOUNT} - "Key-addressed message router" {HOME} /usr/sbin/nologin\n'


LAUNCHER = f"""\
#!{PREFIX}/bin/python -P
from router.__main__ import main

main()
"""
COPYRIGHT = f"""\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: {DISTRIBUTION}

Files: *
Copyright: 2026 the authors of {DISTRIBUTION}
License: Apache-2.0
Comment: The Python modules of others in {PREFIX}/lib, and the scripts of others
 among the web pages, have licences of their own, which lie beside them.

License: Apache-2.0
 On Debian systems the text of the licence is in
 /usr/share/common-licenses/Apache-2.0.
"""
POSTINST = f"""\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers > /dev/null; then
        systemd-sysusers {DISTRIBUTION}.conf
    elif ! getent passwd {ACCOUNT} > /dev/null; then
        useradd --system --user-group --home-dir {HOME} --no-create-home --shell /usr/sbin/nologin {ACCOUNT}
    fi
    # The account of the node cannot write here, so each start would compile every module again.
    {PREFIX}/bin/python -m compileall -q {PREFIX}/lib || true
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        [ -z "$2" ] || systemctl try-restart {ACCOUNT}.service
    fi
    if [ -z "$2" ]; then
        echo "router service install runs a node of yours; sudo router service install --system one of the machine."
    fi
fi
exit 0
"""
PRERM = f"""\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now {ACCOUNT}.service
fi
find {PREFIX}/lib -depth -name __pycache__ -type d -exec rm -rf '{{}}' +
exit 0
"""
POSTRM = f"""\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
if [ "$1" = purge ] && [ -d {HOME} ]; then
    echo "{HOME} stays: it holds the node's key and messages in custody. Remove it yourself, if nobody needs them."
fi
exit 0
"""
SCRIPTS = {"postinst": POSTINST, "prerm": PRERM, "postrm": POSTRM}
_REASONS = {
    "a private environment, as an application of its own brings it": ["dir-or-file-in-opt"],
    "compiled modules and their libraries as their authors hand them out, checked by digest": [
        "unstripped-binary-or-object",
        "embedded-library",
        "shared-library-is-executable",
        "sharedobject-in-library-directory-missing-soname",
        "library-not-linked-against-libc",
    ],
}


def lintian_overrides() -> str:
    """Return which of lintian's findings are meant to be so, each kind with its reason."""
    return "".join(
        f"# {reason}\n" + "".join(f"{DISTRIBUTION}: {tag} *\n" for tag in tags) for reason, tags in _REASONS.items()
    )
