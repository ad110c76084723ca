"""Hide the machine's own Java, so that the tests have only the packaged one, as on a bare system."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from rigs.files_in_memory import PLACE


def hide_java() -> Path | None:
    """Take every `java` off PATH and unset JAVA_HOME, for this process and its children.

    A directory that holds one is replaced by links to everything else in it. Return the directory of these links, to be
    removed at the end; None if no Java was found.
    """
    os.environ.pop("JAVA_HOME", None)
    if shutil.which("java") is None:
        return None
    near = PLACE if os.access(PLACE, os.W_OK | os.X_OK) else None  # Thousands of links take a second on a disk.
    shadows = Path(tempfile.mkdtemp(prefix="no-java-", dir=near))
    places = [_without_java(Path(place), shadows) for place in os.environ["PATH"].split(os.pathsep) if place]
    os.environ["PATH"] = os.pathsep.join(map(str, places))
    return shadows


def _without_java(place: Path, shadows: Path) -> Path:
    if shutil.which("java", path=str(place)) is None:
        return place
    shadow = Path(tempfile.mkdtemp(dir=shadows))
    for tool in place.iterdir():
        if tool.name != "java":
            (shadow / tool.name).symlink_to(place / tool.name)
    return shadow
