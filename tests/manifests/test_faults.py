"""What is wrong in manifests: in words, with its place, all of it at once."""

import pytest

from sim.core.errors import ScenarioError, UserError
from sim.manifests.objects import Manifest
from sim.manifests.translation import translate
from tests.manifests.samples import translated

HEAD = "apiVersion: inference.llmkube.dev/v1alpha1\n"
MODEL = f"{HEAD}kind: Model\nmetadata: {{name: m}}\nspec: {{source: Qwen/Qwen3-8B}}\n"


def service(name: str, spec: str = "") -> str:
    return (
        f"---\n{HEAD}kind: InferenceService\nmetadata: {{name: {name}}}\n"
        f"spec: {{modelRef: m, runtime: vllm{spec and ', '}{spec}}}\n"
    )


def router(spec: str, name: str = "r") -> str:
    return f"---\n{HEAD}kind: ModelRouter\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def pool(spec: str, name: str = "p") -> str:
    return f"---\n{HEAD}kind: ModelPool\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def backends(*names: str) -> str:
    listed = (f"{{name: {name}, inferenceServiceRef: {{name: {name}}}}}" for name in names)
    return f"backends: [{', '.join(listed)}]"


def members(*names: str) -> str:
    listed = (f"{{inferenceServiceRef: {{name: {name}}}}}" for name in names)
    return f"members: [{', '.join(listed)}]"


def rule(name: str, backend: str, more: str = "") -> str:
    return f"{{name: {name}, route: {{backends: [{backend}]}}{more and ', '}{more}}}"


TWO = MODEL + service("a") + service("b")

BUSY = "{backends: [a], poolActivation: IfIdel}"

FAULTS = {
    "not YAML": ("a: [", "m.yaml:2:1: not YAML"),
    "no objects": ("", "m.yaml: the file has no objects"),
    "no kind": ("a: 1", "m.yaml:1:1: not an object of Kubernetes"),
    "unknown kind": (
        f"{HEAD}kind: ModelRoter\nmetadata: {{name: r}}",
        "m.yaml:2:1: kind: unknown kind 'ModelRoter'; did you mean 'ModelRouter'?",
    ),
    "no name": (f"{HEAD}kind: Model\nspec: {{}}", "Model.metadata.name: is missing"),
    "no spec": (f"{HEAD}kind: Model\nmetadata: {{name: x}}", "Model/x.spec: is missing"),
    "nothing to simulate": (MODEL, "there is nothing to simulate"),
    "a name twice": (
        MODEL + "---\n" + MODEL.replace("8B", "14B"),
        "there are two Models 'm'; the first one is at m.y",
    ),
    "two routers": (
        TWO + router(backends("a")) + router(backends("b"), "other"),
        "ModelRouter/other: a scenario has one router, and r is one already",
    ),
    "no model": (service("a"), "spec.modelRef: there is no Model 'm'; the manifests have no Model"),
    "no service": (
        TWO + router(backends("aa")),
        "inferenceServiceRef.name: there is no InferenceService 'aa'",
    ),
    "another namespace": (
        TWO.replace("{name: b}", "{name: b, namespace: lab}") + router(backends("b")),
        "InferenceService 'b' is in namespace lab, not in default",
    ),
    "neither service nor provider": (
        TWO + router("backends: [{name: a}]"),
        "give inferenceServiceRef or external; got neither",
    ),
    "a backend twice": (TWO + router(backends("a", "a")), "there are two backends 'a'"),
    "a backend with a dot": (TWO + router(backends("a.b")), "must be letters, digits and hyphens"),
    "a backend without a name": (
        TWO + router("backends: [{inferenceServiceRef: {name: a}}]"),
        "backends.0.name: must be letters, digits and hyphens, a letter or a digit first; got noth",
    ),
    "a backend of no letters": (
        TWO + router("backends: [{name: '', inferenceServiceRef: {name: a}}]"), "got ''",
    ),
    "no backends": (TWO + router("rules: []"), "ModelRouter/r.spec.backends: is missing"),
    "an unknown backend": (
        TWO + router(f"{backends('a')}, rules: [{rule('x', 'b')}]"),
        "spec.rules.0.route.backends.0: unknown backend 'b'",
    ),
    "a rule twice": (
        TWO + router(f"{backends('a')}, rules: [{rule('x', 'a')}, {rule('x', 'a')}]"),
        "spec.rules.1.name: there are two rules 'x'",
    ),
    "a rule without a route": (
        TWO + router(f"{backends('a')}, rules: [{{name: x}}]"),
        "spec.rules.0.route: must name a backend",
    ),
    "an unknown activation": (
        TWO + router(f"{backends('a')}, rules: [{{name: x, route: {BUSY}}}]"),
        "poolActivation: unknown value 'IfIdel'; did you mean 'IfIdle'?",
    ),
    "an activation in the wrong place": (
        TWO + router(f"{backends('a')}, rules: [{rule('x', 'a', 'poolActivation: IfIdle')}]"),
        "spec.rules.0.poolActivation: belongs into route",
    ),
    "a time without a unit": (
        TWO + router(f"{backends('a')}, rules: [{rule('x', 'a', 'timeout: 30')}]"),
        "timeout: must be a duration such as 300s or 1h30m; got 30",
    ),
    "an unknown default route": (
        TWO + router(f"{backends('a')}, defaultRoute: z"),
        "spec.defaultRoute: unknown backend 'z'",
    ),
    "nowhere to go": (
        TWO + router(backends("a")), "ModelRouter/r: no rule and no default route leads to a",
    ),
    "only providers outside": (
        TWO + router("backends: [{name: x, external: {}}], defaultRoute: x"),
        "ModelRouter/r: no rule and no default route leads to a",
    ),
    "a budget of no rule": (
        TWO
        + router(
            f"{backends('a')}, rules: [{rule('x', 'a')}], "
            "policy: {budgets: [{name: b, scope: rule, ruleName: y, maxTokens: 1}]}"
        ),
        "budgets.0.ruleName: must be the name of a rule",
    ),
    "a pool of nobody": (TWO + pool("members: []"), "ModelPool/p.spec.members: must name a serv"),
    "a member that is not there": (TWO + pool(members("z")), "there is no InferenceService 'z'"),
    "a member of two pools": (
        TWO + pool(members("a")) + pool(members("a"), "q"),
        "'a' is a member of ModelPool p already",
    ),
    "a default that is no member": (
        TWO + pool(f"{members('a')}, default: b"),
        "ModelPool/p.spec.default: 'b' is no member of the pool: a",
    ),
    "a default of a pool whose only member is unknown": (
        TWO + pool(f"{members('q')}, default: q"),
        "there is no InferenceService 'q'",
    ),
    "reclaim for nobody": (
        TWO + pool(f"{members('a')}, swapPolicy: reclaim"),
        "swapPolicy: reclaim needs a default",
    ),
    "two services of one name": (
        MODEL + service("a.b") + service("a-b") + router(backends("a-b") + ", defaultRoute: a-b")
        + pool(members("a.b")),
        "InferenceService/a.b: member a.b clashes with backend a-b",
    ),
    "a number that is text": (
        MODEL + service("a", "replicas: two"),
        "spec.replicas: must be a whole number from 0 to 10000; got 'two'",
    ),
    "a list that is text": (MODEL + service("a", "args: x"), "spec.args: must be a list; got 'x'"),
    "a mapping that is text": (
        MODEL + service("a", "vllmConfig: x"),
        "spec.vllmConfig: must be a mapping; got 'x'",
    ),
    "a flag without its value": (
        MODEL + service("a", "args: [--max-num-seqs]"),
        "spec.args: the option --max-num-seqs needs a value",
    ),
    "a flag with another value": (
        MODEL + service("a", "args: [--max-num-seqs, some]"),
        "spec.args.max-num-seqs: must be a whole number; got 'some'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_each_is_named_with_its_place(what: str):
    """A user would be shown a traceback, a wrong place, or a scenario that is not theirs."""
    text, message = FAULTS[what]
    with pytest.raises(ScenarioError) as refused:
        translated(text)
    faults = refused.value.faults
    assert message in str(refused.value)
    assert all(fault.source in ("m.yaml", "manifests") for fault in faults)
    assert len(faults) == 1


def test_all_are_named_at_once_in_the_order_of_the_files():
    """Mending one fault after the other takes as many imports."""
    first = Manifest("z.yaml", router(f"{backends('a', 'x')}, defaultRoute: y"))
    second = Manifest("a.yaml", MODEL + service("a", "replicas: -1") + pool(members("q")))
    with pytest.raises(ScenarioError) as refused:
        translate([first, second])
    faults = refused.value.faults
    assert [fault.source for fault in faults] == ["z.yaml", "z.yaml", "a.yaml", "a.yaml"]
    assert [fault.line for fault in faults] == [5, 5, 9, 14]


def test_what_a_file_that_cannot_be_read_would_hold_is_not_missed():
    """One slip in YAML would be answered by a fault for each reference into the file."""
    with pytest.raises(ScenarioError) as refused:
        translate([Manifest("a.yaml", router(backends("a"))), Manifest("b.yaml", "a: [")])
    assert [fault.source for fault in refused.value.faults] == ["b.yaml"]


def test_a_gpu_that_podsim_does_not_know_is_refused_at_once():
    """The scenario would be written and then refused."""
    with pytest.raises(UserError, match="unknown gpu 'b20'; did you mean 'b200'"):
        translated(TWO, gpu="b20")


def test_a_workload_file_without_workloads_is_refused():
    """The scenario would have none, and nobody would be told why."""
    with pytest.raises(ScenarioError, match=r"w.yaml: has no workloads"):
        translated(TWO, workload="seeds: [1]")
