"""What single fields of manifests mean, and what is assumed where they say nothing."""

from fnmatch import fnmatchcase
from typing import Any

import pytest

from sim.core.document import parse
from sim.manifests.fields import go_duration_s
from sim.manifests.writing import NoteKind
from tests.manifests.samples import translated
from tests.manifests.test_faults import (
    MODEL,
    TWO,
    backends,
    members,
    pool,
    router,
    rule,
    service,
)


def scenario(text: str, **options: Any) -> dict[str, Any]:
    written: dict[str, Any] = parse(translated(text, **options).scenario, "written")
    return written


def warnings(text: str) -> list[str]:
    return [str(note) for note in translated(text).notes if note.kind == NoteKind.WARNING]


def balanced(balancing: str, more: str = "") -> str:
    backend = f"{{name: a, inferenceServiceRef: {{name: a}}, balancing: {{{balancing}}}}}"
    return MODEL + service("a") + router(f"backends: [{backend}], defaultRoute: a{more}")


AFFINITY = "sessionAffinity: {headers: [x-chat]}"
PINNED = ", proxy: {image: 'registry/proxy:%s'}"


@pytest.mark.parametrize(
    ("balancing", "image", "key", "value"),
    [
        ("mode: LoadAware", "", "balancing", {"mode": "LoadAware"}),
        ("mode: RoundRobin", "", "balancing", {"mode": "RoundRobin"}),
        ("maxLoadPercent: 150, mode: LoadAware", "", "balancing", {"mode": "LoadAware"}),
        (f"mode: LoadAware, {AFFINITY}", "", "balancing",
         {"mode": "LoadAware", "sessionAffinity": {"headers": ("x-chat",)}}),
        (f"mode: RoundRobin, {AFFINITY}", "", "balancing", {"mode": "RoundRobin"}),
        (f"mode: LoadAware, {AFFINITY}", "0.10.8-pr2173.1", "balancing",
         {"mode": "LoadAware", "sessionAffinity": {"headers": ("x-chat",)}}),
        (f"mode: LoadAware, {AFFINITY}, maxLoadPercent: 150", "0.10.7", "policy",
         {"kind": "bounded-ring", "maxLoadPercent": 125}),
        (f"mode: RoundRobin, {AFFINITY}", "v0.10.7@sha256:00ff", "policy",
         {"kind": "bounded-ring", "maxLoadPercent": 125}),
        ("mode: RoundRobin", "0.10.7", "balancing", {"mode": "RoundRobin"}),
        ("mode: LoadAware", "0.10.70", "balancing", {"mode": "LoadAware"}),
        ("mode: LoadAware", "0.11.0", "balancing", {"mode": "LoadAware"}),
        ("mode: LoadAware", "v0.10.6", "policy", {"kind": "bounded-ring", "maxLoadPercent": 125}),
        ("mode: LoadAware", "0.10.7-rc1", "policy",
         {"kind": "bounded-ring", "maxLoadPercent": 125}),
    ],
)  # fmt: skip
def test_balancing_is_what_the_proxy_of_that_version_does(balancing, image, key, value):
    """R17 and R18: a fleet would be simulated with another policy than it has."""
    backend = scenario(balanced(balancing, PINNED % image if image else ""))["backends"]["a"]
    assert backend == {"engine": "a", key: value}


def test_affinity_with_round_robin_warns_and_so_does_a_load_bound():
    """R17 and R18: people would believe that sessions are kept, or that the bound holds."""
    (ignored,) = warnings(balanced(f"mode: RoundRobin, {AFFINITY}"))
    assert "SessionAffinityIgnored" in ignored
    (deprecated,) = warnings(balanced("mode: LoadAware, maxLoadPercent: 125"))
    assert "balancing.maxLoadPercent: deprecated" in deprecated


def test_pods_without_balancing_are_the_connections_they_came_to():
    """LLMKube's proxy keeps its connections, each pinned to a pod (LLMKube#1812): of three pods
    under light load one works. A random pod for each request made the fleet look better.
    """
    found = scenario(
        MODEL + service("a", "replicas: 3") + router(f"{backends('a')}, defaultRoute: a")
    )
    policy = {"kind": "keep-alive"}
    assert found["backends"]["a"] == {"engine": "a", "replicas": 3, "policy": policy}


@pytest.mark.parametrize(
    ("more", "placed"),
    [
        ("resolution: endpoint", {"balancing": {"mode": "RoundRobin"}}),
        ("resolution: service", {"policy": {"kind": "keep-alive"}}),
        ("resolution: mesh", {"policy": {"kind": "keep-alive"}}),
        (
            "resolution: endpoint, balancing: {mode: LoadAware}",
            {"balancing": {"mode": "LoadAware"}},
        ),
    ],
)
def test_resolution_says_whether_the_proxy_knows_the_pods(more: str, placed: dict[str, Any]):
    """With `endpoint` the proxy takes turns over ready pods (LLMKube#1820); it was ignored."""
    backend = f"{{name: a, inferenceServiceRef: {{name: a}}, {more}}}"
    text = MODEL + service("a", "replicas: 2") + router(f"backends: [{backend}], defaultRoute: a")
    assert scenario(text)["backends"]["a"] == {"engine": "a", "replicas": 2, **placed}
    assert ("mesh" in more) == any("'mesh'" in warning for warning in warnings(text))


def test_balancing_of_the_router_is_that_of_backends_without_their_own():
    """`spec.balancing` was ignored, and its sessions were sent anywhere."""
    own = "{name: b, inferenceServiceRef: {name: b}, balancing: {mode: RoundRobin}}"
    listed = f"backends: [{{name: a, inferenceServiceRef: {{name: a}}}}, {own}], defaultRoute: a"
    found = scenario(TWO + router(f"{listed}, balancing: {{mode: LoadAware}}"))["backends"]
    assert found["a"]["balancing"] == {"mode": "LoadAware"}
    assert found["b"]["balancing"] == {"mode": "RoundRobin"}


@pytest.mark.parametrize("tag", ["latest", "main", "0.10", "sha-1f", "5000/proxy@sha256:00ff"])
def test_an_image_whose_tag_is_no_version_is_said(tag: str):
    """Which balancing a fleet has hangs on its version, and nobody was told that it was guessed."""
    text = balanced(f"mode: LoadAware, {AFFINITY}", PINNED % tag)
    assert any("its tag is no version" in warning for warning in warnings(text))
    assert "balancing" in scenario(text)["backends"]["a"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("300s", 300.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("2m0s", 120.0), ("250ms", 0.25),
     ("0", 0.0), ("1us", 1e-6), ("5", None), ("s", None), ("1s2", None), ("-1s", None)],
)  # fmt: skip
def test_durations_are_those_of_go(written: str, meant: float | None):
    """A timeout would be another one, or end in a traceback."""
    assert go_duration_s(written) == (None if meant is None else pytest.approx(meant))


def test_a_pool_is_what_its_manifest_says():
    """The members would be called by names that no backend has, or wait another time."""
    text = TWO + router(
        "backends: [{name: x, inferenceServiceRef: {name: a}},"
        " {name: y, inferenceServiceRef: {name: b}}], defaultRoute: y"
    )
    said = f"{members('b', 'a')}, default: a, swapPolicy: reclaim, reclaimAfter: 1m"
    assert scenario(text + pool(f"{said}, swapBudget: 0s"))["pools"] == {
        "p": {
            "members": {
                "y": {"swap": {"method": "vllm-cold", "disk": "4GB/s"}},
                "x": {"swap": {"method": "vllm-cold", "disk": "4GB/s"}},
            },
            "default": "x",
            "swapPolicy": "reclaim",
            "reclaimAfter": "60s",
            "swapBudget": None,
        }
    }


def test_a_member_that_no_rule_leads_to_is_in_the_pool_all_the_same():
    """It would be missing among those that take turns."""
    found = scenario(TWO + router(backends("a") + ", defaultRoute: a") + pool(members("a", "b")))
    assert list(found["backends"]) == list(found["pools"]["p"]["members"]) == ["a", "b"]


def test_backends_are_found_by_what_clients_call_them():
    """Requests for a backend's displayName would get 503, or the default route."""
    shown = "{name: x, inferenceServiceRef: {name: a}, displayName: Big Model}"
    plain_one = "{name: y, inferenceServiceRef: {name: b}}"
    match = f"backends: [{shown}, {plain_one}], defaultRouteStrategy: BackendNameMatch"
    rules = scenario(TWO + router(match))["router"]["rules"]
    assert [(each["match"]["models"], each["backends"]) for each in rules] == [
        (("Big Model",), ("x",)),
        (("y",), ("y",)),
    ]
    (last,) = scenario(TWO + router(f"{match}, defaultRoute: y"))["router"]["rules"]
    assert last["name"] == "x-by-name"


def test_two_backends_of_one_service_are_one_in_the_scenario():
    """Its pods would be counted twice."""
    twins = "backends: [{name: x, inferenceServiceRef: {name: a}}, " + (
        "{name: y, inferenceServiceRef: {name: a}}]"
    )
    text = MODEL + service("a") + router(f"{twins}, rules: [{rule('r', 'y, x')}]")
    found = scenario(text)
    assert list(found["backends"]) == ["x"]
    assert found["router"]["rules"][0]["backends"] == ("x",)
    assert any("both are one" in warning for warning in warnings(text))


def test_one_gpu_on_the_command_line_wins_over_labels():
    """Somebody who asks what another GPU would do would be shown the old one."""
    text = MODEL + service("a", "nodeSelector: {gpu: NVIDIA-L4}")
    assert scenario(text)["engines"]["a"]["gpu"] == "l4"
    assert scenario(text, gpu="b200")["engines"]["a"]["gpu"] == "b200"


def test_a_flag_wins_over_a_field():
    """The operator appends flags, and vLLM takes the last one."""
    text = MODEL + service("a", "vllmConfig: {maxModelLen: 10}, extraArgs: ['--max-model-len=20']")
    assert scenario(text)["engines"]["a"]["maxModelLen"] == 20


def test_several_gpus_are_tensor_parallel():
    """A model would have to fit on one GPU, and a step take twice as long."""
    found = scenario(MODEL + service("a", "resources: {gpu: 2}"))
    assert found["engines"]["a"]["tensorParallel"] == 2
    hardware = MODEL.replace("Qwen3-8B", "Qwen3-8B, hardware: {gpu: {count: 4}}")
    assert scenario(hardware + service("a"))["engines"]["a"]["tensorParallel"] == 4


def test_the_flags_of_yaml_1_1_are_understood():
    """Kubernetes takes `yes` for true; the rule would be open."""
    text = TWO + router(f"{backends('a')}, rules: [{rule('x', 'a', 'failClosed: yes')}]")
    assert scenario(text)["router"]["rules"][0]["failClosed"] is True


def test_a_router_that_skips_a_busy_pool_is_imported_as_one():
    """An IfIdle router became one that waits: the field was looked for beside `route`, not in it.

    The shape is that of joryirving/home-ops, nvidia-pool.yaml; LLMKube's RuleRoute has the field.
    """
    through = "{name: x, route: {backends: [a, b], poolActivation: IfIdle}}"
    text = TWO + router(f"{backends('a', 'b')}, rules: [{through}]") + pool(members("a", "b"))
    assert scenario(text)["router"]["rules"][0]["poolActivation"] == "IfIdle"
    assert not any("poolActivation" in str(note) for note in translated(text).notes)


def test_mirrored_requests_are_not_sent_to_be_answered():
    """A shadow backend would answer clients when the first one fails."""
    shadow = "{name: x, route: {backends: [a, b], strategy: shadow}}"
    found = scenario(TWO + router(f"{backends('a', 'b')}, rules: [{shadow}]"))
    assert found["router"]["rules"][0]["backends"] == ("a",)


@pytest.mark.parametrize("glob", ["qwen3-*", "*", "?", "a[!a-c]?", "[xy]*z", "plain", "a]b", "["])
def test_a_stand_in_asks_for_a_model_that_its_rule_matches(glob: str):
    """Its requests would match no rule, and be answered 503."""
    match = f"match: {{models: ['{glob}']}}"
    found = scenario(TWO + router(f"{backends('a')}, rules: [{rule('x', 'a', match)}]"))
    assert fnmatchcase(found["workloads"]["x"]["model"], glob)


def test_a_stand_in_asks_for_what_its_rule_matches():
    """The imported scenario would run without a request for the rule."""
    match = "match: {headers: {x-team: t}, dataClassification: [pii], taskComplexity: simple}"
    found = scenario(TWO + router(f"{backends('a')}, rules: [{rule('x', 'a', match)}]"))
    assert found["workloads"]["x"]["headers"] == {
        "x-team": "t",
        "x-llmkube-classification": "pii",
        "x-llmkube-task-complexity": "simple",
    }


def test_a_workload_file_takes_the_place_of_the_stand_ins():
    """One's own traffic would be lost, or run beside the stand-ins."""
    workload = "seeds: [4]\nslo: {ttft: 1s}\nworkloads: {w: {kind: script, file: w.csv}}\nname: no"
    imported = translated(TWO, workload=workload)
    found = parse(imported.scenario, "written")
    assert found["seeds"] == (4,)
    assert found["slo"] == {"ttft": "1s"}
    assert found["workloads"] == {"w": {"kind": "script", "file": "w.csv"}}
    assert "window" not in found
    assert any(note.about.path == "name" for note in imported.notes)


def test_what_a_budget_in_dollars_says_is_named_and_left_out():
    """It would be counted in tokens, or lost."""
    budgets = (
        "{name: t, scope: team, headerKey: x-who, maxTokens: 5}, {name: d, scope: router, "
        "maxUSD: '1'}"
    )
    text = TWO + router(f"{backends('a')}, defaultRoute: a, policy: {{budgets: [{budgets}]}}")
    assert scenario(text)["router"]["policy"]["budgets"] == (
        {"name": "t", "scope": "team", "maxTokens": 5, "headerKey": "x-who"},
    )
    assert any("budgets.1.maxUSD" in str(note) for note in translated(text).notes)


def test_a_service_that_nothing_refers_to_is_named():
    """It would be missing without a word."""
    notes = translated(TWO + router(backends("a") + ", defaultRoute: a")).notes
    assert any(note.kind == NoteKind.SKIPPED and "b:" in str(note) for note in notes)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("contxtSize: 8192", "spec.contxtSize: unknown field; did you mean contextSize?"),
        ("context_size: 8192", "spec.context_size: unknown field; did you mean contextSize?"),
        (
            "runtime: vllm, vllmConfig: {maxModelLength: 8192}",
            "vllmConfig.maxModelLength: unknown field; did you mean maxModelLen?",
        ),
        ("moeCPUOffload: true", "spec.moeCPUOffload: experts stay on the GPU"),
        ("contextSize: 8192, contextSizes: 1", "contextSizes: podsim does not know this field"),
    ],
)
def test_a_mistyped_field_is_told_from_one_that_is_not_modelled(spec: str, said: str):
    """A slip of the pen was called a field that podsim does not model, and its value was lost."""
    text = f"{MODEL}{service('a').replace('runtime: vllm', spec)}"
    kind = NoteKind.NOT_MODELLED
    (said_of_it,) = [str(note) for note in translated(text).notes if note.kind == kind]
    assert said_of_it.endswith(said)


def test_what_cannot_matter_is_one_line():
    """Sixty lines on ports and tokens hid the four that a reader must see."""
    spec = "tolerations: [], skipModelInit: true, resources: {cpu: 4}, autoscaling: {max: 3}"
    args = "extraArgs: [--port, '80', --jinja, -ngl, '99', --foo, '-x']"
    text = MODEL + service("a", f"{spec}, {args}") + service("b", "resources: {cpu: 4}")
    notes = [str(note) for note in translated(text, gpu="h100").notes]
    assert [note.split(": ")[-1] for note in notes if note.startswith("not modelled")] == [
        "the number of pods is fixed",
        "podsim does not know the option --foo",
        "podsim does not know the option -x",
    ]
    (line,) = [note for note in notes if note.startswith("ignored")]
    assert line == (
        "ignored: m.yaml: without an effect on a simulation: --jinja, --port, -ngl, cpu (2), "
        "skipModelInit, tolerations"
    )


def test_what_is_switched_off_or_all_there_is_no_loss():
    """Layers that are all on the GPU stood among what is lost, and so did what is switched off."""
    model = MODEL.replace(
        "Qwen3-8B", "Qwen3-8B, hardware: {gpu: {layers: -1}}, resources: {cpu: 8}"
    )
    spec = "moeCPUOffload: false, vllmConfig: {enableChunkedPrefill: true, enforceEager: false}"
    notes = translated(model + service("a", spec), gpu="h100").notes
    assert [note.kind for note in notes] == [NoteKind.IGNORED]
    some = model.replace("-1", "12") + service("a", "extraArgs: [-ngl, '12', --spec-type, mtp]")
    left = [str(note) for note in translated(some, gpu="h100").notes if "not modelled" in str(note)]
    assert [line.split()[-1] for line in left] == ["GPU", "-ngl", "--spec-type"]


def test_vllm_runs_as_many_sequences_as_its_service_has_slots():
    """An engine of 5 sequences became one of 1,024: the operator renders parallelSlots as
    --max-num-seqs for vLLM (runtime_vllm_args.go), unless extraArgs have that flag.
    """
    assert scenario(MODEL + service("a", "parallelSlots: 5"))["engines"]["a"]["maxNumSeqs"] == 5
    flag = MODEL + service("a", "parallelSlots: 5, extraArgs: ['--max-num-seqs=7']")
    assert scenario(flag)["engines"]["a"]["maxNumSeqs"] == 7


@pytest.mark.parametrize("plane", ["Gateway", "AgentGateway", "Mesh"])
def test_a_data_plane_that_podsim_does_not_know_is_warned_of(plane: str):
    """`AgentGateway`, of newer APIs, ended the import: did you mean 'Gateway'?"""
    text = TWO + router(f"{backends('a')}, defaultRoute: a, dataPlane: {plane}")
    assert scenario(text)["router"]["defaultRoute"] == "a"
    assert any(f"{plane} is not modelled" in warning for warning in warnings(text))


def test_what_newer_apis_add_ends_no_import():
    """A value or a kind of a later version was a slip of the pen, and the whole import failed."""
    policy = "policy: {budgets: [{name: b, scope: tenant, maxTokens: 5}]}"
    strategy = "{name: x, route: {backends: [a], strategy: cheapest, poolActivation: Soon}}"
    text = TWO + router(f"{backends('a')}, defaultRoute: a, rules: [{strategy}], {policy}")
    text += pool(f"{members('b')}, swapPolicy: auction")
    text += "---\napiVersion: inference.llmkube.dev/v1beta2\nkind: ModelFederation\n"
    found = scenario(text)
    assert "poolActivation" not in found["router"]["rules"][0]
    assert "swapPolicy" not in found["pools"]["p"] and "policy" not in found["router"]
    said = "".join(warnings(text))
    assert all(f"'{word}'" in said for word in ("tenant", "cheapest", "Soon", "auction"))
    skipped = [str(note) for note in translated(text).notes if note.kind == NoteKind.SKIPPED]
    assert any("ModelFederation is no part" in line for line in skipped)


def test_a_custom_format_of_the_cache_wins_over_the_standard_one():
    """`kvCacheCustomDtype` was called a slip of the pen for kvCacheDtype, and lost."""
    both = "vllmConfig: {kvCacheCustomDtype: turbo2, kvCacheDtype: auto, dtype: bfloat16}"
    text = MODEL + service("a", both)
    assert scenario(text)["engines"]["a"]["kvCacheDtype"] == "fp8"
    assert all(note.kind == NoteKind.TO_ADD for note in translated(text).notes)
    desk = MODEL + service("a", "cacheTypeCustomK: turbo3, cacheTypeCustomV: turbo3").replace(
        "runtime: vllm", "runtime: llamacpp"
    )
    assert scenario(desk)["engines"]["a"]["kvCacheDtype"] == "fp8"
    assert all(note.kind == NoteKind.TO_ADD for note in translated(desk).notes)


@pytest.mark.parametrize(
    ("source", "more", "retention"),
    [
        ("Qwen/Qwen3.6-27B", "", "prompt-tail"),
        ("Qwen/Qwen3.6-35B-A3B-FP8", "extraArgs: [--block-size, '16']", "prompt-tail"),
        ("Qwen/Qwen3.6-27B", "extraArgs: [--no-enable-prefix-caching]", None),
        ("Qwen/Qwen3-8B", "", None),
    ],
)
def test_a_hybrid_model_gets_the_cache_that_vllm_gives_it(source, more, retention):
    """Its prefixes were found block by block: hits of 96.8 % where vLLM has 92.9 %."""
    text = MODEL.replace("Qwen/Qwen3-8B", source) + service("a", more)
    engine = scenario(text)["engines"]["a"]
    assert engine.get("prefixRetention") == retention
    assert retention is None or "blockSize" not in engine


def test_a_pool_of_priorities_is_a_fair_one():
    """`swapPolicy: priority` and `minResidency` became a sticky pool that has neither."""
    listed = "members: [{inferenceServiceRef: {name: a}, priority: 5}, " + (
        "{inferenceServiceRef: {name: b}}]"
    )
    found = scenario(TWO + pool(f"{listed}, swapPolicy: priority, minResidency: 2m"))["pools"]["p"]
    assert (found["kind"], found["minResidency"]) == ("fair", "120s")
    assert found["swapPolicy"] == "sticky"
    assert found["members"]["a"]["priority"] == 5
    assert "priority" not in found["members"]["b"]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            "cacheTypeK: q8_0, cacheTypeV: q8_0",
            "kvCacheDtype: fp8  # spec.cacheTypeK, the nearest that podsim knows to q8_0",
        ),
        (
            "args: [-ctk, q8_0]",
            "kvCacheDtype: fp8  # -ctk in spec.args, the nearest that podsim knows to q8_0",
        ),
        (
            "runtime: vllm, vllmConfig: {quantization: bitsandbytes}",
            "weightDtype: int4  # spec.vllmConfig.quantization, the nearest that podsim knows to "
            "bitsandbytes",
        ),
        ("runtime: vllm, args: [--quantization=awq]", "weightDtype: int4  # --quantization in"),
    ],
)
def test_a_format_that_is_only_the_nearest_is_called_so(spec: str, line: str):
    """q8_0 stood beside fp8 as if they were the same format."""
    text = f"{MODEL}{service('a').replace('runtime: vllm', spec)}"
    assert line in translated(text).scenario


def test_the_disk_that_a_load_is_computed_with_is_written_down():
    """A load of a minute rested on a bandwidth that stood nowhere in the scenario."""
    text = TWO.replace("runtime: vllm", "runtime: llamacpp") + pool(members("a", "b"))
    line = "a: {swap: {method: llamacpp, disk: 1GB/s}}  # from the weights; disk: assumed"
    assert line in translated(text).scenario
