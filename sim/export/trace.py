"""A run's requests as a trace, with the scenario around it that gives the same tables.

The trace is replayed before it is written: what cannot be said is refused.
"""

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any, Final, Literal, TypeAlias

from ruamel.yaml import YAML

from sim.comparison.exact import first_difference
from sim.core.errors import ScenarioError, UserError
from sim.core.fields import MAX_NAME
from sim.execution.repetition import recipe
from sim.execution.runner import run_one
from sim.results import arrow
from sim.results.result import RunResult
from sim.results.sent import REQUESTS, TEXTS, read_sent
from sim.results.stored import StoredRun
from sim.results.unfinished import check_writable, write_file
from sim.scenario.hashing import without_defaults
from sim.scenario.load import load
from sim.scenario.schema import Scenario
from sim.workload.clients import ClientSpec
from sim.workload.trace import MAGIC, VERSION, WORKLOADS

GZIP: Final = ".gz"
SCENARIO: Final = ".yaml"
WIDTH: Final = 98

Arrivals: TypeAlias = Literal["closed-loop", "fixed"]
"""Whether who waited for others waits for them again, or is sent when it was."""

MEANING: Final = {
    "closed-loop": "requests that waited for others wait for them again",
    "fixed": "every request is sent when it was, whatever became of those before it",
}

Row: TypeAlias = dict[str, Any]

COLUMNS: Final = (
    *("request_id", "workload", "session_id", "turn", "agent_id", "model", "arrival_s"),
    "prompt_tokens",
)


@dataclass(frozen=True)
class WrittenTrace:
    """A trace on disk, and the scenario that replays it."""

    path: Path
    scenario: Path
    requests: int


def export_trace(run: StoredRun, path: Path, arrivals: Arrivals = "closed-loop") -> WrittenTrace:
    """Write the requests of a stored run to ``path``, and ``path``.yaml, which replays them.

    The trace is replayed first. Raises ``UserError``, and writes nothing, when that does not
    give the tables of the run, or the disk refuses the files.
    """
    beside = path.with_name(path.name + SCENARIO)
    check_writable("the trace", path)
    check_writable("the scenario of the trace", beside)
    scenario = _scenario(run)
    result = run.read()
    rows, texts = _sent(run, result)
    if not rows:
        raise UserError(f"{run.path}: no request was sent, so there is none to export")
    content = _text(run, scenario, rows, texts, arrivals).encode()
    if path.suffix == GZIP:
        content = gzip.compress(content, mtime=0)  # equal runs, equal bytes
    replaying = _scenario_text(run, scenario, path.name, arrivals).encode()
    _replay(run, result, path.name, content, replaying)
    write_file("the trace", path, content)
    write_file("the scenario of the trace", beside, replaying)
    return WrittenTrace(path, beside, len(rows))


def _scenario(run: StoredRun) -> Scenario:
    """Return the scenario; raises ``UserError`` for clients that are not those of podsim."""
    try:
        scenario = recipe(run.manifest).scenario
    except ScenarioError as error:
        raise UserError(
            f"{run.path}: its scenario cannot be simulated again, as a trace needs:\n{error}"
        ) from error
    for name, spec in scenario.workloads.items():
        if not isinstance(spec, ClientSpec):
            kind = getattr(spec, "kind", "unknown")
            raise UserError(
                f"{run.path}: workload {name!r} of kind {kind} has clients of its own, which a "
                "trace cannot say"
            )
    return scenario


def _sent(run: StoredRun, result: RunResult) -> tuple[list[Row], list[Row]]:
    """Return the requests, as their clients sent them first, and the texts."""
    sent = read_sent(run.path)
    rows = [
        table_row | sent_row
        for table_row, sent_row in zip(
            arrow.records(result.tables.requests, COLUMNS),
            arrow.records(sent.sent, [column.name for column in REQUESTS]),
            strict=True,
        )
    ]
    awaited = iter(arrow.whole(sent.waits, "request_id").tolist())
    for row in rows:
        row["after"] = list(islice(awaited, row["after"]))
        row["behind"] = list(islice(awaited, row["behind"]))
    for retry in arrow.records(result.tables.retries, ("request_id", "try", "model")):
        if retry["try"] == 1:
            rows[retry["request_id"]]["model"] = retry["model"]
    return rows, arrow.records(sent.texts, [column.name for column in TEXTS])


def _replay(run: StoredRun, first: RunResult, name: str, trace: bytes, scenario: bytes) -> None:
    """Replay the trace; raises ``UserError`` when that gives other tables."""
    with TemporaryDirectory() as directory:
        (Path(directory) / name).write_bytes(trace)
        place = Path(directory) / "replay.yaml"
        place.write_bytes(scenario)
        replay = load(place)
        again = run_one(replay.variants[0], run.seed, replay.directory)
    if again.digest != first.digest:
        raise UserError(
            f"{run.path}: replayed, its trace would not give the tables of the run: "
            f"{_difference(first, again)}{_reason(run, first)}. Nothing was written, because a "
            "trace that is nearly right misleads"
        )


def _difference(one: RunResult, other: RunResult) -> str:
    """Return where the tables of two runs begin to differ, in words."""
    cell = first_difference(one.tables, other.tables)
    if cell is None:
        return "nothing but their digests"
    if cell.base_rows != cell.new_rows:
        return f"{cell.table} has {cell.base_rows} rows in the run, then {cell.new_rows}"
    where = f"{cell.table}, row {cell.row}, {cell.column}"
    return f"{where}: {cell.base} in the run, then {cell.new}"


def _reason(run: StoredRun, result: RunResult) -> str:
    """Return why a replay may differ: ties between workloads, another version of podsim."""
    from importlib.metadata import version

    if (made_by := run.manifest.get("podsim")) != version("podsim"):
        return f"; it was made by another version of podsim ({made_by})"
    workloads: dict[float, str] = {}
    for row in arrow.records(result.tables.requests, ("arrival_s", "workload")):
        if workloads.setdefault(row["arrival_s"], row["workload"]) != row["workload"]:
            return (
                "; requests of several workloads arrive at one instant, in an order that may "
                "depend on what they waited for, which fixed arrivals do not say"
            )
    return ""


# -- the lines of the trace -----------------------------------------------------------------


def _text(
    run: StoredRun,
    scenario: Scenario,
    rows: Sequence[Row],
    texts: Sequence[Row],
    arrivals: Arrivals,
) -> str:
    """Return the file; raises ``UserError`` for requests that a trace cannot say."""
    head = {
        MAGIC: VERSION,
        "arrivals": arrivals,
        WORKLOADS: list(scenario.workloads),
        "scenario": run.scenario,
        "variant": run.variant,
        "seed": run.seed,
        "digest": run.digest,
        "podsim": run.manifest.get("podsim"),
    }
    lines = [head, *_Lines(scenario, texts, arrivals).all(rows)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


class _Lines:
    """Writes requests, and numbers texts as they are first met."""

    def __init__(self, scenario: Scenario, texts: Sequence[Row], arrivals: Arrivals) -> None:
        self._workloads = scenario.workloads
        self._texts = texts
        self._closed_loop = arrivals == "closed-loop"
        self._numbers: dict[int, int] = {}

    def all(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Yield every line behind the first."""
        for row in rows:
            prompt, answer = row["prompt_text"], row["answer_text"]
            if answer != prompt:
                yield from self._new_texts(answer)
            yield from self._new_texts(self._texts[prompt]["of"])
            line = self._line(row)
            yield {key: value for key, value in line.items() if value is not None}

    def _new_texts(self, text: int | None) -> Iterator[Row]:
        """Yield lines for those on the path to a text that have none yet, the first one first."""
        path = []
        while text is not None and text not in self._numbers:
            path.append(text)
            text = self._texts[text]["of"]
        for new in reversed(path):
            yield {"text": self._number(new)} | self._branch(new)

    def _number(self, text: int) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def _branch(self, text: int) -> Row:
        of, start = self._texts[text]["of"], self._texts[text]["start"]
        return {} if of is None else {"of": [self._number(of), start]}

    def _line(self, row: Row) -> Row:
        spec = self._workloads[row["workload"]]
        if row["headers"] != str(tuple(spec.headers.items())):
            raise UserError(
                f"request {row['request_id']} has headers of its own, which a trace cannot say"
            )
        text, answer = row["prompt_text"], row["answer_text"]
        of = {} if text in self._numbers else self._branch(text)
        return {
            "request": row["request_id"],
            "workload": row["workload"],
            "session": row["session_id"],
            "turn": row["turn"],
            "agent": row["agent_id"],
            "key": row["session_key"],
            **self._sending(row),
            "prompt_tokens": row["prompt_tokens"],
            "output_tokens": row["output_tokens"],
            "text": self._number(text),
            **of,
            "answer": None if answer == text else self._number(answer),
            **_asked(row, spec),
            "closes_session": bool(row["closes_session"]) or None,
        }

    def _sending(self, row: Row) -> Row:
        """Return what it waits for, or when it is sent."""
        if not self._closed_loop or row["think_s"] is None:
            return {"arrival_s": row["arrival_s"] if row["due_s"] is None else row["due_s"]}
        return {
            "after": row["after"] or None,
            "behind": row["behind"] or None,
            "or_cancelled": bool(row["or_cancelled"]) or None,
            "think_s": row["think_s"],
        }


def _asked(row: Row, spec: ClientSpec) -> Row:
    """Return what a request says that its workload does not say of all."""
    model, priority = row["model"] or "", int(row["priority"])
    return {
        "model": model if model != (spec.model or "") else None,
        "priority": priority if priority != spec.priority else None,
        "max_output_tokens": row["max_output_tokens"],
        "num_ctx": row["num_ctx"] if row["num_ctx"] != spec.num_ctx else None,
        "patience_s": row["patience_s"] if row["patience_s"] < inf else None,
    }


# -- the scenario around it -----------------------------------------------------------------


def _scenario_text(run: StoredRun, scenario: Scenario, trace: str, arrivals: Arrivals) -> str:
    document = without_defaults(scenario)
    variant = document.pop("variant", "")
    document["name"] = f"{scenario.name[: MAX_NAME - 6]}-trace"
    document["seeds"] = [run.seed]
    several = len(scenario.workloads) > 1
    document["workloads"] = {
        name: _workload(spec, trace, name if several else None)
        for name, spec in scenario.workloads.items()
    }
    if variant:
        document["variants"] = {variant: {}}
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = WIDTH
    yaml.dump(document, stream)
    about = (
        f"The requests of {' '.join(filter(None, (run.scenario, run.variant)))} under seed "
        f"{run.seed}, replayed: "
        f"podsim run on this file gives the same tables, digest {run.digest}. "
        f"Arrivals are {arrivals}: {MEANING[arrivals]}."
    )
    head = fill(about, WIDTH, initial_indent="# ", subsequent_indent="# ")
    return head + "\n" + stream.getvalue()


def _workload(spec: ClientSpec, trace: str, name: str | None) -> Row:
    """Return the clients of a workload, sending what the trace says."""
    keys = {field.alias for field in ClientSpec.model_fields.values()}
    agents = spec.agents_total
    return {
        "kind": "trace",
        "file": trace,
        **({"workload": name} if name else {}),
        **({"agents": agents} if agents else {}),
        **{key: value for key, value in without_defaults(spec).items() if key in keys},
    }
