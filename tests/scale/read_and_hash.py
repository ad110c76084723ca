"""The yardstick of `audit_scale`: `read_and_hash.py DIR` lets DuckDB read and hash every column that an audit reads."""

from __future__ import annotations

import sys

import duckdb

from router.audit.database import MEMORY_BYTES, exact, quoted
from router.audit.load import LINE_BYTES, NEEDED, columns_read


def read_and_hash(directory: str) -> None:
    """Read and hash with the memory and the threads of the local engine."""
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{MEMORY_BYTES // 10**6}MB'; SET preserve_insertion_order = false")
    hashes = ", ".join(f'bit_xor(hash("{name}"))' for name in NEEDED)
    files = quoted(f"{exact(directory)}/**/events-*.jsonl")
    connection.execute(
        f"SELECT count(*), {hashes} FROM read_json({files}, format = 'newline_delimited', records = 'true',"
        f" compression = 'uncompressed', maximum_object_size = {LINE_BYTES}, columns = {columns_read()})"
    ).fetchall()


if __name__ == "__main__":
    read_and_hash(sys.argv[1])
