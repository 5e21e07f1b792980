"""Files that are not what a workload reads: what they are, and what to do with them."""

import re
from typing import Final

from sim.core.fields import MAX_DURATION_S

_BINARY: Final = {
    b"PAR1": "a Parquet file: write it as CSV (pandas: read_parquet, to_csv)",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"\x28\xb5\x2f\xfd": "packed with zstd: unpack it, or pack it with gzip",
    b"BZh": "packed with bzip2: unpack it, or pack it with gzip",
    b"\xfd7zXZ": "packed with xz: unpack it, or pack it with gzip",
}
_JSON: Final = {
    "podsim_trace": "a trace that podsim has exported: kind: trace reads it",
    "sequence_block_runs": "a recording: kind: recording reads it",
    "input_length": "a trace of Mooncake's form. For kind: script write CSV: arrival_ms from "
    "timestamp, promptTokens from input_length, outputTokens from output_length. For kind: "
    "recording, which knows what prompts share: arrival_s, timestamp in seconds; prompt_tokens; "
    "output_tokens; sequence_block_runs, [[id, 1], ...] of the hash_ids of full blocks; and "
    "blockTokens: 512",
}
_HEADERS: Final = {
    ("timestamp", "contexttokens", "generatedtokens"): "Azure's LLM inference trace: rename "
    "TIMESTAMP, a date, to arrival_s and write it in seconds, ContextTokens to promptTokens and "
    "GeneratedTokens to outputTokens; the workload's firstArrival: 0s lets the first one come then",
    ("timestamp", "requesttokens", "responsetokens"): "BurstGPT's trace: rename Timestamp, in "
    "seconds, to arrival_s, Request tokens to promptTokens and Response tokens to outputTokens; "
    "leave out the other columns and rows of 0 response tokens, which failed; the workload's "
    "firstArrival: 0s lets the first one come then",
}
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")
_EPOCH_S: Final = (1e9, 1e10)
"""From 2001 to 2286, in seconds since 1970."""
_FINER: Final = {"ms": 1e3, "us": 1e6, "ns": 1e9}


def binary(data: bytes) -> str | None:
    """What ``data`` is when it is no text; None when it may be."""
    return next((said for magic, said in _BINARY.items() if data.startswith(magic)), None)


def not_csv(text: str) -> str | None:
    """What ``text`` is when it is JSON and not CSV."""
    first = text.lstrip().partition("\n")[0]
    if not first.startswith(("{", "[")):
        return None
    other = "JSON, not CSV: write a header with arrival_s, promptTokens and outputTokens, and a row"
    return _json(first) or f"{other} per request"


def not_json(text: str) -> str | None:
    """What ``text`` is when it is CSV, or JSON lines of another tool, and not podsim's."""
    first = text.lstrip().partition("\n")[0]
    if '"input_length"' in first:
        return _JSON["input_length"]
    if "," in first and not set(first) & set('{}[]":'):
        return public_header(first.split(",")) or "CSV, not JSON lines: kind: script reads it"
    return None


def public_header(cells: list[str]) -> str | None:
    """Which public trace has this header, and what to do; None for any other."""
    names = {cell.strip().lower().replace(" ", "").replace("_", "") for cell in cells}
    return next((said for wanted, said in _HEADERS.items() if names >= set(wanted)), None)


def stamp(cell: str, per_second: float, moved: bool) -> str | None:
    """What is wrong with an arrival that is a date or counts from 1970; None for a plain time.

    ``moved``: whether arrivals count from the first, so that they may be those
    of any clock, if only the unit is right.
    """
    what_then = "give the workload firstArrival: 0s, so that stamps count from the first one"
    if _DATE.fullmatch(cell):
        return f"is a date: write seconds, such as those since 1970, and {what_then}; got {cell!r}"
    try:
        written = float(cell)
    except ValueError:
        return None
    low, high = _EPOCH_S
    if written / per_second <= MAX_DURATION_S:
        return None
    for unit, factor in _FINER.items():
        if per_second < factor and low <= written / factor < high:
            column = f"name the column arrival_{unit}" if unit != "ns" else "divide by 1000 for us"
            return f"counts {unit} since 1970: {column}, and {what_then}; got {cell}"
    if not moved and low <= written / per_second < high:
        return f"counts from 1970: {what_then}; got {cell}"
    return None


def _json(first: str) -> str | None:
    return next((said for key, said in _JSON.items() if f'"{key}"' in first), None)
