"""Variants and settings: one value in the place of another, and what cannot be one."""

from collections.abc import Callable

import pytest

from sim.core.errors import UserError
from sim.router.placement.load import LeastLoadedSpec, PowerOfTwoSpec
from sim.router.placement.ring import BoundedRingSpec
from sim.scenario.load import ScenarioSet
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]
Loaded = Callable[..., ScenarioSet]

VARIANTS = """\
variants:
  ring-0.10.7:
    backends.pods.policy: {kind: bounded-ring, maxLoadPercent: 130}
  base: {}
  also-base:
  two:
    backends.pods.policy.kind: power-of-two
    backends.pods.replicas: 4
    engines.small: {kvBlocks: 7, stepTime: {a: 1}}
    window.measure: 2m
    slo.ttft: 2s
    router.rules.0.name: first
"""


def test_a_variant_replaces_what_stands_at_its_paths(loaded: Loaded) -> None:
    """A variant would mix with what it replaces, or change the others."""
    ring, base, also, two = loaded(GOOD + VARIANTS).variants
    assert [each.variant for each in (ring, base, also, two)] == [
        "ring-0.10.7",
        "base",
        "also-base",
        "two",
    ]
    assert ring.backends["pods"].policy == BoundedRingSpec(max_load_percent=130)
    assert ring.backends["pods"].replicas == 2
    (plain,) = loaded(GOOD).variants
    assert base.model_copy(update={"variant": ""}) == plain
    assert also.model_copy(update={"variant": ""}) == plain
    assert base.backends["pods"].policy == LeastLoadedSpec()
    assert two.backends["pods"].policy == PowerOfTwoSpec()
    assert two.backends["pods"].replicas == 4
    assert two.engines["small"].kv_blocks == 7
    assert (two.window.warmup, two.window.measure) == (10.0, 120.0)
    assert two.slo is not None and two.slo.ttft == 2.0
    assert two.router.rules[0].name == "first"


@pytest.mark.parametrize("nothing", ["variants:\n", "variants: {}\n", "variants: null\n"])
def test_no_variants_are_one_without_a_name(loaded: Loaded, nothing: str) -> None:
    """An empty block would leave nothing to run."""
    (only,) = loaded(GOOD + nothing).variants
    assert only.variant == ""


def test_the_base_alone_need_not_be_right(loaded: Loaded) -> None:
    """A file could not leave to its variants what each of them says."""
    text = GOOD.replace("    replicas: 2\n", "    replicas: 0\n")
    found = loaded(
        f"{text}variants:\n  a: {{backends.pods.replicas: 1}}\n  b: {{backends.pods.replicas: 3}}\n"
    )
    assert [variant.backends["pods"].replicas for variant in found.variants] == [1, 3]


def test_settings_win_over_the_file_and_stand_beside_what_its_variants_say(loaded: Loaded) -> None:
    """The command line would be overruled by the file."""
    found = loaded(
        GOOD + VARIANTS,
        [
            "seeds=[3, 4]",
            "name=other",
            "slo.tpot=1s",
            "window.warmup=0",
            "engines.small.maxNumSeqs=1e2",
        ],
    )
    assert (found.name, found.seeds) == ("other", (3, 4))
    assert {variant.engines["small"].max_num_seqs for variant in found.variants} == {100}
    assert {variant.window.warmup for variant in found.variants} == {0.0}
    assert all(variant.slo is not None and variant.slo.tpot == 1.0 for variant in found.variants)


def test_a_setting_may_replace_nothing_that_the_chosen_variants_say(loaded: Loaded) -> None:
    """A base variant, and what a variant leaves to its policy, could not be tried otherwise."""
    (base,) = loaded(GOOD + VARIANTS, ["backends.pods.replicas=9"], ["base"]).variants
    assert base.backends["pods"].replicas == 9
    setting = "backends.pods.policy.virtualNodes=50"
    (ring,) = loaded(GOOD + VARIANTS, [setting], ["ring-0.10.7"]).variants
    assert ring.backends["pods"].policy == BoundedRingSpec(max_load_percent=130, virtual_nodes=50)


def test_a_variant_is_changed_or_added_by_its_name(loaded: Loaded, faults: Lines) -> None:
    """A policy that the file lacks would have to run under the name of another one."""
    settings = [
        "variants.ring-0.10.7.backends.pods.policy.maxLoadPercent=150",
        "variants.base.window.measure=3m",
        "variants.new={backends.pods.policy: {kind: random}}",
        "variants.new.backends.pods.replicas=5",
    ]
    ring, base, _, _, new = loaded(GOOD + VARIANTS, settings).variants
    assert ring.backends["pods"].policy == BoundedRingSpec(max_load_percent=150)
    assert base.window.measure == 180.0
    assert (new.variant, new.backends["pods"].replicas) == ("new", 5)
    (alone,) = loaded(GOOD, ["variants.new={backends.pods.policy: {kind: random}}"]).variants
    assert alone == new.model_copy(update={"backends": alone.backends})
    assert faults(GOOD + VARIANTS, ["variants.two.slo.ttft=3s"], ["base"]) == [
        "--set variants.two.slo.ttft=3s: variants.two.slo.ttft: has no effect: variant 'two' is "
        "not among those that are run"
    ]
    assert faults(GOOD + VARIANTS, ["variants.tow.slo.ttft=3s", "variants.two.seeds=[1]"]) == [
        "--set variants.tow.slo.ttft=3s: variants.tow.slo.ttft: must be a mapping from paths to "
        "values; got '3s'",
        "--set variants.two.seeds=[1]: variants.two.seeds: a variant cannot change 'seeds', which "
        "belongs to the whole file",
    ]


def test_a_setting_that_a_later_one_replaces_is_refused(loaded: Loaded, faults: Lines) -> None:
    """The last of two values won without a word."""
    twice = ["backends.pods.replicas=3", "backends.pods.replicas=4"]
    message = "backends.pods.replicas: sets what --set backends.pods.replicas=3 sets; give only one"
    assert faults(GOOD, twice) == [f"--set {twice[1]}: {message}"]
    (fault,) = faults(GOOD, [twice[0], "backends.pods={engine: small}"])
    assert "sets what --set backends.pods.replicas=3 sets" in fault
    (only,) = loaded(GOOD, ["slo={ttft: 1s}", "slo.ttft=2s"]).variants  # a part of a block
    assert only.slo is not None and only.slo.ttft == 2.0


def test_warnings_are_of_the_variants_that_are_run(loaded: Loaded) -> None:
    """``run --variant X`` printed what was doubtful about others."""
    text = GOOD + "variants:\n  a: {}\n  b: {router.rules.0.match: {models: [x]}}\n"
    (both,) = loaded(text).warnings
    assert "they get 503 no_route" in both and both.endswith("(variant b)")
    (only,) = loaded(text, variants=["b"]).warnings
    assert f"{only} (variant b)" == both
    assert loaded(text, variants=["a"]).warnings == loaded(text).variant(["a"]).warnings == ()


def test_a_setting_may_take_something_away(loaded: Loaded) -> None:
    """An optional block could not be dropped from the command line."""
    (only,) = loaded(GOOD + "slo: {ttft: 1s}\n", ["slo="]).variants
    assert only.slo is None


def test_a_setting_for_one_variant_leaves_the_others_alone(loaded: Loaded, faults: Lines) -> None:
    """A setting of the ring could not be tried, since other policies do not have it."""
    setting = ["backends.pods.policy.virtualNodes=150"]
    found = loaded(GOOD + VARIANTS, setting, ["ring-0.10.7"])
    (ring,) = found.variants
    assert ring.backends["pods"].policy == BoundedRingSpec(max_load_percent=130, virtual_nodes=150)
    assert faults(GOOD + VARIANTS, setting) == [
        "--set backends.pods.policy.virtualNodes=150: backends.pods.policy.virtualNodes: "
        "unknown key 'virtualNodes'; known: kind, ties (variants base, also-base)",
        "--set backends.pods.policy.virtualNodes=150: backends.pods.policy.virtualNodes: "
        "unknown key 'virtualNodes'; known: kind (variant two)",
    ]


def test_variants_are_chosen_by_name_in_file_order(loaded: Loaded) -> None:
    """Columns would change places with the order of the arguments."""
    found = loaded(GOOD + VARIANTS)
    chosen = found.variant(["two", "base", "two"])
    assert [variant.variant for variant in chosen.variants] == ["base", "two"]
    assert chosen.scenario_hash == found.scenario_hash
    assert loaded(GOOD + VARIANTS, variants=["two", "base"]) == chosen


def test_an_unknown_variant_is_refused(loaded: Loaded) -> None:
    """A mistyped name would run nothing."""
    found = loaded(GOOD + VARIANTS)
    with pytest.raises(UserError) as caught:
        found.variant(["tow"])
    assert str(caught.value) == "f.yaml: unknown variant 'tow'; did you mean 'two'?"
    with pytest.raises(UserError) as caught:
        loaded(GOOD, variants=["two"])
    assert str(caught.value) == "f.yaml: no variant 'two': the scenario has no variants"
