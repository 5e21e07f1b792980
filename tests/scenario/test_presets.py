"""Where an engine's step time is from: given, a preset, or derived; and what contradicts it."""

from collections.abc import Callable

import pytest

from sim.engine.spec import Vllm
from sim.engine.steptime import StepTime as Cost
from sim.hardware.catalog import gpus, models
from sim.hardware.engine import StepTime
from sim.hardware.step_times import Machine, derive, presets, sourced_step_time, step_time
from sim.scenario.load import ScenarioSet
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]
Loaded = Callable[..., ScenarioSet]

PRESET = "qwen3.8-27b-b200-tp2-fp8"


def block(text: str) -> str:
    return GOOD.replace("kvBlocks: 100, stepTime: {a: 10}", text)


def test_given_coefficients_win() -> None:
    """What a user states would be replaced by what podsim thinks."""
    given = Vllm(model="qwen3-8b", gpu="h100", step_time=StepTime(a=3.0))
    assert sourced_step_time(given).origin == "given"
    assert step_time(given) == StepTime(a=3.0)


def test_a_preset_is_found_by_its_name(loaded: Loaded) -> None:
    """`stepTime: NAME` would not have the preset's coefficients."""
    text = block(
        f"model: qwen3.8-27b, gpu: b200, tensorParallel: 2, weightDtype: fp8, stepTime: {PRESET}"
    )
    (scenario,) = loaded(text).variants
    found = sourced_step_time(scenario.engines["small"])
    assert (found.origin, found.coefficients) == ("preset", presets()[PRESET].step_time)


def test_without_step_time_it_is_derived() -> None:
    """A person with only the names of a GPU and a model would get no step time."""
    engine = Vllm(model="gpt-oss-20b", gpu="h100", kv_cache_dtype="fp8")
    found = sourced_step_time(engine)
    expected = derive(models()["gpt-oss-20b"], Machine(gpus()["h100"], 1, "mxfp4", "fp8"))
    assert (found.origin, found.coefficients) == ("derived", expected)


def test_what_contradicts_a_preset_is_told_at_its_key(faults: Lines) -> None:
    """Coefficients of one machine would be used for another."""
    lines = faults(
        block(f"kvBlocks: 9, model: qwen3-8b, gpu: h100, kvCacheDtype: fp8, stepTime: {PRESET}")
    )
    assert lines == [
        f"f.yaml:4:10: engines.small.tensorParallel: must be 2, as in preset {PRESET}; got 1",
        f"f.yaml:4:10: engines.small.weightDtype: must be fp8, as in preset {PRESET}; got bf16",
        f"f.yaml:4:31: engines.small.model: must be qwen3.8-27b, as in preset {PRESET}; "
        "got qwen3-8b",
        f"f.yaml:4:46: engines.small.gpu: must be b200, as in preset {PRESET}; got h100",
        f"f.yaml:4:66: engines.small.kvCacheDtype: must be bf16, as in preset {PRESET}; got fp8",
    ]


def test_a_model_of_the_same_dimensions_is_no_contradiction() -> None:
    """The presets of a 27B would serve one of its three generations only."""
    engine = Vllm(
        model="qwen3.5-27b",
        gpu="b200",
        tensor_parallel=2,
        step_time="qwen3.8-27b-b200-tp2-bf16",
    )
    assert step_time(engine).a == 7.28


def test_an_unknown_preset_is_told_with_the_nearest(faults: Lines) -> None:
    """A slip in a name would be a traceback."""
    (line,) = faults(block("kvBlocks: 9, stepTime: qwen3.8-27b-b200-tp2-fp9"))
    assert line.startswith("f.yaml:4:34: engines.small.stepTime: unknown stepTime")
    assert "did you mean 'qwen3.8-27b-b200-tp2-fp8'?" in line


def test_a_preset_that_is_like_none_is_told_where_they_are(faults: Lines) -> None:
    """All presets would be said in one line of a thousand characters."""
    assert faults(block("kvBlocks: 9, stepTime: b200")) == [
        "f.yaml:4:34: engines.small.stepTime: unknown stepTime 'b200'; "
        "podsim list engines shows the presets"
    ]


def test_faults_in_coefficients_are_not_told_as_of_a_name(faults: Lines) -> None:
    """A slip in a coefficient would be answered with that of the other form, too."""
    assert faults(block("kvBlocks: 9, stepTime: {a: 1, z: 2}")) == [
        "f.yaml:4:41: engines.small.stepTime.z: unknown key 'z'; known: a, b, c, d, f, g, "
        "computed, prefilling"
    ]
    (line,) = faults(block("kvBlocks: 9, stepTime: 7"))
    assert line == "f.yaml:4:34: engines.small.stepTime: must be a mapping; got 7"


def test_a_step_time_that_cannot_be_derived_is_refused(faults: Lines) -> None:
    """A run would start without a step time, or end in a traceback."""
    (line,) = faults(block("kvBlocks: 9"))
    assert line == (
        "f.yaml:4:10: engines.small: the step time is unknown: give stepTime, or both gpu and model"
    )
    (line,) = faults(block("kvBlocks: 9, gpu: gb10, model: qwen3-8b, tensorParallel: 2"))
    assert line == (
        "f.yaml:4:68: engines.small.tensorParallel: nothing is known of an all-reduce between 2 "
        "gb10, which the step time takes in: give stepTime"
    )
    (line,) = faults(block("kvBlocks: 9, gpu: h100, model: my-own"))
    assert "engines.small.model: unknown model 'my-own'" in line


def test_presets_are_about_what_the_catalogue_knows() -> None:
    """A preset could not be used: its own names would be refused."""
    for name, preset in presets().items():
        engine = Vllm(
            model=preset.model,
            gpu=preset.gpu,
            tensor_parallel=preset.tensor_parallel,
            weight_dtype=preset.weight_dtype,
            kv_cache_dtype=preset.kv_cache_dtype,
            step_time=name,
        )
        assert sourced_step_time(engine).origin == "preset"
        assert len(preset.source) > 20


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_presets_and_data_sheets_agree_on_the_27b(dtype: str) -> None:
    """Two ways to the same machine would be far apart: the sums are good to 15 % in a decode step.

    Ten sequences with 75k tokens of context each, the load of a coding fleet.
    """
    settings = {"model": "qwen3.8-27b", "gpu": "b200", "tensor_parallel": 2, "weight_dtype": dtype}
    derived = Cost(step_time(Vllm(**settings)))
    summed = Cost(step_time(Vllm(**settings, step_time=f"qwen3.8-27b-b200-tp2-{dtype}")))
    steps_s = [cost.step_s(0, 0.0, 10, 750_000) for cost in (derived, summed)]
    assert steps_s[0] == pytest.approx(steps_s[1], rel=0.15)
