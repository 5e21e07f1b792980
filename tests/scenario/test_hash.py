"""The hash names what would be simulated: equal for equal, another for anything else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.core.errors import ScenarioError
from sim.core.registry import Registry
from sim.scenario.hashing import scenario_hash
from sim.scenario.load import ScenarioSet, load, load_text
from tests.scenario.conftest import GOOD

Loaded = Callable[..., ScenarioSet]

SCRIPT = GOOD.replace("kind: requests,", "kind: script, file: rows.csv}  #")
ROWS = "arrival_s,promptTokens,outputTokens\n0,100,10\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: good", "name: other\ndescription: text\nseeds: [5, 6]"),
        ("measure: 1m", "measure: 60"),
        ("kvBlocks: 100", "kvBlocks: 1.0e+2"),
        ("replicas: 2", "replicas: 2.0 # comment\n    balancing: null"),
        ("    policy: {kind: least-loaded}\n", ""),
        ("promptTokens: 1k", "promptTokens: {constant: 1000}"),
        ("window: {warmup: 10s, measure: 1m}", "window: {measure: 1m, warmup: 10000ms}"),
    ],
)  # fmt: skip
def test_another_way_to_say_the_same_has_the_same_hash(loaded: Loaded, old: str, new: str) -> None:
    """Results of one scenario would be stored apart for a comment, a unit or a name."""
    assert old in GOOD
    assert loaded(GOOD.replace(old, new)).scenario_hash == loaded(GOOD).scenario_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("measure: 1m", "measure: 2m"),
        ("kvBlocks: 100", "kvBlocks: 101"),
        ("kind: least-loaded", "kind: round-robin"),
        ("rate: 5", "rate: 5.000001"),
        ("small: {", "small: {maxModelLen: 1000000000, "),
        ("name: good\n", "name: good\nringSalt: x\n"),
        ("name: good\n", "name: good\nvariants: {a: {}}\n"),
        ("name: good\n", "name: good\nslo: {ttft: 1s}\n"),
    ],
)
def test_anything_that_could_change_a_run_changes_the_hash(
    loaded: Loaded, old: str, new: str
) -> None:
    """Results of two scenarios would overwrite each other."""
    assert old in GOOD
    assert loaded(GOOD.replace(old, new)).scenario_hash != loaded(GOOD).scenario_hash


def test_the_hash_is_the_same_in_every_process(loaded: Loaded) -> None:
    """Directories would differ from run to run; a change of defaults would go unseen."""
    found = loaded(GOOD)
    assert len(found.scenario_hash) == 64
    assert int(found.scenario_hash, 16) > 0


def test_what_stands_in_a_named_file_belongs_to_the_hash(
    tmp_path: Path, registry: Registry
) -> None:
    """A trace could be replaced and its old results be taken for new ones."""
    file = tmp_path / "scenario.yaml"
    file.write_text(SCRIPT)
    rows = tmp_path / "rows.csv"
    rows.write_text(ROWS)
    first = load(file, registry=registry).scenario_hash
    rows.write_text(ROWS + "1,100,10\n")
    second = load(file, registry=registry).scenario_hash
    rows.write_text(ROWS)
    assert load(file, registry=registry).scenario_hash == first != second


def test_a_named_file_that_is_missing_is_refused_where_it_is_named(
    tmp_path: Path, registry: Registry
) -> None:
    """The run would start and end in a traceback, or look in the wrong directory."""
    with pytest.raises(ScenarioError) as caught:
        load_text(SCRIPT, "f.yaml", directory=tmp_path, registry=registry)
    assert str(caught.value) == (
        "f.yaml:14:30: workloads.load.file: 'rows.csv' cannot be read: no such file or directory; "
        f"looked in {tmp_path}"
    )


def test_a_setting_at_its_default_is_as_good_as_none(loaded: Loaded) -> None:
    """Each new setting of podsim would make all stored runs, baselines and sweeps incomparable."""
    said = loaded(GOOD.replace("small: {", "small: {asyncScheduling: false, "))
    assert said.scenario_hash == loaded(GOOD).scenario_hash


@pytest.mark.parametrize("path", sorted(Path("scenarios").rglob("*.yaml")), ids=str)
def test_variants_that_differ_have_hashes_that_differ(path: Path) -> None:
    """A kind is a default of its model: left out, a ring and a table would be one scenario."""
    found = load(path)
    documents = [each.model_dump_json(exclude={"variant"}) for each in found.variants]
    nameless = [each.model_copy(update={"variant": ""}) for each in found.variants]
    hashes = [scenario_hash([each], {}) for each in nameless]
    assert len(set(hashes)) == len(set(documents))
