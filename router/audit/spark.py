"""The Spark engine for `router audit --engine spark`: find a Java, start and end a session, and pass it the files."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.audit import publish
from router.audit.database import MEMORY_BYTES, AuditFailed, scratch
from router.audit.disk_space import NO_ROOM
from router.audit.engine import AuditSpan, Report
from router.audit.file_facts import content, is_regular, read_facts, why_unreadable
from router.audit.java import ERRORS, end_java, java_home
from router.audit.listing import Listing
from router.audit.put_in_place import put_in_place
from router.audit.spelling import Care
from router.core.wire.crypto import verify
from spark_analytics.batch.short_memory import SIGNS
from spark_analytics.judgement.log_files import NOT_A_FILE, FileFacts
from spark_analytics.judgement.schema import role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("starting Spark", "checking signatures and digests", "reading the lines", "adding up", "writing the tables")


def audit(
    listing: Listing,
    span: AuditSpan,
    *,
    memory_bytes: int = MEMORY_BYTES,
    out: Path | None = None,
    report: Report = lambda what, part: None,
) -> dict[str, Any]:
    """Audit by Spark, as `engine.audit` does: the same summary except `engine` and `run`. Raise `AuditFailed` with the
    reason if it cannot."""
    run = _load_spark()
    with ExitStack() as stack:
        directory = stack.enter_context(scratch(publish.parent(out) if out else None))
        report(STEPS[0], 0)
        session = _load_session(directory, memory_bytes, sum(map(_size, listing.paths)))
        stack.callback(session.stop)
        new = directory / "new"
        found = run(session, listing, span, str(new) if out else None, report)
        if out:
            _publish(found, new, out, directory, listing)
    return found


def audited(
    session: SparkSession,
    listing: Listing,
    span: AuditSpan,
    tables: str | None = None,
    report: Report = lambda what, part: None,
) -> dict[str, Any]:
    """Audit in an existing session; the tables go below the path `tables`."""
    return _load_spark()(session, listing, span, tables, report)


def _load_spark() -> Callable[..., dict[str, Any]]:
    """Return the engine's function; raise `AuditFailed` if Spark is not installed."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from spark_analytics.batch import audit as engine
        from spark_analytics.batch import bronze
        from spark_analytics.batch.span import Span as Asked
        from spark_analytics.batch.writer import Writer
    except ImportError as error:
        raise AuditFailed(
            f"Spark is not installed here ({error}): install the router with its extra `spark`, as by `pip install "
            "'.[spark]'` in its source directory; `--engine local` gives the same numbers without it"
        ) from None

    def run(
        session: SparkSession, listing: Listing, span: AuditSpan, tables: str | None, report: Report
    ) -> dict[str, Any]:
        try:
            files = _given(listing, lambda paths: bronze.uris_of(session, paths))
            given = engine.Given(*files, listing.named, listing.filing.about)
            return engine.audit_and_record(
                session,
                given,
                Asked(span.as_of_ns, span.since_ns, span.until_ns, span.slo),
                writer=Writer(tables) if tables else None,
                verify=verify,
                # Spark would need seven times as long.
                read_facts=lambda session, uris: read_facts(sorted(uris), care=Care.EXACT),
                content=content,
                report=lambda what: report(what, STEPS.index(what) / len(STEPS)),
            )
        except bronze.NothingToRead:
            raise AuditFailed("a log file went away as the audit began: run it again") from None
        except (PySparkException, Py4JError) as error:
            raise AuditFailed(_sentence(str(error))) from error

    return run


def _given(
    listing: Listing, uris_of: Callable[[list[str]], dict[str, str]]
) -> tuple[dict[str, str], list[Any], list[FileFacts]]:
    """Return the files with their URIs, the problems, and the facts of files that Spark cannot or need not read."""
    full = {os.path.abspath(path): path for path in listing.paths}  # noqa: PTH100 - names need not be UTF-8
    odd = {path: text for path in listing.paths if (text := _oddity(path)) is not None}
    found = uris_of([path for path, name in full.items() if name not in odd])
    uris = {full[path]: uri for path, uri in found.items()}
    missing = [path for path in listing.paths if path not in uris and path not in odd]
    facts = [FileFacts(path, 0, b"", b"", "", text) for path, text in odd.items()]
    facts += [FileFacts(path, 0, b"", b"", "", "Spark does not find it") for path in missing if Path(path).exists()]
    return uris, list(listing.problems), facts


def _oddity(path: str) -> str | None:
    """Return why Spark must not read that file; None if it may."""
    if role(path) == "aside":
        return ""
    try:
        path.encode()
        if not is_regular(path):
            return NOT_A_FILE
        with open(path, "rb"):  # noqa: PTH123
            pass
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    except OSError as error:
        return why_unreadable(path, error)
    return None


def _size(path: str) -> int:
    """Return the size in bytes; 0 for a file that cannot be examined."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _load_session(directory: Path, memory_bytes: int, log_bytes: int) -> SparkSession:
    """Start a session without output, with its files in a directory that is deleted after the audit.

    A signal during the start ends its Java. Afterwards Ctrl-C is handled as before; pyspark's own handler asks Java for
    something while Python waits for Java, and fails."""
    from pyspark.errors import PySparkException

    from spark_analytics.batch.session import local_session

    before = os.environ.get("JAVA_HOME")
    home = java_home(directory / "java")
    os.environ["JAVA_HOME"] = str(home)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4j)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        return local_session(None, f"{memory_bytes >> 20}m", str(directory / "spark"), log_bytes)
    except KeyboardInterrupt:
        end_java(home)
        raise
    except PySparkException as error:
        said = (home / ERRORS).read_text(errors="replace").split("\n") if (home / ERRORS).exists() else []
        text = f"Spark did not start: {error}. {' '.join(said[-3:])}".strip()
        raise AuditFailed(f"{text}; try another Java (JAVA_HOME), or --engine local") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)
        os.environ.pop("JAVA_HOME")
        if before is not None:
            os.environ["JAVA_HOME"] = before


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Whether a log record is not py4j's; py4j logs the traceback of every interrupt to the root logger."""
    return record.module != "java_gateway"


def _publish(found: dict[str, Any], new: Path, out: Path, directory: Path, listing: Listing) -> None:
    """Write the summary and the page as files, as the local engine does; then rename everything."""
    try:
        for name in (publish.SUMMARY, publish.PAGE):
            (new / name).rename(directory / name)
        texts = partial(publish.write_texts, found, new, listing.key_names, listing.filing.key)
        put_in_place(new, out, directory / "old", texts)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise  # `scratch` reports it.
        raise AuditFailed(f"{error.filename or out}: {error.strerror}; the audit could not be written there") from None


def _sentence(said: str) -> str:
    text = " ".join(said.split())
    if "No space left on device" in text:
        return "the disk has no room for what Spark keeps there: make room, set TMPDIR, or give --out on another disk"
    if SIGNS.search(text):
        return f"Spark has too little memory for these logs: allow more with --memory ({text[:200]})"
    if "SparkContext was shut down" in text:
        return f"Spark's Java ended meanwhile, as it does without memory: allow more with --memory ({text[:200]})"
    return f"Spark failed: {text[:400]}"
