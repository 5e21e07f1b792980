"""Where an engine's step time is from: given, a preset, or derived; and what contradicts it."""

from collections.abc import Callable

import pytest

from sim.engine.spec import Vllm
from sim.engine.steptime import StepCost
from sim.hardware.catalog import gpus, models
from sim.hardware.engine import StepTime
from sim.hardware.step_times import Machine, derive, presets, sourced_step_time, step_time
from sim.scenario.load import ScenarioSet
from tests.scenario.conftest import GOOD

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


def test_a_model_of_the_same_dimensions_is_no_contradiction() -> None:
    """The presets of a 27B would serve one of its three generations only."""
    engine = Vllm(
        model="qwen3.5-27b",
        gpu="b200",
        tensor_parallel=2,
        step_time="qwen3.8-27b-b200-tp2-bf16",
    )
    assert step_time(engine).a == 7.28


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
    derived = StepCost(step_time(Vllm(**settings)))
    summed = StepCost(step_time(Vllm(**settings, step_time=f"qwen3.8-27b-b200-tp2-{dtype}")))
    steps_s = [cost.step_s(0, 0.0, 10, 750_000) for cost in (derived, summed)]
    assert steps_s[0] == pytest.approx(steps_s[1], rel=0.15)
