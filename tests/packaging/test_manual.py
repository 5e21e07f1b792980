"""The README and the manual: commands, scenarios, figures and links in them are tried."""

import re
import shlex
import subprocess
import sys
from inspect import signature
from operator import attrgetter
from pathlib import Path

import pytest

import podsim
from sim.cli import ExitCode, main
from sim.core import request
from sim.scenario.load import load_text
from tests.command import podsim as command

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs"
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(MANUAL.rglob("*.md")))
}
LIMITS = {"README.md": 7000, "ARCHITECTURE.md": 8000, "docs/concepts/": 6000, "docs/adr/0": 2500}


def blocks(language: str, pages: dict[str, str] = PAGES) -> list[tuple[str, str]]:
    """The code blocks of a language, in order, each with its page."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page, block) for page, text in pages.items() for block in pattern.findall(text)]


def commands() -> list[list[str]]:
    """Every command line that is there to be typed, comments left out."""
    lines = [line for _, block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize(
    ("page", "limit"),
    [(page, limit) for start, limit in LIMITS.items() for page in PAGES if page.startswith(start)],
)
def test_a_page_is_read_in_minutes(page, limit):
    """README and ARCHITECTURE had grown to 40,000 characters, which nobody read."""
    assert len(PAGES[page]) <= limit


def test_it_starts_with_exactly_the_two_commands_of_a_newcomer():
    """Somebody with a fresh machine would have to search, or to install something first."""
    assert [line[:2] for line in commands()[:2]] == [["make", "run"], ["make", "test"]]
    assert README.index("```sh") < 200
    assert len(blocks("sh")[0][1].splitlines()) == 2


def test_every_command_exists_and_its_files_too():
    """A command would be copied from a page and fail."""
    lines = [line[1:] for line in commands() if line[:1] == ["podsim"]]
    assert len(lines) >= 40
    for verb, *arguments in lines:
        found = main.get_command(main.make_context("podsim", [verb]), verb)
        context = found.make_context(verb, list(arguments))
        file = context.params.get("file")
        shipped = isinstance(file, str) and file.startswith("scenarios/")
        assert not shipped or (ROOT / file).is_file(), file


def sessions() -> dict[str, list[tuple[str, str]]]:
    """What is typed on each page, and what it prints: a block of ``$ command`` and output."""
    typed: dict[str, list[tuple[str, str]]] = {}
    for page, block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            typed.setdefault(page, []).append((line, output))
    return typed


@pytest.mark.parametrize("page", sessions())
def test_what_a_page_has_you_type_prints_what_it_says(page, tmp_path, monkeypatch):
    """A newcomer would see something else than the tutorial, and not know who is wrong."""
    monkeypatch.chdir(tmp_path)
    for line, expected in sessions()[page]:
        ran = command(*shlex.split(line)[1:])
        printed = ran.output if ran.exit_code else ran.stdout
        pattern = ".*".join(
            re.escape(part) for part in re.split(r"^\.\.\.\n", expected, flags=re.M)
        )
        assert re.fullmatch(pattern, f"{printed.rstrip()}\n", re.DOTALL), printed


@pytest.mark.parametrize(("page", "text"), blocks("yaml"))
def test_every_scenario_in_it_is_valid(page, text):
    """The first thing that a reader types in would be refused."""
    assert load_text(text, page).warnings == ()


def test_the_import_of_manifests_writes_a_scenario(tmp_path: Path):
    """The command would fail on the files that it names, or write what cannot be read."""
    ((_, *arguments),) = [line for line in commands() if line[:2] == ["podsim", "import"]]
    target = tmp_path / arguments[-1]
    manifests = sorted(str(file) for file in ROOT.glob(arguments[1]))
    ran = command("import", *manifests, arguments[-2], target)
    assert ran.exit_code == 0
    assert load_text(target.read_text("utf-8"), str(target)).name == "desk"


def test_the_python_example_runs(monkeypatch: pytest.MonkeyPatch):
    """The first lines in a notebook would fail."""
    monkeypatch.chdir(ROOT)
    ((_, text),) = blocks("python")
    names: dict = {}
    exec(text, names)
    requests = names["runs"].requests
    assert len(requests) > 1000
    assert set(requests["status"]) <= {"completed", "in_flight"}


def test_every_function_in_it_is_there():
    """`sim.sweep.run(...)` and its like stood in sentences, which nobody had tried."""
    names = set(re.findall(r"\bpodsim((?:\.[a-z_]+)+)\(", "".join(PAGES.values())))
    assert {".run", ".sweep.run", ".sweep.read", ".sweep.find", ".explain.parts"} <= names
    for name in names:
        assert callable(attrgetter(name[1:])(podsim))


def test_the_arguments_of_run_are_all_in_it():
    """`settings=` was left out: a reader would write a copy of the scenario for each change."""
    for argument in ("variants", "seeds", "settings", "jobs", "store"):
        assert argument in signature(podsim.run).parameters
        assert argument in PAGES["docs/how-to/python.md"]


def test_the_table_of_make_run_is_what_make_run_prints(tmp_path):
    """The README would show figures that nobody gets."""
    (run,) = re.findall(r"podsim (run .*)", (ROOT / "Makefile").read_text("utf-8"))
    printed = subprocess.run(
        [sys.executable, "-m", "sim.cli", *shlex.split(run), "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert blocks("text")[0][1] == printed.replace(str(tmp_path), "results/runs")
    excerpt = PAGES["docs/tutorials/ring-or-table.md"].split("<!-- make run -->\n```text\n")[1]
    lines = excerpt.split("```")[0].splitlines()
    assert [line for line in lines if line not in printed.splitlines()] == []


LINK = re.compile(r"\]\(([^)#:]+\.(?:md|svg|cff))(?:#([\w-]+))?\)")


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_its_links_lead_somewhere(page):
    """mkdocs looks at the links of the manual, and nobody at those that lead into it."""
    found = LINK.findall(PAGES[page])
    assert found
    for file, anchor in found:
        target = ROOT / file
        assert target.is_file(), file
        headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
        slugs = {re.sub(r"[^\w]+", "-", heading.lower()).strip("-") for heading in headings}
        assert not anchor or anchor in slugs, (file, anchor)


def test_every_page_is_in_the_table_of_contents():
    """A page would be there that nobody finds."""
    contents = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")]
    assert [page for page in pages if f" {page}\n" not in contents] == []


VOCABULARIES = ("Status", "Outcome", "Reason", "PoolError", "RouterError", "Answer")


def test_every_word_of_the_tables_is_explained():
    """A reader meets a reason in a table, and it is nowhere said what it means."""
    page = PAGES["docs/reference/words.md"]
    words = {
        word
        for name in VOCABULARIES
        for key, word in vars(getattr(request, name)).items()
        if key.isupper()
    }
    assert words == set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))


def test_every_warning_of_a_run_that_it_explains_exists():
    """A reader would look for a warning that podsim words otherwise."""
    source = "".join(path.read_text("utf-8") for path in (ROOT / "sim/results").glob("*.py"))
    texts = re.sub(r"\"\n\s+f?\"", "", source)
    section = PAGES["docs/reference/warnings.md"].split("## Of a run")[1]
    phrases = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(phrases) >= 15
    assert [phrase for phrase in phrases if phrase not in texts] == []


def test_every_exit_code_is_explained():
    """A script would get a code that no page knows."""
    codes = {value for key, value in vars(ExitCode).items() if key.isupper()}
    more = re.findall(r"^\| (\d+) \|", PAGES["docs/reference/exit-codes.md"], re.MULTILINE)
    assert {int(code) for code in more} == codes - {ExitCode.FINE}
