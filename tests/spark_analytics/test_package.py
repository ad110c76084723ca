"""The zip that is shipped with a job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from spark_analytics import package


def test_the_zip_holds_every_module_and_can_be_imported_from(tmp_path: Path) -> None:
    first, second = tmp_path / "one.zip", tmp_path / "two.zip"
    count = package.write(first)
    package.write(second)
    assert first.read_bytes() == second.read_bytes()
    names = ZipFile(first).namelist()
    assert len(names) == count and {"spark_analytics/job.py", "spark_analytics/report/page/__init__.py"} <= {*names}
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import spark_analytics.judgement.evidence as e; print(e.__file__)"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", program, str(first)], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    assert said.startswith(str(first))
