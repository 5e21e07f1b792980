"""A stored run gives its facts, and one table without the others."""

import pytest

from sim.core.errors import UserError
from sim.results.store import Origin, write
from sim.results.stored import stored_runs
from sim.results.tables import DECLARED
from tests.results.builders import mixed_run, pooled_run


@pytest.fixture(params=[mixed_run, pooled_run])
def stored(request, tmp_path):
    """A run and what has become of it on disk."""
    result = request.param()
    write(result, tmp_path, Origin(scenario_hash="f" * 64, scenario={}))
    return result, stored_runs(tmp_path)[0]


def test_facts_and_tables_are_those_of_the_result(stored):
    """Figures of a stored run would not be those of the run."""
    result, run = stored
    assert run.facts == result.facts
    for name in DECLARED:
        assert run.table(name).equals(getattr(result.tables, name))


def test_a_table_that_is_broken_or_of_another_form_is_refused(stored):
    """A user would see a traceback, or a figure of the wrong columns."""
    _, run = stored
    (run.path / "requests.parquet").write_bytes((run.path / "pods.parquet").read_bytes())
    with pytest.raises(UserError, match="requests has other columns; run the scenario again"):
        run.table("requests")
    (run.path / "pods.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="cannot read a result from"):
        run.table("pods")
    (run.path / "pools.parquet").unlink()
    with pytest.raises(UserError, match="cannot read a result from"):
        run.table("pools")


def test_a_manifest_that_lacks_a_fact_is_refused(stored):
    """A manifest that somebody has edited would end in a traceback."""
    _, run = stored
    del run.manifest["facts"]["pods"]
    with pytest.raises(UserError, match="cannot read a result from"):
        _ = run.facts
