"""What viewers ask of a trace: the rules of the Trace Event Format that our files use.

Sources: Google's "Trace Event Format" (event kinds and their fields, times in
microseconds, nesting of complete events) and Perfetto's JSON importer
(slices of one track are read in the order of time and kept on a stack;
threads are named by their id alone; an arrow needs a slice that sends it out).
"""

import json
from typing import Any

KINDS = {"M", "X", "i", "C"}
METADATA = {"process_name", "process_sort_index", "thread_name"}


def events(text: str) -> list[dict[str, Any]]:
    """The events of a file, names first."""
    document = json.loads(text)
    assert set(document) == {"displayTimeUnit", "otherData", "traceEvents"}
    return document["traceEvents"]


def breaches(found: list[dict[str, Any]]) -> list[str]:
    """Every rule that is broken, with the event that breaks it."""
    return [*_of_fields(found), *_of_names(found), *_of_order(found), *_of_arrows(found)]


def _of_fields(found: list[dict[str, Any]]) -> list[str]:
    wrong = []
    for event in found:
        kind = event["ph"]
        fine = kind in KINDS and isinstance(event["name"], str) and event["name"] != ""
        fine &= isinstance(event["pid"], int) and event["pid"] > 0
        if kind != "M":
            fine &= isinstance(event["ts"], int) and event["ts"] >= 0
        if kind == "X":
            fine &= isinstance(event["dur"], int) and event["dur"] >= 0
        if kind == "i":
            fine &= event["s"] == "t"
        if kind == "C":
            fine &= bool(event["args"])
            fine &= all(isinstance(value, int | float) for value in event["args"].values())
        if not fine:
            wrong.append(f"fields: {event}")
    return wrong


def _of_names(found: list[dict[str, Any]]) -> list[str]:
    names = [event for event in found if event["ph"] == "M"]
    wrong = [f"metadata: {event}" for event in names if event["name"] not in METADATA]
    processes = [event["pid"] for event in names if event["name"] == "process_name"]
    threads = [event["tid"] for event in names if event["name"] == "thread_name"]
    if len(set(processes)) < len(processes) or len(set(threads)) < len(threads):
        wrong.append("a process or thread is named twice")
    if set(processes) & set(threads):
        wrong.append("a thread has the id of a process")
    homes = {event["tid"]: event["pid"] for event in names if event["name"] == "thread_name"}
    for event in found:
        if event["pid"] not in processes:
            wrong.append(f"no such process: {event}")
        if "tid" in event and homes.get(event["tid"]) != event["pid"]:
            wrong.append(f"no such thread: {event}")
    return wrong


def _of_order(found: list[dict[str, Any]]) -> list[str]:
    """Times never go back, and on each thread slices are a stack."""
    wrong = []
    now_us = 0
    stacks: dict[int, list[dict[str, Any]]] = {}
    for event in found:
        if event["ph"] == "M":
            continue
        if event["ts"] < now_us:
            wrong.append(f"out of order: {event}")
        now_us = event["ts"]
        if "tid" not in event:
            continue
        stack = stacks.setdefault(event["tid"], [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        end_us = event["ts"] + event.get("dur", 0)
        if stack and end_us > stack[-1]["ts"] + stack[-1]["dur"]:
            wrong.append(f"overlaps {stack[-1]}: {event}")
        if event["ph"] == "X":
            stack.append(event)
    return wrong


def _of_arrows(found: list[dict[str, Any]]) -> list[str]:
    wrong = []
    begun: set[str] = set()
    for event in found:
        inward, outward = event.get("flow_in", False), event.get("flow_out", False)
        arrow = event.get("bind_id")
        if (arrow is not None) != (inward or outward):
            wrong.append(f"an arrow without direction: {event}")
        if inward and arrow not in begun:
            wrong.append(f"an arrow from nowhere: {event}")
        if outward and not inward:
            if arrow in begun or int(arrow, 16) == 0:
                wrong.append(f"an arrow that begins twice, or is none: {event}")
            begun.add(arrow)
    return wrong
