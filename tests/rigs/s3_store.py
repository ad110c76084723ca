"""The S3 server of `s3_process.py`, as a test uses it: buckets, objects, and the settings with which Spark finds it."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

from rigs.patience import HANG_S

_SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=none/20200101/us-east-1/s3/aws4_request,"
    " SignedHeaders=host, Signature=0"
}
"""The server checks no signature, but hands objects to those alone who give one."""
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class S3Store:
    """`url`: of the server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def settings(self) -> dict[str, str]:
        """Return the settings of a Spark session that reads and writes `s3a://` here."""
        own = {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": "none",
            "secret.key": "none",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()}

    def put(self, place: str, data: bytes = b"") -> None:
        """Write an object BUCKET/KEY; without a key make the bucket."""
        self._ask(quote(place), data)

    def upload(self, directory: Path, place: str) -> None:
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            self.put(f"{place}/{path.relative_to(directory)}", path.read_bytes())

    def download(self, bucket: str, prefix: str, directory: Path) -> None:
        """Write all objects with this prefix into a directory, by their keys without it."""
        for key in self.keys(bucket, prefix):
            if key.endswith("/"):
                continue
            path = directory / key.removeprefix(prefix).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._ask(f"{bucket}/{quote(key)}"))

    def failures(self) -> dict[str, int]:
        """Return how often the server has failed towards Hadoop, by kind: `busy`, `broken`, `late`."""
        return dict(json.loads(self._ask("-/failures")))

    def list_late(self, lists: int) -> None:
        """Leave objects that are new from now on out of the first so many lists that would name them; with 0, list all
        again."""
        self._ask(f"-/late?lists={lists}")

    def keys(self, bucket: str, prefix: str) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            query = f"list-type=2&prefix={quote(prefix, '')}&start-after={quote(after, '')}"
            page = ET.fromstring(self._ask(f"{bucket}?{query}"))
            found += [one.text or "" for one in page.iter(f"{NAMESPACE}Key")]
            if page.findtext(f"{NAMESPACE}IsTruncated") != "true":
                return found
            after = found[-1]

    def _ask(self, what: str, data: bytes | None = None) -> bytes:
        headers = _SIGNED | {"Content-Type": "application/octet-stream"}  # The server would take a form apart.
        request = Request(f"{self.url}/{what}", data, headers, method="GET" if data is None else "PUT")
        with urlopen(request, timeout=HANG_S) as answer:
            return bytes(answer.read())


@contextmanager
def s3_store(python: Path) -> Iterator[S3Store]:
    """Start the server with this Python; end it afterwards."""
    script = Path(__file__).with_name("s3_process.py")
    with subprocess.Popen([python, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield S3Store(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()
