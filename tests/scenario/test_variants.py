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


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (
            "backends.pod.policy: {kind: random}",
            "16:7: backends.pod.policy: no backend 'pod' here; did you mean 'pods'?",
        ),
        (
            "engines.large: {kvBlocks: 1, stepTime: {a: 1}}",
            "16:7: engines.large: no engine 'large' here; known: small",
        ),
        (
            "backend.pods.policy: {kind: random}",
            "16:7: backend: unknown key 'backend'; did you mean 'backends'?",
        ),
        (
            "backends.pods.polcy: {kind: random}",
            "16:7: backends.pods.polcy: unknown key 'polcy'; did you mean 'policy'?",
        ),
        (
            "backends.pods.policy: {kind: bounded-ring, maxLoadPercnt: 120}",
            "16:50: backends.pods.policy.maxLoadPercnt: unknown key 'maxLoadPercnt'; "
            "did you mean 'maxLoadPercent'?",
        ),
        (
            "backends.pods.replicas: 0",
            "16:31: backends.pods.replicas: must be a whole number such as 1, from 1 to 10k; "
            "got 0 (no request could ever be served)",
        ),
        (
            "backends.pods.replicas.more: 1",
            "16:7: backends.pods.replicas.more: backends.pods.replicas is 2, not a mapping",
        ),
        (
            "router.rules.1.name: x",
            "16:7: router.rules.1.name: no entry '1': router.rules has 1, counted from 0",
        ),
        (
            "seeds: [2]",
            "16:7: variants.a.seeds: a variant cannot change 'seeds', which belongs to the whole "
            "file",
        ),
        (
            "backends..policy: 1",
            "16:7: variants.a.backends..policy: must be a path such as backends.a.policy",
        ),
    ],
)
def test_a_variant_that_cannot_be_is_refused_at_its_line(
    faults: Lines, variant: str, expected: str
) -> None:
    """A slip of the pen in a path would silently compare the base with itself."""
    assert faults(f"{GOOD}variants:\n  a: {{{variant}}}\n") == [f"f.yaml:{expected}"]


def test_the_shape_of_the_block_is_checked(faults: Lines) -> None:
    """A list of variants, or a name that cannot be a directory, would end in a traceback."""
    assert faults(f"{GOOD}variants: [a]\n") == [
        "f.yaml:15:11: variants: must be a mapping from names to {path: value}"
    ]
    assert faults(f"{GOOD}variants:\n  a: 5\n  ../b: {{}}\n") == [
        "f.yaml:16:6: variants.a: must be a mapping from paths to values; got 5",
        "f.yaml:17:3: variants.../b: a name must be letters, digits, dots and hyphens, a letter "
        "or a digit first, at most 63 in all",
    ]


def test_a_fault_of_the_base_is_reported_once_and_says_whose_it_is(faults: Lines) -> None:
    """Five variants would repeat each fault five times, or hide which one has it."""
    text = GOOD.replace("warmup: 10s", "warmup: -1").replace(
        "{a: 10}}", "{a: 10}, maxNumSeqs: 200}"
    )
    variants = (
        "variants:\n"
        "  a: {}\n"
        "  b: {engines.small.maxNumBatchedTokens: 100}\n"
        "  c: {engines.small.maxNumBatchedTokens: 100}\n"
        "  d: {window.warmup: 5s, engines.small.maxNumBatchedTokens: 150}\n"
    )
    assert faults(text + variants) == [
        "f.yaml:2:18: window.warmup: must be a duration such as 30s or 250ms, from 0 to 366d; "
        "got -1 (variants a, b, c)",
        "f.yaml:4:57: engines.small.maxNumSeqs: must be at most maxNumBatchedTokens (100), since "
        "each running sequence takes a token of the step; got 200 (variants b, c)",
        "f.yaml:4:57: engines.small.maxNumSeqs: must be at most maxNumBatchedTokens (150), since "
        "each running sequence takes a token of the step; got 200 (variant d)",
    ]


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


@pytest.mark.parametrize(
    ("setting", "chosen", "message"),
    [
        ("backends.pods.policy={kind: random}", (), "variants ring-0.10.7, two set"),
        ("backends.pods.policy={kind: random}", ("ring-0.10.7",), "variant ring-0.10.7 sets"),
        ("backends.pods={engine: small}", ("two",), "sets backends.pods.policy.kind"),
        ("backends.pods.policy.kind=random", ("ring-0.10.7",), "sets backends.pods.policy,"),
        ("backends.pods.policy.maxLoadPercent=150", ("ring-0.10.7",), "ring-0.10.7 sets"),
        ("backends.pods.replicas=9", (), "variant two sets backends.pods.replicas"),
        ("engines.small.stepTime.a=3", (), "variant two sets engines.small,"),
        ("router.rules=[{name: a, backends: [pods]}]", (), "variant two sets router.rules.0.name"),
    ],
)
def test_a_setting_never_replaces_what_a_variant_says(
    faults: Lines, setting: str, chosen: tuple[str, ...], message: str
) -> None:
    """``--set 'backends.qwen.policy={kind: round-robin}' --variant session-table`` printed a column
    headed session-table that was round-robin; without ``--variant`` three equal columns."""
    (fault,) = faults(GOOD + VARIANTS, [setting], chosen)
    path = setting.partition("=")[0]
    assert fault.startswith(f"--set {setting}: {path}: variant")
    assert message in fault and f"variants.NAME={{{path}: ...}} adds one" in fault


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


def test_equal_variants_are_told(loaded: Loaded) -> None:
    """Two names for one thing made two equal columns, which ``validate`` and ``run`` passed."""
    text = GOOD + VARIANTS + "  three: {backends.pods.policy: {kind: least-loaded}}\n"
    words = "is equal to variant base: their results will be the same"
    told = [each for each in loaded(text).warnings if "is equal" in each]
    assert told == [
        f"f.yaml:19:3: variants.also-base: {words}",
        f"f.yaml:27:3: variants.three: {words}",
    ]
    assert words not in " ".join(loaded(text, variants=["two", "also-base"]).warnings)
    assert loaded(text).variant(["base", "three"]).warnings == (
        f"f.yaml:27:3: variants.three: {words}",
    )


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


def test_settings_are_checked_like_the_file_and_together_with_it(faults: Lines) -> None:
    """A mistyped setting would do nothing, or hide the faults of the file."""
    settings = [
        "backends.pods.replcas=4",
        "backends.pod.replicas=4",
        "backends.pods.replicas='4'",
        "engines.small.kvBlocks=[1",
        "replicas",
        "=5",
        "variants={}",
        "name.first=x",
    ]
    assert faults(GOOD.replace("warmup: 10s", "warmup: x"), settings) == [
        "f.yaml:2:18: window.warmup: must be a duration such as 30s or 250ms, from 0 to 366d; "
        "got 'x'",
        "--set backends.pods.replcas=4: backends.pods.replcas: unknown key 'replcas'; "
        "did you mean 'replicas'?",
        "--set backends.pod.replicas=4: backends.pod.replicas: no backend 'pod' here; "
        "did you mean 'pods'?",
        "--set backends.pods.replicas='4': backends.pods.replicas: must be a whole number such as "
        "1, from 1 to 10k; got '4'",
        "--set engines.small.kvBlocks=[1: engines.small.kvBlocks: not YAML: while parsing a flow "
        "sequence, did not find expected ',' or ']'",
        "--set replicas: must be path=value, such as backends.a.replicas=4",
        "--set =5: must be path=value, such as backends.a.replicas=4",
        "--set variants={}: variants: cannot be set; --variant chooses among variants, "
        "variants.NAME={} adds one",
        "--set name.first=x: name.first: name is 'good', not a mapping",
    ]


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
