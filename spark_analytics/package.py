"""The package as one zip for `spark-submit --py-files`: `python -m spark_analytics.package OUT.zip`."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

NAME = "spark_analytics.zip"
_HERE = Path(__file__).parent
_TIME = (1980, 1, 1, 0, 0, 0)


def write(path: Path) -> int:
    """Write every module of the package; the same modules give the same bytes. Return how many there are."""
    modules = sorted(_HERE.rglob("*.py"))
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for module in modules:
            name = module.relative_to(_HERE.parent).as_posix()
            archive.writestr(ZipInfo(name, _TIME), module.read_bytes(), ZIP_DEFLATED)
    return len(modules)


if __name__ == "__main__":
    written = Path(sys.argv[1] if len(sys.argv) > 1 else NAME)
    print(f"{write(written)} modules in {written}")
