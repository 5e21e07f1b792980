import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from sim.results import arrow
from sim.results.tables import DECLARED, PLACEMENTS, PODS, REQUESTS, Column
from tests.results.builders import Book, mixed_run, pooled_facts, pooled_run

RESULT = mixed_run()
POOLED = pooled_run()


def names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


def test_columns_are_the_published_ones_in_order() -> None:
    """Programs that read the parquet files by name would find other columns."""
    assert names(REQUESTS) == (
        "request_id, session_id, agent_id, workload, model, turn, variant, seed, rule, backend, "
        "pod, outcome, reason, status, http_status, tries, attempts, arrival_s, hold_s, "
        "dispatch_s, scheduled_s, first_token_s, end_s, prompt_tokens, cached_tokens, "
        "computed_tokens, output_tokens, preemptions"
    )
    assert names(PLACEMENTS) == (
        "request_id, attempt, proxy, backend, pod, outcome, reason, decided_s, dispatch_s, "
        "scheduled_s, first_token_s, end_s, prompt_tokens, cached_tokens, "
        "predicted_cached_tokens, status, http_status, error"
    )
    assert names(PODS) == "time_s, pod, in_flight, waiting, running, kv_usage"
    assert names(DECLARED["failed_attempts"]) == (
        "request_id, try, backend, pod, start_s, end_s, error, http_status"
    )
    assert names(DECLARED["retries"]) == (
        "request_id, workload, try, model, sent_s, end_s, status, http_status, reason, "
        "retry_after_s"
    )
    assert names(DECLARED["pools"]) == (
        "pool, kind, request_id, member, from_member, cause, start_s, end_s, result, drain_s, "
        "unload_s, load_s"
    )


def test_tables_have_the_declared_columns() -> None:
    """A column would have another name, type or place than its declaration."""
    for table, columns in DECLARED.items():
        found = getattr(RESULT.tables, table).column_names
        assert found == [column.name for column in columns]


def test_times_carry_their_unit() -> None:
    """A column in seconds would not say so in its name, or one of tokens."""
    for column in (column for columns in DECLARED.values() for column in columns):
        assert column.name.endswith("_s") == (column.unit == "s")
        assert column.name.endswith("_tokens") == (column.unit == "tokens")
        assert column.meaning


def test_a_completed_request_is_written_down_whole() -> None:
    """A value would stand in another column, or come from another attempt."""
    row = RESULT.tables.requests.to_pylist()[2]
    assert row == {
        "request_id": 2,
        "session_id": "B",
        "agent_id": "a2",
        "workload": None,
        "model": None,
        "turn": 1,
        "variant": "",
        "seed": 1,
        "rule": None,
        "backend": "qwen",
        "pod": "qwen-1",
        "outcome": "spill",
        "reason": "waiting",
        "status": "completed",
        "http_status": 200,
        "tries": 1,
        "attempts": 1,
        "arrival_s": 12.0,
        "hold_s": 0.25,
        "dispatch_s": 12.25,
        "scheduled_s": 12.25,
        "first_token_s": 15.0,
        "end_s": 17.0,
        "prompt_tokens": 300,
        "cached_tokens": 0,
        "computed_tokens": 300,
        "output_tokens": 5,
        "preemptions": 0,
    }


def test_a_request_that_no_pod_got_has_nulls() -> None:
    """A refused request would look placed on a pod, at time 0 or with 0 tokens cached."""
    row = RESULT.tables.requests.to_pylist()[4]
    assert row["status"] == "rejected"
    assert row["http_status"] == 503
    assert row["reason"] == "no_ready_pod"
    assert row["attempts"] == 0
    unknown = {name for name, value in row.items() if value is None}
    assert unknown == {
        *("session_id", "agent_id", "workload", "model", "rule", "pod", "outcome"),
        *("dispatch_s", "scheduled_s", "first_token_s"),
        *("cached_tokens", "computed_tokens", "output_tokens", "preemptions"),
    }


def test_what_is_not_known_yet_is_null() -> None:
    """Tokens of requests that wait or run would be reported as 0."""
    prefilling, queued = RESULT.tables.requests.to_pylist()[7:]
    assert prefilling["cached_tokens"] == 48
    assert prefilling["output_tokens"] is prefilling["end_s"] is prefilling["http_status"] is None
    assert queued["scheduled_s"] is queued["cached_tokens"] is queued["computed_tokens"] is None


def test_clients_that_left_are_499() -> None:
    """Cancelled requests would count as errors of the server."""
    (request,) = (row for row in RESULT.tables.requests.to_pylist() if row["status"] == "cancelled")
    assert request["http_status"] == 499


def test_placements_are_one_row_per_attempt() -> None:
    """An attempt would be missing, or its own prediction replaced by a measurement."""
    rows = RESULT.tables.placements.to_pylist()
    assert [row["request_id"] for row in rows] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert rows[2] == {
        "request_id": 2,
        "attempt": 1,
        "proxy": "proxy-0",
        "backend": "qwen",
        "pod": "qwen-1",
        "outcome": "spill",
        "reason": "waiting",
        "decided_s": 12.25,
        "dispatch_s": 12.25,
        "scheduled_s": 12.25,
        "first_token_s": 15.0,
        "end_s": 17.0,
        "prompt_tokens": 300,
        "cached_tokens": 0,
        "predicted_cached_tokens": None,
        "status": "completed",
        "http_status": 200,
        "error": None,
    }


def test_what_rules_clients_and_pools_did_is_written_down_whole() -> None:
    """A value would stand in another column of the tables that tell why a request took its way."""
    assert POOLED.tables.failed_attempts.to_pylist()[1] == {
        "request_id": 4,
        "try": 1,
        "backend": "b",
        "pod": None,
        "start_s": 61.0,
        "end_s": 71.0,
        "error": "swap_deadline_exceeded",
        "http_status": None,
    }
    assert POOLED.tables.retries.to_pylist() == [
        {
            "request_id": 4,
            "workload": "chat",
            "try": 1,
            "model": None,
            "sent_s": 61.0,
            "end_s": 71.0,
            "status": "rejected",
            "http_status": 503,
            "reason": "pool_activation_timeout",
            "retry_after_s": 5.0,
        }
    ]
    rows = POOLED.tables.pools.to_pylist()
    assert [row for row in rows if row["kind"] == "swap"][1] == {
        "pool": "desk",
        "kind": "swap",
        "request_id": None,
        "member": "a",
        "from_member": "b",
        "cause": "request",
        "start_s": 44.0,
        "end_s": 50.0,
        "result": "completed",
        "drain_s": 0.0,
        "unload_s": 1.0,
        "load_s": 5.0,
    }
    assert [row["request_id"] for row in rows if row["kind"] == "skip"] == [2]
    assert POOLED.requests["tries"].tolist() == [1, 1, 1, 1, 2, 1, 1, 1, 1]


def test_phases_of_swaps_have_no_float_noise() -> None:
    """A load of 7 s that begins at an odd instant would be said to last 7.000000000104137 s."""
    book = Book()
    start_s = 8550.4123456788958
    phases_s = tuple(round(start_s + lasts_s, 9) - start_s for lasts_s in (3.0, 1.0, 7.0))
    assert phases_s[2] != 7.0
    book.swap(start_s, "a", "b", round(start_s + 11.0, 9), phases_s=phases_s)
    (row,) = book.freeze(pooled_facts()).tables.pools.to_pylist()
    assert (row["drain_s"], row["unload_s"], row["load_s"]) == (3.0, 1.0, 7.0)


def test_pod_samples_keep_their_pod() -> None:
    """Samples of one pod would be filed under another."""
    assert RESULT.tables.pods.to_pylist()[3] == {
        "time_s": 10.0,
        "pod": "qwen-1",
        "in_flight": 0,
        "waiting": 0,
        "running": 0,
        "kv_usage": 0.3,
    }


def test_data_frames_have_types_that_do_not_depend_on_nulls() -> None:
    """A notebook would break on the first run in which every request completes."""
    frame = RESULT.requests
    whole = RESULT.tables.requests.slice(0, 1)
    assert frame.dtypes.to_dict() == arrow.data_frame(whole).dtypes.to_dict()
    assert str(frame["cached_tokens"].dtype) == "Int64"
    assert str(frame["prompt_tokens"].dtype) == "int64"
    assert frame["cached_tokens"].isna().sum() == 3
    assert frame.loc[frame["pod"] == "qwen-1", "request_id"].tolist() == [2, 3, 6, 8]
    assert len(RESULT.placements) == 8
    assert len(RESULT.pods) == 6


def test_nulls_are_refused_where_none_may_be() -> None:
    """A missing arrival would travel through every figure before anyone noticed."""
    declared = [arrow.field("arrival_s", arrow.FLOAT, nullable=False)]
    one_missing = arrow.floats(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="arrival_s holds 1 nulls"):
        arrow.table(declared, [one_missing])


def test_freezing_a_run_loads_no_heavy_library() -> None:
    """Every run would start a quarter to a whole second later."""
    program = (
        "import sys\n"
        "from tests.results.builders import mixed_run\n"
        "mixed_run()\n"
        "heavy = {'pandas', 'matplotlib', 'scipy', 'pyarrow.compute', 'pyarrow.parquet'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"
