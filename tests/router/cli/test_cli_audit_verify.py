"""`router audit --sign` and `router audit-verify`: from the logs to a copy of the report in other hands."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from rigs.commands import Run
from samples.logs import OTHER

from router.core.wire.text import key_text


def test_signed_report_is_verified_in_a_copy_of_it(router: Run, logs: Path, tmp_path: Path) -> None:
    out, copy = tmp_path / "out", tmp_path / "copy"
    done = router("audit", str(logs), "--as-of", "2025-02-21", "--out", str(out), "--sign", "--json")
    assert done.exit_code == 0 and 'there was no key "auditor"' in done.stderr
    run = json.loads((out / "summary.json").read_text())["run"]
    assert run["tables"]["delivery"] == sha256((out / "delivery.parquet").read_bytes()).hexdigest()
    assert run["command"].startswith("router --home ") and run["command"].endswith("--sign --json")
    address = key_text("addr", bytes.fromhex(run["signed_by"]))
    page = (out / "report.html").read_text()
    assert address in page and all(digest in page for digest in run["tables"].values())
    shutil.copytree(out, copy)
    done = router("audit-verify", str(copy))
    assert done.exit_code == 0 and done.stdout.endswith(f"by auditor, {address}\n")
    assert router("audit-verify", str(copy), "--by", address).exit_code == 0
    assert router("audit-verify", str(copy), "--by", "auditor").exit_code == 0
    assert json.loads(router("audit-verify", str(copy), "--json").stdout)["key"] == run["signed_by"]
    done = router("audit-verify", str(copy), "--by", OTHER.public.hex())
    assert (done.exit_code, done.stderr) == (
        1, f"{copy} was signed by {address}, not by {key_text('addr', OTHER.public)}\n",
    )  # fmt: skip
    assert router("audit-verify", str(copy), "--newer-than", "1d").exit_code == 0
    done = router("audit-verify", str(copy), "--newer-than", "0s")
    assert done.exit_code == 1 and f"{copy} was signed on " in done.stderr and "ask the auditor" in done.stderr
    (copy / "report.html").write_text(page.replace("3", "4"))
    done = router("audit-verify", str(copy))
    assert done.exit_code == 1 and "report.html was changed after it was signed" in done.stderr
    assert router("audit", str(logs), "--out", str(out)).exit_code == 0, "an audit replaces a signed one"
    assert "--sign` makes one" in router("audit-verify", str(out)).stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--sign",), "--sign signs the files of an audit: give --out DIR as well"),
        (("--as", "me", "--out", "o"), "--as names the key that signs: give --sign as well"),
        (("--sign", "--as", "../me", "--out", "o"), '"../me" cannot be a name'),
    ],
)
def test_signing_refuses_what_cannot_be(router: Run, logs: Path, words: tuple[str, ...], text: str) -> None:
    done = router("audit", str(logs), *words)
    assert done.exit_code and text in done.stderr and not Path("o").exists()
