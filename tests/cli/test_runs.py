"""`podsim runs`: which runs are stored, what each was, and how to be rid of them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sim.cli.verbs.runs as verb
from sim.results.stored import MANIFEST, SUMMARY
from tests.results.test_stored import keep

RUNS = Path("results", "runs")


@pytest.fixture
def ran(podsim):
    """What ``podsim run`` printed; its four runs are stored."""
    result = podsim("run", "tiny.yaml", "--jobs", 1)
    assert result.exit_code == 0
    return result.stdout


def folders() -> list[str]:
    return sorted(f"{path.parent.name}/{path.name}" for path in RUNS.glob("*/*/seed-*"))


def test_show_prints_the_table_that_run_printed(podsim, ran):
    """Figures of last week would need the simulation again, or be other figures."""
    result = podsim("runs", "show", "tiny")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(ran)


def test_show_does_so_for_warnings_pools_and_seeds_in_any_order(podsim, tmp_path):
    """Warnings of the file or of runs would be lost on the way to the disk and back."""
    text = (tmp_path / "tiny.yaml").read_text().replace("seeds: [7, 8]", "seeds: [9, 2, 5]")
    (tmp_path / "tiny.yaml").write_text(text)
    table = "backends.pods.policy={kind: session-table, maxLoadPercent: 125}"
    shared = "workloads.traffic.clientTimeout=20ms"
    chosen = ("--variant", "least-loaded", "--set", table, "--set", shared)
    printed = podsim("run", "tiny.yaml", *chosen, "--jobs", 1).stdout
    assert "maxLoadPercent" in printed
    assert "gave up" in printed
    assert podsim("runs", "show", "tiny").stdout.startswith(printed)


def test_show_says_how_to_repeat_the_runs_and_what_would_come_out(podsim, ran):
    """A figure in a report could not be traced back to a command and a commit."""
    text = podsim("runs", "show", "tiny").stdout
    made = text[len(ran) :]
    assert "\nHow made:\n  command" in made
    assert "podsim run tiny.yaml --jobs 1\n" in made
    documents = [json.loads(file.read_text()) for file in RUNS.glob("*/*/*/manifest.json")]
    for document in documents:
        line = f"{document['variant']:<12}  {document['seed']}     {document['digest']}"
        assert line in made.splitlines()
    assert f"scenario hash  {documents[0]['scenario_hash']}" in " ".join(made.split("  "))


def test_runs_that_were_made_apart_are_told_apart(podsim, ran):
    """One command would be told of all runs, though it makes only some of them."""
    podsim("run", "tiny.yaml", "--jobs", 1, "--seed", 9)
    text = podsim("runs", "show", "tiny").stdout
    assert "How made 4 of the 6 runs:" in text
    assert "How made 2 of the 6 runs:" in text
    assert "podsim run tiny.yaml --jobs 1 --seed 9\n" in text
    assert "Mean over seeds 7 to 9 ±" in text


def test_a_variant_that_lacks_a_seed_says_so(podsim, ran):
    """After an interruption means over different seeds would stand side by side unnoticed."""
    (run,) = RUNS.glob("*/least-loaded/seed-8")
    shutil.rmtree(run)
    text = podsim("runs", "show", "tiny").stdout
    assert "\nleast-loaded ran under seed 7 only\n" in text
    assert "null under some seeds" not in text


def test_the_json_of_show_is_that_of_run_and_more(podsim):
    """A program would read other keys from the disk than from a run."""
    printed = json.loads(podsim("run", "tiny.yaml", "--jobs", 1, "--json").stdout)
    shown = json.loads(podsim("runs", "show", "tiny", "--json").stdout)
    for before, now in zip(printed["runs"], shown["runs"], strict=True):
        assert now.items() >= before.items()
        assert Path(now["path"], MANIFEST).is_file()
        assert now["provenance"]["command"] == "podsim run tiny.yaml --jobs 1 --json"
        assert now["versions"]["podsim"]
    assert shown["comparison"] == printed["comparison"]
    assert shown["window_s"]["least-loaded"] == {"start": 0.0, "end": None}


def test_show_of_one_run_and_of_a_moved_one(podsim, ran, tmp_path):
    """A single run, or one that was copied from elsewhere, could not be looked at."""
    one = podsim("runs", "show", "tiny/least-loaded/seed-8").stdout
    assert "One run per variant, seed 8.\n" in one
    (run,) = RUNS.glob("*/least-loaded/seed-8")
    run.rename(tmp_path / "mine")
    moved = podsim("runs", "show", "mine").stdout
    assert "\nTables: mine\n" in moved
    assert [line for line in moved.splitlines() if "Tables" not in line] == [
        line for line in one.splitlines() if "Tables" not in line
    ]


def test_show_wants_one_scenario_and_each_run_once(podsim, ran):
    """Two scenarios would share a table, or a copied run count twice and narrow the interval."""
    podsim(
        "run", "tiny.yaml", "--jobs", 1, "--set", "name=other", "--set", "backends.pods.replicas=3"
    )
    result = podsim("runs", "show", RUNS)
    assert result.exit_code == 2
    assert "holds runs of 2 scenarios; name one: results/runs/other-" in result.stderr
    (run,) = RUNS.glob("tiny-*/least-loaded/seed-8")
    shutil.copytree(run, run.with_name("copy"))
    result = podsim("runs", "show", "tiny")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds the same run twice, " in result.stderr


def test_show_refuses_what_it_cannot_read_in_one_line(podsim, ran):
    """A table would silently lack a seed, or end in a traceback."""
    (run,) = RUNS.glob("*/least-loaded/seed-8")
    for name, content in ((SUMMARY, "{"), (MANIFEST, "")):
        (run / name).write_text(content)
        result = podsim("runs", "show", "tiny")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: cannot read a result from {run}: {name} is torn")
        assert result.stderr.count("\n") == 1


def test_list_has_a_line_for_each_scenario_with_the_name_to_use(podsim, ran):
    """A user would not find what to type, or how much a scenario takes on disk."""
    podsim("run", "tiny.yaml", "--jobs", 1, "--seed", 3, "--set", "backends.pods.replicas=3")
    result = podsim("runs", "list")
    assert (result.exit_code, result.stderr) == (0, "")
    head, *lines = (line for line in result.stdout.splitlines() if not line.startswith(" "))
    first, second = sorted(lines, key=lambda line: "  7, 8  " not in line)
    assert head.split("  ")[0] == "RUN"
    name, variants, seeds, started, size, version = [
        cell.strip() for cell in first.split("  ") if cell.strip()
    ]
    assert (variants, seeds) == ("round-robin, least-loaded", "7, 8")
    assert podsim("runs", "show", name).stdout.startswith(ran)
    found = json.loads(podsim("runs", "list", "--json").stdout)
    assert [each["name"] for each in found] == [line.split()[0] for line in lines]
    found.sort(key=lambda each: each["name"] != name)
    assert found[1]["name"] == second.split()[0]
    assert [each["runs"] for each in found] == [4, 2]
    assert found[0]["started"][:19].replace("T", " ") == started
    files = [file for file in (RUNS / name).rglob("*") if file.is_file()]
    assert found[0]["size_bytes"] == sum(file.stat().st_size for file in files)
    assert size == f"{found[0]['size_bytes'] / 1e3:,.1f} kB"
    assert version.startswith("0.1.0")


def test_list_takes_a_folder_or_a_scenario(podsim, ran):
    """All of a thousand scenarios would have to be read to find one."""
    podsim("run", "tiny.yaml", "--jobs", 1, "--seed", 3, "--set", "backends.pods.replicas=3")
    podsim(
        "run", "tiny.yaml", "--jobs", 1, "--seed", 3, "--set", "name=other", "--out", "elsewhere"
    )

    def names(*place: str) -> list[str]:
        return [
            each["name"] for each in json.loads(podsim("runs", "list", "--json", *place).stdout)
        ]

    assert [name.rpartition("-")[0] for name in names()] == ["tiny", "tiny"]
    assert names("tiny") == names()
    assert names(names()[0]) == names()[:1]
    (other,) = names("elsewhere")
    assert other.startswith("elsewhere/other-")
    assert podsim("runs", "show", other).exit_code == 0
    assert podsim("runs", "list", "nowhere").exit_code == 2


def test_list_of_nothing_is_nothing(podsim):
    """A script would stumble over words in the data, a user over silence."""
    result = podsim("runs", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no stored runs; podsim run FILE stores them in results/runs\n"
    assert json.loads(podsim("runs", "list", "--json").stdout) == []


def test_list_warns_of_a_torn_run_and_shows_the_others(podsim, ran):
    """One torn run would hide all results."""
    (run,) = RUNS.glob("*/least-loaded/seed-8")
    (run / MANIFEST).write_bytes(b"\xff\x00")
    result = podsim("runs", "list")
    assert result.exit_code == 0
    assert result.stderr.startswith(
        f"warning: cannot read a result from {run}: manifest.json is torn"
    )
    assert "7, 8" in result.stdout
    (other,) = RUNS.glob("*/round-robin/seed-8")
    (other / MANIFEST).unlink()
    assert "  7  " in podsim("runs", "list").stdout


def test_rm_needs_a_yes_where_nobody_can_be_asked(podsim, ran):
    """A script with a slip would delete the results of a week."""
    result = podsim("runs", "rm", "tiny")
    assert result.exit_code == 2
    assert "nothing was removed: give --yes" in result.stderr
    assert len(folders()) == 4
    result = podsim("runs", "rm", "tiny", "--dry-run", "--yes")
    assert result.exit_code == 0
    assert " 4 runs " in result.stdout
    assert len(folders()) == 4


@pytest.mark.parametrize(
    ("answer", "left", "said", "code"),
    [
        ("y\n", 0, "", 0),
        ("n\n", 4, "nothing was removed\n", 0),
        ("\n", 4, "nothing was removed\n", 0),
        ("", 4, "interrupted\n", 130),
    ],
)
def test_rm_asks_on_a_terminal(
    podsim, ran, monkeypatch: pytest.MonkeyPatch, answer, left, said, code
):
    """A user at a terminal would not be asked, or a mere Enter would delete."""
    from click.testing import CliRunner

    from sim.cli import main

    monkeypatch.setattr(verb, "_is_terminal", lambda: True)
    result = CliRunner().invoke(main, ["runs", "rm", "tiny"], input=answer)
    assert "remove 4 runs for good?" in result.stderr
    assert result.stderr.endswith(said)
    assert result.exit_code == code
    assert len(folders()) == left


def test_rm_removes_whole_runs_and_the_folders_that_are_empty_then(podsim, ran):
    """Rests would stay in the lists, or neighbours go along."""
    result = podsim(
        "runs",
        "rm",
        "tiny/least-loaded",
        "tiny/round-robin/seed-7",
        "tiny/round-robin/seed-7",
        "--yes",
    )
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "removed 3 runs")
    assert folders() == ["round-robin/seed-8"]
    assert [path.name for path in RUNS.glob("*/*")] == ["round-robin"]
    assert podsim("runs", "rm", "tiny", "--yes").exit_code == 0
    assert list(RUNS.iterdir()) == []


def test_rm_refuses_everything_when_one_thing_is_wrong(podsim, ran):
    """Half of what was meant would be gone when the slip is found."""
    (run,) = RUNS.glob("*/least-loaded/seed-8")
    (run / "notes.txt").write_text("mine")
    for names, said in (
        (("tiny/round-robin", "tinny", "nowhere/at-all"), "'tinny' is neither"),
        (("tiny",), f"{run} holds notes.txt, which podsim has not written"),
        (("",), "'' is neither"),
    ):
        result = podsim("runs", "rm", *names, "--yes")
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr
        assert result.stderr.endswith("nothing was removed\n")
        assert len(folders()) == 4
    assert (run / "notes.txt").read_text() == "mine"


def test_rm_leaves_alone_what_lies_behind_a_link(podsim, ran, tmp_path):
    """Emptying the store emptied the archive as well to which a link in it led."""
    archive = tmp_path / "archive"
    shutil.copytree(RUNS, archive)
    (RUNS / "old").symlink_to(archive)
    refused = podsim("runs", "rm", RUNS, "--yes")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"{RUNS}/old is a link to runs; name the folder that it leads to" in refused.stderr
    assert len(list(archive.rglob(MANIFEST))) == len(folders()) == 4
    for named in (RUNS / "old", *RUNS.glob("tiny-*/*/seed-*")):
        assert podsim("runs", "rm", named, "--yes").exit_code == 0
    assert not list(archive.rglob(MANIFEST)) and folders() == []


def test_rm_removes_a_torn_run_and_no_other_programs_file(podsim, ran, tmp_path):
    """What the list warns of could not be removed; or a web page's manifest.json would be."""
    (run,) = RUNS.glob("*/least-loaded/seed-8")
    (run / MANIFEST).write_text("")
    assert podsim("runs", "rm", run, "--yes").exit_code == 0
    assert len(folders()) == 3
    page = tmp_path / "page"
    page.mkdir()
    (page / MANIFEST).write_text("{}")
    assert podsim("runs", "rm", "page", "--yes").exit_code == 2
    assert (page / MANIFEST).exists()


def test_rm_tells_what_it_could_not_remove(podsim, ran, monkeypatch: pytest.MonkeyPatch):
    """A failure in the middle would look as if everything had gone, or nothing."""
    rename = Path.rename

    def refuses(self: Path, target: Path) -> Path:
        if self.parent.name == "round-robin":
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuses)
    result = podsim("runs", "rm", "tiny/least-loaded", "tiny/round-robin", "--yes")
    assert result.exit_code == 2
    assert "round-robin/seed-7: Permission denied; 2 runs removed before it" in result.stderr
    assert folders() == ["round-robin/seed-7", "round-robin/seed-8"]


def test_a_thousand_runs_are_listed_without_their_tables(podsim, tmp_path):
    """A sweep's results would take minutes to list, since their tables would be read."""
    manifest = json.loads((keep(tmp_path / "one") / MANIFEST).read_text())
    for number in range(1000):
        place = tmp_path / RUNS / f"small-{number:08x}" / "round-robin" / "seed-3"
        place.mkdir(parents=True)
        changed = {**manifest, "scenario_hash": f"{number:08x}" * 8}
        (place / MANIFEST).write_text(json.dumps(changed))
    found = json.loads(podsim("runs", "list", "--json").stdout)
    assert len(found) == 1000


def test_a_list_loads_nothing_heavy(tmp_path):
    """Looking at what there is would take as long as a simulation."""
    program = (
        "import sys\nfrom sim.cli import main\n"
        "main(['runs', 'list'], standalone_mode=False)\nprint(*sys.modules)"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"numpy", "pyarrow", "pandas", "pydantic", "simpy"} & set(child.stdout.split()) == set()


def test_the_order_is_that_of_the_file_whatever_was_run_last(podsim):
    """The first variant is what others are compared with: a run of one variant would change it."""
    podsim("run", "tiny.yaml", "--seed", 1, "--jobs", 1)
    before = podsim("runs", "show", "tiny").stdout.split("How made")[0]
    podsim("run", "tiny.yaml", "--seed", 1, "--jobs", 1, "--variant", "least-loaded")
    assert podsim("runs", "show", "tiny").stdout.split("How made")[0] == before
    assert "round-robin, least-loaded" in podsim("runs", "list").stdout


def test_what_was_set_over_the_file_is_said(podsim):
    """A column would bear the name of a variant that it is not; runs could not be told apart."""
    setting = "backends.pods.replicas=3"
    ran = podsim("run", "tiny.yaml", "--seed", 1, "--jobs", 1, "--set", setting)
    assert f"Set over the file: {setting}\n" in ran.stdout
    assert f"Set over the file: {setting}\n" in podsim("runs", "show", "tiny").stdout
    podsim("run", "tiny.yaml", "--seed", 1, "--jobs", 1)
    lines = podsim("runs", "list").stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.endswith(f"file: {setting}")]
    assert lines[at - 1].startswith("tiny-")
    assert len(lines) == 4
