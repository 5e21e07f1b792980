"""The recordings of a real vLLM: within their bounds, and not when the engine is wrong."""

from pathlib import Path

import numpy as np
import pytest

from sim.scenario.load import ScenarioSet, load
from sim.validation import recordings
from sim.validation.figures import FigureTable
from sim.validation.recordings import (
    RECORDINGS,
    RecordedCourse,
    ReplayedRecording,
    compare,
    course,
    simulated,
)

FOLDER = Path(__file__).parents[2] / "sim/data/recordings"
SHORT_OF_BLOCKS = RECORDINGS[0]


@pytest.fixture(scope="module")
def tables() -> list[FigureTable]:
    return list(recordings.tables())


def scenarios(recording: ReplayedRecording, *settings: str) -> ScenarioSet:
    """A recording's scenario with step times from its kernel tables."""
    loaded = load(FOLDER / f"{recording.name}.yaml", settings)
    step_time = recordings.kernel_step_time(FOLDER, recording, loaded)
    return recordings.with_step_time(loaded, step_time)


def recorded() -> RecordedCourse:
    return recordings.read_recorded(FOLDER, SHORT_OF_BLOCKS.name)


def test_every_bound_holds(tables):
    """`podsim validate --measured` would fail: scheduler, cache or step times are wrong."""
    bounded = [figure for table in tables for figure in table.figures if figure.bound is not None]
    assert len(bounded) >= 48
    assert [figure for figure in bounded if not figure.ok] == []


def test_every_recording_of_the_folder_is_compared():
    """A file would lie there that nobody runs."""
    assert {path.name for path in FOLDER.glob("*.yaml")} == {
        f"{recording.name}.yaml" for recording in RECORDINGS
    }


def test_single_requests_end_when_they_did():
    """Means would agree by chance, of requests that go through something else."""
    result = simulated(scenarios(SHORT_OF_BLOCKS))
    errors = np.abs(course(result).e2e_s / recorded().e2e_s - 1.0)
    assert np.median(errors) < 0.03
    assert np.percentile(errors, 95) < 0.04


def test_the_queue_is_as_long_as_it_was(tables):
    """The router's metrics would be those of another machine."""
    for table in tables:
        if "kernel tables" in table.name:
            levels = {figure.what: figure.error for figure in table.figures}
            assert abs(levels["running, mean"]) < 0.05
            assert abs(levels["waiting, mean"]) < 0.10


def test_a_third_more_blocks_is_found():
    """The comparison would not see the one thing that this machine is short of."""
    more = simulated(scenarios(SHORT_OF_BLOCKS, "engines.vllm.kvBlocks=3390"))
    figures = compare("", more, recorded(), 0.03).figures
    ttft = next(figure for figure in figures if figure.what == "TTFT mean, s")
    assert ttft.error < -0.15
    assert not ttft.ok


def test_five_percent_longer_steps_are_found():
    """An engine that is slightly slow would pass."""
    loaded = scenarios(SHORT_OF_BLOCKS)
    (engine,) = loaded.variants[0].engines.values()
    slower = engine.step_time.model_copy(update={"a": engine.step_time.a + 1.4})
    result = simulated(recordings.with_step_time(loaded, slower))
    assert compare("", result, recorded(), 0.03).out_of_bounds > 6


def test_times_count_from_the_arrival_at_the_front_end():
    """TTFT would leave out the step in flight that every request waits for."""
    times = recorded()
    assert len(times.ttft_s) == 300
    assert np.mean(times.ttft_s) == pytest.approx(65.48, abs=0.01)
    assert np.mean(times.tpot_s) == pytest.approx(32.45e-3, abs=1e-5)
