"""How long a member of a pool loads and unloads: given, or from method, weights and bandwidths."""

from dataclasses import astuple
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sim.core.errors import ScenarioError
from sim.core.fields import Name
from sim.engine.llamacpp.spec import LlamaCpp
from sim.engine.spec import Vllm
from sim.hardware.engine import StepTime
from sim.hardware.loading import Member, SwapTimes, swap_times

STEP_TIME = StepTime(a=1.0)


def vllm(**settings: Any) -> Vllm:
    return Vllm(step_time=STEP_TIME, kv_blocks=100, **settings)


def llamacpp(**settings: Any) -> LlamaCpp:
    return LlamaCpp(step_time=STEP_TIME, ctx_size=4096, cache_ram=0, **settings)


def on_b200(**settings: Any) -> Vllm:
    return vllm(gpu="b200", model="qwen3.8-27b", **settings)


def member(**keys: Any) -> Member:
    """As a file has it."""
    return Member.model_validate(keys, by_alias=True, by_name=False)


def swapped(engine: Vllm | LlamaCpp, **keys: Any) -> SwapTimes:
    return swap_times(member(swap=keys), engine)


def faults(engine: Vllm | LlamaCpp, **keys: Any) -> list[tuple[str, str]]:
    with pytest.raises(ScenarioError) as caught:
        swapped(engine, **keys)
    return [(fault.path, fault.message) for fault in caught.value.faults]


def refusals(**keys: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        member(**keys)
    (error,) = caught.value.errors()
    return list(error["ctx"]["problems"])


# -- given ---------------------------------------------------------------------------------


def test_given_times_are_taken_as_they_are() -> None:
    """A measured swap would be replaced by a computed one, or need an engine with known bytes."""
    given = member(load="8s", unload="1s")
    assert swap_times(given, vllm()) == SwapTimes(unload_s=1.0, load_s=8.0, parts=None)
    assert swap_times(member(load=0), vllm()) == SwapTimes(0.0, 0.0)


def test_a_given_unload_wins_over_the_computed_one() -> None:
    """A user who knows how long the memory takes to be free could not say so."""
    cold = {"method": "vllm-cold"}
    assert swap_times(member(swap=cold, unload="7s"), on_b200()).unload_s == 7.0
    assert swap_times(member(swap=cold, unload=0), on_b200()).unload_s == 0.0


@pytest.mark.parametrize(
    ("keys", "found"), [({}, "neither"), ({"load": 1, "swap": {"method": "llamacpp"}}, "both")]
)
def test_a_member_says_its_load_in_one_way(keys: dict[str, Any], found: str) -> None:
    """One of two contradicting times would win silently, or a load take no time."""
    ((key, message),) = refusals(**keys)
    assert key == ""
    assert message.endswith(f"got {found}")


def test_what_can_fail_is_read() -> None:
    """C54: a limit of 15 s or a failure after 20 s would be lost on the way from the file."""
    read = member(load="16s", loadLimit="15s", loadFailure={"probability": 0.5, "after": "20s"})
    assert (read.load, read.load_limit) == (16.0, 15.0)
    assert read.load_failure is not None
    assert (read.load_failure.probability, read.load_failure.after) == (0.5, 20.0)


def test_a_first_sleep_pins_memory_and_a_later_one_copies_only() -> None:
    """vLLM pull 48337: level 1 slept in 10.6 s, not in 1 s, so that level 2 was quicker in all.

    By hand: 60 GB at 20 GB/s; four thirds of them pinned, by four processes at 2 GB/s each.
    """
    engine = vllm(weights=60e9, tensor_parallel=4)
    keys = {"hostToDevice": "5GB/s", "host": "20GB/s", "pinning": "2GB/s"}
    found = swapped(engine, method="vllm-sleep-1", **keys)
    assert found.unload_s == pytest.approx(3.1)
    assert found.first_unload_s == pytest.approx(13.1)


def test_a_first_swap_of_qwen3_8b_is_longer_with_level_1_than_with_level_2() -> None:
    """vLLM pull 48337, an A100: 10.57 + 2.19 s with level 1, 0.31 + 6.53 s with level 2.

    podsim had level 1 in 1.8 s, so that nobody would have taken level 2.
    """
    engine = vllm(model="qwen3-8b", gpu="a100-80gb", max_model_len=8192)
    one = swapped(engine, method="vllm-sleep-1")
    two = swapped(engine, method="vllm-sleep-2")
    assert one.first_unload_s + one.load_s == pytest.approx(12.76, rel=0.4)
    assert two.first_unload_s + two.load_s == pytest.approx(6.84, rel=0.4)
    assert one.first_unload_s + one.load_s > two.first_unload_s + two.load_s
    assert one.unload_s + one.load_s < two.unload_s + two.load_s


@pytest.mark.parametrize("method", ["vllm-sleep-2", "vllm-cold"])
def test_only_level_1_pins(method: str) -> None:
    """Level 2 keeps nothing in host memory; its first sleep would take as long as that of 1."""
    found = swapped(vllm(weights=60e9), method=method)
    assert found.first_unload_s == found.unload_s


def test_a_given_unload_is_that_of_every_time() -> None:
    """A measured time to sleep would grow by a computed one."""
    keys = {"method": "vllm-sleep-1", "hostToDevice": "20GB/s"}
    found = swap_times(member(swap=keys, unload="7s"), vllm(weights=60e9))
    assert found.first_unload_s == found.unload_s == 7.0


def test_members_have_names_in_a_pool() -> None:
    """A pool could not hold its members as a mapping, or would lose their order."""
    adapter = TypeAdapter(dict[Name, Member])
    members = adapter.validate_python({"b": {"load": "30s"}, "a": {"swap": {"method": "llamacpp"}}})
    assert list(members) == ["b", "a"]
    assert members["b"].load == 30.0


# -- computed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "load_s"),
    [
        ({"weight_dtype": "bf16"}, 1.4),
        ({"weight_dtype": "bf16", "tensor_parallel": 2}, 0.8),
        ({"weight_dtype": "fp8"}, 0.8),
    ],
)
def test_a_27b_model_on_b200_wakes_in_a_second(settings: dict[str, Any], load_s: float) -> None:
    """A link, a number of GPUs or the bytes of a format would not count; of fp8 the output head
    and the embedding stay wide, which is 0.06 s."""
    found = swapped(on_b200(**settings), method="vllm-sleep-1")
    assert found.load_s == pytest.approx(load_s, abs=0.06)


@pytest.mark.parametrize(("disk", "load_s"), [("6GB/s", 45.0), ("1GB/s", 90.0)])
def test_a_27b_model_starts_cold_as_fast_as_its_disk(disk: str, load_s: float) -> None:
    """A slow volume would cost nothing, or what is fixed be left out."""
    found = swapped(on_b200(), method="vllm-cold", disk=disk)
    assert found.load_s == pytest.approx(load_s, abs=1.5)


def test_a_load_is_its_parts() -> None:
    """A user could not tell what a load consists of, or the parts would not add up."""
    found = swapped(vllm(weights=60e9), method="vllm-cold", disk="2GB/s", compileCache=False)
    assert found.parts is not None
    assert astuple(found.parts) == (15.0, 30.0, 38.0, 10.0, 2.0)
    assert found.load_s == found.parts.total_s == 95.0
    assert found.unload_s == 0.0


@pytest.mark.parametrize(
    ("bandwidths", "weights_s"),
    [
        ({"disk": "2GB/s"}, 10.0),
        ({"disk": "100GB/s"}, 2.5),
        ({"disk": "100GB/s", "loader": "100GB/s"}, 0.2),
        ({"disk": "100GB/s", "loader": "100GB/s", "hostToDevice": "1GB/s"}, 10.0),
        ({"disk": "5GB/s", "hostToDevice": "1GB/s", "host": "8GB/s"}, 5.0),
        ({"disk": "100GB/s", "loader": "50GB/s", "host": "1GB/s"}, 20.0),
    ],
)
def test_the_narrowest_way_decides(bandwidths: dict[str, str], weights_s: float) -> None:
    """Disk, loader, links of all GPUs and host would add up, or one of them never count."""
    engine = vllm(weights=20e9, tensor_parallel=4)
    found = swapped(engine, method="vllm-cold", **bandwidths)
    assert found.parts is not None
    assert found.parts.weights_s == pytest.approx(weights_s)


def test_the_links_of_a_host_are_not_all_busy_at_once() -> None:
    """Eight GPUs would be filled eight times as fast as one, whatever the host's memory does."""
    seconds = [
        swapped(vllm(weights=80e9, tensor_parallel=gpus), method="vllm-sleep-1", hostToDevice=20e9)
        for gpus in (1, 2, 8)
    ]
    assert [round(each.load_s - 0.2, 9) for each in seconds] == [4.0, 2.0, 2.0]
    wide = {"hostToDevice": 20e9, "host": 160e9}
    found = swapped(vllm(weights=80e9, tensor_parallel=8), method="vllm-sleep-1", **wide)
    assert found.load_s == pytest.approx(0.7)


def test_level_1_copies_the_weights_both_ways_and_level_2_drops_them() -> None:
    """Putting to sleep would be free at level 1, or as slow at level 2."""
    engine = vllm(weights=40e9)
    copied = swapped(engine, method="vllm-sleep-1", hostToDevice="20GB/s")
    assert (copied.unload_s, copied.load_s) == (pytest.approx(2.1), pytest.approx(2.2))
    dropped = swapped(engine, method="vllm-sleep-2", disk="5GB/s")
    assert (dropped.unload_s, dropped.load_s) == (0.2, pytest.approx(8.5))


def test_llamacpp_only_reads() -> None:
    """A desk's swap would compile kernels, or read faster than llama.cpp does from memory."""
    found = swapped(llamacpp(weights=18e9), method="llamacpp", disk="50GB/s")
    assert found.parts is not None
    assert astuple(found.parts) == (1.0, 2.0, 0.0, 0.0, 0.75)
    assert found.unload_s == 0.0


def test_what_is_given_replaces_its_default() -> None:
    """A measured part could not be entered, or zero would count as not given."""
    given = {"init": "60s", "compile": "70s", "graphs": 0, "warmUp": "30s"}
    found = swapped(vllm(weights=0), method="vllm-cold", **given)
    assert found.parts is not None
    assert astuple(found.parts) == (60.0, 0.0, 70.0, 0.0, 30.0)


def test_given_weights_win_over_the_catalogue() -> None:
    """A file of 18 GB would be loaded as 54 GB; the KV capacity counts what is given, too."""
    found = swapped(on_b200(weights=18e9), method="vllm-cold", disk="1GB/s")
    assert found.parts is not None
    assert found.parts.weights_s == 18.0


# -- what cannot be computed ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (None, "the engine has no model"),
        ("qwen3.8-27X", "unknown model 'qwen3.8-27X'; did you mean 'qwen3.8-27b'?"),
        (
            "my-own",
            "unknown model 'my-own'; `podsim list models` shows those known, or give the path of "
            "its config.json",
        ),
    ],
)
def test_unknown_bytes_are_asked_for(model: str | None, why: str) -> None:
    """A model without bytes would load at once, or end in a traceback."""
    ((path, message),) = faults(vllm(model=model), method="vllm-cold")
    assert path == "swap"
    assert message == (
        f"the bytes to load are unknown ({why}): give the engine's weights, such as 54GB, or "
        "load, a time, instead of swap"
    )


def test_an_unknown_link_is_asked_for_where_it_matters() -> None:
    """Waking up on a GPU without a data sheet would take no time; reading from disk needs none."""
    for engine in (vllm(weights=40e9), vllm(weights=40e9, gpu="gb10")):
        ((path, message),) = faults(engine, method="vllm-sleep-1")
        assert path == "swap"
        assert "give hostToDevice, such as 22GB/s" in message
        assert swapped(engine, method="vllm-sleep-2").load_s == pytest.approx(10.5)


def test_all_that_is_unknown_is_said_at_once() -> None:
    """The user would mend one thing, and be told of the next."""
    assert len(faults(vllm(), method="vllm-sleep-1")) == 2


def test_a_method_of_another_engine_is_refused() -> None:
    """llama-server would compile kernels for half a minute, or a vLLM start within a second."""
    ((path, message),) = faults(llamacpp(weights=1e9), method="vllm-cold")
    assert path == "swap.method"
    assert message == ("vllm-cold is no way to load an engine of kind llamacpp; use llamacpp")
    ((_, message),) = faults(vllm(weights=1e9), method="llamacpp")
    assert message.endswith("of kind vllm; use vllm-sleep-1, vllm-sleep-2, vllm-cold")


@pytest.mark.parametrize(
    ("method", "keys", "wrong"),
    [
        ("vllm-sleep-1", {"disk": "6GB/s", "loader": "6GB/s"}, ["disk", "loader"]),
        ("vllm-sleep-2", {"compileCache": False}, ["compileCache"]),
        ("vllm-sleep-2", {"pinning": "3GB/s"}, ["pinning"]),
        ("llamacpp", {"compile": 1, "graphs": 1}, ["compile", "graphs"]),
        ("vllm-cold", {"compileCache": True, "compile": "5s"}, ["compileCache"]),
    ],
)
def test_settings_without_effect_are_refused(
    method: str, keys: dict[str, Any], wrong: list[str]
) -> None:
    """A slow disk would be set, and change nothing without a word."""
    problems = refusals(swap={"method": method, **keys})
    assert [key for key, _ in problems] == wrong
    assert all("means nothing" in message for _, message in problems)
