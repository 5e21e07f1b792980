"""What ``--assume`` and ``--model`` put where manifests say nothing, and that it is said."""

from typing import Any

import pytest

from sim.core.document import parse
from sim.core.errors import ScenarioError, UserError
from sim.hardware.catalog import models
from sim.manifests.engines import Given
from sim.manifests.objects import Manifest
from sim.manifests.translation import Imported, translate
from sim.manifests.writing import NoteKind
from sim.scenario.load import load_text
from tests.manifests.samples import manifest, translated
from tests.manifests.test_faults import MODEL, TWO, backends, members, pool, router, service


def engines(imported: Imported) -> dict[str, Any]:
    written: dict[str, Any] = parse(imported.scenario, "written")["engines"]
    return written


def told(imported: Imported, kind: NoteKind = NoteKind.WARNING) -> list[str]:
    return [str(note) for note in imported.notes if note.kind == kind]


@pytest.mark.parametrize("sample", ["gate.yaml", "card.yaml"])
def test_a_router_or_a_pool_alone_is_imported_with_what_is_assumed(sample: str):
    """The samples that LLMKube ships of both could not be imported: their services are in none."""
    with pytest.raises(ScenarioError, match="the manifests have no InferenceService"):
        translate([manifest(sample)])
    imported = translate([manifest(sample)], Given(assume=True))
    assert load_text(imported.scenario).variants
    missing = [line for line in told(imported) if "there is no InferenceService" in line]
    assert len(missing) == len(engines(imported))
    assert not told(imported, NoteKind.TO_ADD)


def test_a_missing_model_is_assumed_under_its_name():
    """A service whose Model is in another file could not be imported."""
    imported = translated(service("a").replace("modelRef: m", "modelRef: qwen3-8b"), assume=True)
    assert engines(imported)["a"]["model"] == "qwen3-8b"
    assert any("there is no Model 'qwen3-8b'" in line for line in told(imported))


def test_an_object_of_another_namespace_is_no_missing_one():
    """A reference that Kubernetes refuses would be made to work."""
    text = TWO.replace("{name: b}", "{name: b, namespace: lab}") + router(backends("b"))
    with pytest.raises(ScenarioError, match="is in namespace lab"):
        translated(text, assume=True)


def test_members_of_a_pool_are_assumed_to_share_one_gpu():
    """They take turns on one slot, and each would be loaded into a card of its own."""
    text = MODEL + service("a") + service("b").replace("modelRef: m", "modelRef: llama-2-70b")
    imported = translated(text + pool(members("a", "b")), assume=True)
    assert engines(imported)["a"]["gpu"] == engines(imported)["b"]["gpu"] == "b200"
    known = service("a", "nodeSelector: {gpu: NVIDIA-H100}") + service("b")
    shared = translated(MODEL + known + pool(members("a", "b")), assume=True)
    assert engines(shared)["b"]["gpu"] == "h100"


@pytest.mark.parametrize(
    ("spec", "model", "fits"),
    [
        ("resources: {gpu: 1, gpuMemory: 24Gi}", "", "l4, a10g, rtx-4090, rtx-3090"),
        ("resources: {gpu: 1}", "hardware: {gpu: {memory: 80Gi}}", "a100-80gb, h100"),
        ("resources: {gpu: 1, gpuMemory: 64Gi}", "hardware: {gpu: {vendor: amd}}", "strix-halo"),
        ("resources: {gpu: 1}", "hardware: {gpu: {vendor: amd}}", "strix-halo, r9700, mi300x"),
        ("resources: {gpu: 4, gpuMemory: 96Gi}", "", "l4, a10g, rtx-4090, rtx-3090"),  # of a pod
        ("resources: {gpu: 1, gpuMemory: plenty}", "", ""),
    ],
)
def test_memory_and_vendor_say_which_gpus_are_meant(spec: str, model: str, fits: str):
    """No node label of any public sample names a GPU; what they do say was not looked at."""
    text = MODEL.replace("Qwen3-8B", f"Qwen3-8B{model and ', '}{model}") + service("a", spec)
    (lacking,) = told(translated(text), NoteKind.TO_ADD)
    assert (f"fits {fits}; give gpu" in lacking) if fits else ("fits" not in lacking)
    assumed = engines(translated(text, assume=True))["a"]["gpu"]
    assert assumed in (fits.split(", ") if fits else ["rtx-4090"])


def test_a_service_on_cpus_is_not_asked_for_its_gpu():
    """It was told that no node label names a GPU; podsim has no engine on CPUs, and says that."""
    text = MODEL.replace("Qwen3-8B", "Qwen3-8B, hardware: {accelerator: cpu}") + service("a")
    (lacking,) = told(translated(text), NoteKind.TO_ADD)
    assert "it runs on a CPU, which podsim does not model" in lacking
    assumed = translated(text, assume=True)
    assert any("runs on a CPU" in line for line in told(assumed))
    assert "gpu" in engines(assumed)["a"]


def test_an_unknown_model_is_taken_for_the_nearest_only_when_asked():
    """A third of the public samples stopped at a model that the catalogue lacks."""
    text = MODEL.replace("Qwen/Qwen3-8B", "org/Mystery-13B") + service("a")
    assert "model" not in engines(translated(text))["a"]
    imported = translated(text, assume=True)
    assert engines(imported)["a"]["model"] == "llama-2-13b"
    assert any("does not know the model org/Mystery-13B" in line for line in told(imported))


def test_the_model_of_a_service_may_be_given():
    """A model that the catalogue lacks had to be written into the scenario, each time anew."""
    given = {"models": {"a": "Qwen/Qwen3-14B"}}
    assert engines(translated(TWO, **given))["a"]["model"] == "qwen3-14b"
    assert engines(translated(TWO, **given))["b"]["model"] == "qwen3-8b"
    with pytest.raises(UserError, match="no service 'z'; known: a, b"):
        translated(TWO, models={"z": "qwen3-8b"})
    with pytest.raises(UserError, match="unknown model 'qwen3-9b'"):
        translated(TWO, models={"a": "qwen3-9b"})


def test_the_same_object_twice_is_one():
    """Two files with one Model could not be imported together."""
    imported = translated(f"{MODEL}---\n{MODEL}{service('a')}")
    assert list(engines(imported)) == ["a"]
    (line,) = told(imported, NoteKind.SKIPPED)
    assert line.endswith("Model m: the same as at m.yaml:1")


def test_an_assumed_model_can_be_served_as_the_options_say():
    """A service that shares out experts was given a dense model, and could not be run."""
    config = "vllmConfig: {tensorParallelSize: 4, enableExpertParallel: true}"
    for name in ("org/Mystery-7B", "org/Mystery"):
        text = MODEL.replace("Qwen/Qwen3-8B", name) + service("a", config)
        imported = translated(text, assume=True)
        assert models()[engines(imported)["a"]["model"]].experts is not None
        assert load_text(imported.scenario).variants
    text = MODEL.replace("Qwen/Qwen3-8B", "org/Mystery-7.6B")  # as Qwen2.5-7B, of 28 heads
    imported = translated(text + service("a", "vllmConfig: {tensorParallelSize: 8}"), assume=True)
    assert engines(imported)["a"]["model"] == "mistral-7b"
    assert load_text(imported.scenario).variants


def test_three_gpus_of_llama_cpp_are_imported():
    """llama.cpp parts layers among any number of GPUs; the scenario refused all but even shares."""
    text = MODEL + service("a", "resources: {gpu: 3}").replace("vllm", "llamacpp")
    imported = translated(text, assume=True)
    assert engines(imported)["a"]["tensorParallel"] == 2
    assert any("at most 2 of 3 GPUs can share its heads" in line for line in told(imported))
    assert load_text(imported.scenario).variants


@pytest.mark.parametrize(
    ("hardware", "where"),
    [
        ("accelerator: metal", "Apple's Metal"),
        ("accelerator: intel, gpu: {enabled: true, vendor: intel}", "a GPU of Intel"),
        ("gpu: {vendor: intel}", "a GPU of Intel"),
        ("accelerator: cpu", "a CPU"),
    ],
)
def test_hardware_that_the_catalogue_lacks_is_named(hardware: str, where: str):
    """A Mac was taken for an L4, and the user told only that no node label names a GPU."""
    text = MODEL.replace("Qwen3-8B", f"Qwen3-8B, hardware: {{{hardware}}}") + service("a")
    (lacking,) = told(translated(text), NoteKind.TO_ADD)
    assert f"it runs on {where}, which podsim does not model: give stepTime and ctx" in lacking
    assert any(f"it runs on {where}" in line for line in told(translated(text, assume=True)))
    given = told(translated(text, gpu="l4"))
    assert any(f"l4 stands in for {where}" in line for line in given)


def test_rocm_is_of_amd():
    """An accelerator that only AMD has would be simulated on a card of NVIDIA."""
    text = MODEL.replace("Qwen3-8B", "Qwen3-8B, hardware: {accelerator: rocm}") + service("a")
    assert engines(translated(text, assume=True))["a"]["gpu"] == "strix-halo"


def test_all_files_of_a_folder_are_imported_at_once():
    """LLMKube's folder of samples could not be: alternatives of one name, two routers of a page,
    a kustomization, and references into files of somebody else."""
    first = MODEL + service("a", "replicas: 2")
    router_of_a = router(f"{backends('a')}, defaultRoute: a")
    other = service("a", "replicas: 3") + router_of_a + router(backends("gone"), "second")
    folder = [
        Manifest("first.yaml", first),
        Manifest("kustomization.yaml", "resources: [first.yaml, other.yaml]\n"),
        Manifest("other.yaml", other + "---\nstatus: {phase: Ready}\n---\n- {name: x}\n"),
    ]
    with pytest.raises(ScenarioError) as refused:
        translate(folder)
    faults = [str(fault) for fault in refused.value.faults]
    assert len(faults) == 2
    assert "there are two InferenceServices 'a'; the first one is at first.yaml:6" in faults[0]
    assert "a scenario has one router, and r is one already" in faults[1]
    imported = translate(folder, Given(assume=True))
    backend = parse(imported.scenario, "written")["backends"]["a"]
    assert backend["replicas"] == 3  # as kubectl apply leaves it
    assert list(engines(imported)) == ["a"]
    assert load_text(imported.scenario).variants
    said = told(imported)
    assert any("the first one is at first.yaml:6; this one is taken" in line for line in said)
    assert any("ModelRouter/second: " in line and "is left out" in line for line in said)
    skipped = [line for line in told(imported, NoteKind.SKIPPED) if "it has no kind" in line]
    assert [line.split(":")[1].strip() for line in skipped] == [
        "kustomization.yaml", "other.yaml", "other.yaml",
    ]  # fmt: skip


def test_a_page_of_parts_is_imported_without_those_that_have_no_name():
    """One object cut short ended the import of a whole page of documentation."""
    page = TWO + pool(members("a")).replace("metadata: {name: p}\n", "") + pool(members("b"))
    with pytest.raises(ScenarioError, match=r"ModelPool\.metadata\.name: is missing"):
        translated(page)
    imported = translated(page, assume=True)
    assert list(parse(imported.scenario, "written")["pools"]) == ["p"]
    assert any("metadata.name: is missing; it is left out" in line for line in told(imported))


def test_a_service_that_names_no_model_is_given_one():
    """The model stood in its command line only, or nowhere, and the import ended there."""
    line = "args: [--model, Qwen/Qwen3-14B]"
    for spec, model in ((line, "qwen3-14b"), ("", "llama-3.1-8b")):
        text = service("a", spec).replace("modelRef: m, ", "")
        with pytest.raises(ScenarioError, match="modelRef: is missing"):
            translated(text)
        imported = translated(text, assume=True)
        assert engines(imported)["a"]["model"] == model
        assert any("spec.modelRef: is missing" in line for line in told(imported))
        assert load_text(imported.scenario).variants


def test_what_is_missing_is_said_and_how_it_may_be_assumed():
    """Whoever imports a sample alone would not learn that podsim can stand in for the rest."""
    with pytest.raises(ScenarioError) as refused:
        translated(MODEL + pool(members("gone")))
    assert str(refused.value).count("there is no InferenceService 'gone'") == 1
    assert "the manifests have no InferenceService; --assume makes one up" in str(refused.value)
