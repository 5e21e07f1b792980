"""Recorded requests: when they are sent, what they say, and files that are wrong."""

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from sim.core.content import Prompt
from sim.core.errors import ScenarioError
from sim.workload import recording
from sim.workload.recording import (
    RecordedRequest,
    Recording,
    RecordingSpec,
    read_recording,
    texts,
)
from tests.workload.fakes import run

BLOCK = 4


def line(arrival_s: float = 0.0, prompt: int = 10, output: int = 6, *runs: list[int]) -> dict:
    return {
        "arrival_s": arrival_s,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "sequence_block_runs": list(runs),
    }


def written(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "requests.jsonl"
    path.write_text(
        "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    )
    return path


def faults(tmp_path: Path, *lines: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        read_recording(written(tmp_path, *lines), BLOCK)
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def request(prompt: int, output: int, *blocks: int) -> RecordedRequest:
    runs = [[block, 1] for block in blocks]
    return RecordedRequest(**line(0.0, prompt, output, *runs))


def shared(first: RecordedRequest, second: RecordedRequest) -> int:
    """Tokens that the sequences, prompt and answer, of two requests have in common."""
    before, after = (
        Prompt(node, one.prompt_tokens + one.output_tokens)
        for one, node in zip((first, second), texts((first, second), BLOCK))
    )
    return after.common_prefix(before)


def test_requests_go_out_when_they_arrived_however_long_answers_take(tmp_path):
    """A slow engine would hold up its own traffic."""
    written(tmp_path, line(2.5), line(0.5, 8, 3), line(2.5, 12, 1))
    spec = RecordingSpec(kind="recording", file="requests.jsonl", block_tokens=BLOCK)
    ran = run(
        {"load": (Recording, spec)}, service=lambda _: (100.0, "completed"), directory=tmp_path
    )
    assert ran.arrivals() == [0.5, 2.5, 2.5]
    assert [one.prompt.tokens for one in ran.requests] == [8, 10, 12]
    assert [one.output_tokens for one in ran.requests] == [3, 6, 1]
    assert ran.finished_s == [102.5]
    assert len({one.session_id for one in ran.requests}) == 3


def test_the_recorded_arrival_goes_before_the_planned_one(tmp_path):
    """The client was late, and podsim would be measured against what it never did."""
    path = written(tmp_path, line(0.2) | {"recorded_arrival_s": 0.7}, line(0.3))
    assert [one.arrival_s for one in read_recording(path, BLOCK)] == [0.3, 0.7]


def test_equal_leading_blocks_are_the_same_text():
    """Cache hits would be more, or fewer, than there were."""
    assert shared(request(10, 6, 1, 2, 3, 4), request(10, 6, 1, 2, 7, 8)) == 8
    assert shared(request(10, 6, 1, 2, 3, 4), request(10, 6, 5, 2, 3, 4)) == 0
    assert shared(request(10, 6, 1, 2, 3, 4), request(20, 4, 1, 2, 3, 4, 5, 6)) == 16


def test_an_answer_that_comes_back_is_a_hit():
    """The next turn of a conversation would compute the answer again."""
    assert shared(request(4, 8, 1, 2, 3), request(14, 2, 1, 2, 3, 9)) == 12


def test_equal_answers_to_equal_prompts_are_one_text():
    """A repeated request would lie beside itself in the cache."""
    assert shared(request(8, 8, 1, 2, 3, 4), request(8, 8, 1, 2, 3, 4)) == 16


def test_what_follows_the_last_full_block_is_the_requests_own():
    """Tokens that nobody recorded would be taken for equal."""
    assert shared(request(6, 1, 1), request(6, 1, 1)) == 4


def test_ids_that_are_not_chained_match_as_sequences():
    """The same block behind two different beginnings would be one."""
    requests = [request(8, 1, 1, 2), request(8, 1, 3, 2), request(8, 1, 3, 2)]
    first, second, third = (Prompt(node, 8) for node in texts(requests, BLOCK))
    assert second.common_prefix(first) == 0
    assert third.common_prefix(second) == 8


def test_gzipped_files_are_read(tmp_path):
    """The shipped recordings could not be."""
    path = tmp_path / "requests.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line(1.0, 9, 7, [5, 2], [9, 2])).encode()))
    (read,) = read_recording(path, BLOCK)
    assert (read.arrival_s, read.prompt_tokens, read.output_tokens) == (1.0, 9, 7)
    assert list(read.blocks) == [5, 6, 9, 10]


def test_every_fault_of_a_file_is_named_with_its_line(tmp_path):
    """A user would mend one line after the other."""
    wrong = faults(
        tmp_path,
        line() | {"arrival_s": -1},
        "",
        "[1, 2]",
        "{",
        line() | {"prompt_tokens": 0, "output_tokens": "6"},
        {"arrival_s": 1.0, "prompt_tokens": 3, "output_tokens": 2},
        line(0.0, 10, 6, [0, 5]),
        line(0.0, 10, 6, [0, 0]),
    )
    assert wrong == [
        "requests.jsonl:1:1: arrival_s: must be seconds from 0 to 3.16224e+07; got -1",
        "requests.jsonl:3:1: must be a request, an object; got a list",
        "requests.jsonl:4:2: is not JSON: expecting property name enclosed in double quotes",
        "requests.jsonl:5:1: prompt_tokens: must be a whole number of tokens "
        "from 1 to 1e+12; got 0",
        "requests.jsonl:5:1: output_tokens: must be a whole number of tokens "
        "from 1 to 1e+12; got '6'",
        "requests.jsonl:6:1: sequence_block_runs: must be a list of [first id, count of ids]",
        "requests.jsonl:7:1: sequence_block_runs: lists 5 full blocks; prompt and output have 4",
        "requests.jsonl:8:1: sequence_block_runs: must be a list of [first id, count of ids]",
    ]


HUGE = 20_000_000


def test_more_blocks_than_memory_holds_are_refused_by_a_stated_limit(tmp_path):
    """C73: a short line of legal numbers would be expanded to any amount of block ids."""
    tracemalloc.start()
    wrong = faults(tmp_path, line(), line(1.0, 10**12, 3, [1, HUGE]))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert wrong == [
        "requests.jsonl:2:1: sequence_block_runs: lists 20000000 full blocks; "
        "a file may list 10000000",
    ]
    assert peak_bytes < 1e6


def test_the_limit_on_blocks_is_one_of_the_whole_file(tmp_path, monkeypatch):
    """Many lines below the limit would exhaust memory together; a file at it be refused."""
    monkeypatch.setattr(recording, "MAX_BLOCKS", 7)
    assert (
        len(
            read_recording(written(tmp_path, line(0, 10, 6, [1, 4]), line(1, 12, 1, [1, 3])), BLOCK)
        )
        == 2
    )
    assert faults(
        tmp_path, line(0, 10, 6, [1, 4]), line(1, 10, 6, [1, 4]), line(2, 12, 1, [1, 3])
    ) == [
        "requests.jsonl:2:1: sequence_block_runs: lists 4 full blocks; a file may list 7, "
        "4 of them before this line",
    ]


def test_counts_of_endless_digits_are_refused(tmp_path):
    """C73: their sum has more digits than Python writes, so there would be a traceback."""
    count = "9" * 4300
    text = json.dumps(line(0.0, 10, 6, [1, HUGE], [1, HUGE])).replace(str(HUGE), count)
    assert faults(tmp_path, text) == [
        "requests.jsonl:1:1: sequence_block_runs: must be a list of [first id, count of ids]",
    ]


def test_an_empty_file_is_refused(tmp_path):
    """A run of nothing would be reported as one."""
    assert faults(tmp_path, "") == [
        "requests.jsonl: is empty; one request per line is needed",
    ]
