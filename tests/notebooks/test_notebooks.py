"""The notebooks: a question, an answer that is asserted, and nothing else that could age."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

PATIENCE_S = 300
"""So long is only waited for what never comes."""
ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]


def test_they_are_those_of_the_manual() -> None:
    """A notebook would be there that nobody is told of, or told of that is not there."""
    expected = [
        *("01_first_run", "02_ring_or_table", "03_wait_or_ifidle"),
        *("04_how_many_pods", "05_validation"),
    ]
    assert expected == NAMES
    page = (ROOT / "docs/how-to/python.md").read_text("utf-8")
    assert [name for name in NAMES if f"notebooks/{name}.ipynb" not in page] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_they_are_stripped(path: Path) -> None:
    """Outputs of some earlier version would be read as today's, and fill every diff."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_they_begin_with_a_question_and_end_with_its_answer(path: Path) -> None:
    """A reader would not know what for, and nobody would notice when the answer changes."""
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.splitlines()[0].endswith("?")
    assert cells[-1].cell_type == "code"
    assert "assert " in cells[-1].source


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run all cells in ``folder``, by a kernel that listens to files.

    Ports that are free when they are chosen may be taken when a kernel opens them.
    """
    with TemporaryDirectory() as place:
        NotebookClient(
            notebook,
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{place}/kernel"}}),
            timeout=4 * PATIENCE_S,
            startup_timeout=PATIENCE_S,
            iopub_timeout=PATIENCE_S,
            raise_on_iopub_timeout=True,
            resources={"metadata": {"path": str(folder)}},
        ).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_they_run_to_their_answers(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell would fail for whoever opens it, or its answer no longer be true (short setting)."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.setenv("PODSIM_SHORT", "1")
    notebook = nbformat.read(path, as_version=4)
    execute(notebook, folder)
    told = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output.text for output in told if output.get("name") == "stderr"] == []
    if path.stem != "05_validation":
        assert any("image/png" in output.get("data", {}) for output in told)
