"""The group of verbs: what each kind of failure prints and which code it ends with."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from sim.cli import VERBS, Verbs, main
from sim.core.errors import Fault, InvariantError, ScenarioError, UserError, WorkerError

FAULTS = [
    Fault("a.yaml", 3, 9, "engines.x.maxNumSeqs", "must be a whole number from 1; got -1"),
    Fault("a.yaml", 7, 1, "", "unknown key 'wrokloads'; did you mean 'workloads'?"),
]


def run_verb_that_raises(failure: BaseException):
    """What the group answers when a verb fails with ``failure``."""

    @click.command("fail")
    def fail() -> None:
        raise failure

    class OneVerb(Verbs):
        def get_command(self, ctx, cmd_name):
            return fail

    return CliRunner().invoke(OneVerb(name="podsim"), ["fail"])


def test_faults_are_printed_one_per_line_and_counted():
    """A user with two slips would not see both at once, or would see a traceback."""
    result = run_verb_that_raises(ScenarioError(FAULTS))
    assert result.exit_code == 2
    assert result.stderr == (
        "a.yaml:3:9: engines.x.maxNumSeqs: must be a whole number from 1; got -1\n"
        "a.yaml:7:1: unknown key 'wrokloads'; did you mean 'workloads'?\n"
        "2 faults; nothing was run\n"
    )
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (UserError("no variant 'x'"), 2, "error: no variant 'x'\n"),
        (ScenarioError(FAULTS[1:]), 2, f"{FAULTS[1]}\n1 fault; nothing was run\n"),
        (
            PermissionError(13, "Permission denied", "results"),
            2,
            "error: results: Permission denied\n",
        ),
        (
            InvariantError("INV-1: 3 != 4"),
            4,
            "invariant violated, a bug in podsim: INV-1: 3 != 4\n",
        ),
        (WorkerError("a worker was killed"), 70, "error: a worker was killed; try --jobs 1\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_each_kind_of_failure_has_its_code_and_no_traceback(failure, code, message):
    """A script could not tell a bad file from a bug, or a user would read our stack."""
    result = run_verb_that_raises(failure)
    assert (result.exit_code, result.stderr) == (code, message)


@pytest.mark.parametrize("failure", [ZeroDivisionError("division by zero"), OSError("odd")])
def test_a_bug_names_itself_and_shows_its_traceback(failure):
    """A bug of ours would look like a user's mistake, or leave nothing to report."""
    result = run_verb_that_raises(failure)
    assert result.exit_code == 70
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.endswith(
        "internal error: this is a bug in podsim; please report the lines above\n"
    )


def test_help_lists_every_verb_in_the_order_of_a_working_day():
    """A verb would be missing from the help, or the order would be alphabetical.

    The verb ``list`` is a module; imported, it once stood for the ``list`` of Python, and the
    help of podsim ended with an internal error.
    """
    for verb in VERBS:
        assert CliRunner().invoke(main, [verb, "--help"]).exit_code == 0
    result = CliRunner().invoke(main, ["--help"])
    listed = [line.split()[0] for line in result.stdout.split("Commands:\n")[1].splitlines()]
    assert listed == list(VERBS)
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "arguments", [["rum"], ["run"], ["--versoin"], ["run", "--sead", "1", "x.yaml"]]
)
def test_wrong_usage_is_answered_with_a_hint_and_code_2(arguments):
    """A slip on the command line would pass, or end with the code of a regression."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("comprae", "No such command 'comprae'; did you mean 'compare'?"),
        ("Validate", "did you mean 'validate'?"),
        ("help", "known: init, import, validate, list, run, "),
    ],
)
def test_a_misspelt_verb_is_answered_with_the_one_that_was_meant(typed, words):
    """Whoever mistypes a verb would have to read through the help of all fifteen."""
    result = CliRunner().invoke(main, [typed, "--json"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def every_verb(group: click.Group = main, words: tuple[str, ...] = ()):
    """Every command that can be typed, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_verb(command, (*words, name))
        else:
            yield (*words, name), command


def test_an_option_with_one_value_is_not_given_twice():
    """``--seed 1 --seed 2`` and ``-o a --output b`` took the last one, without a word."""
    tried = 0
    for words, command in every_verb():
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag or option.multiple:
                continue
            twice = [option.opts[0], "1", option.opts[-1], "2"]
            result = CliRunner().invoke(main, [*words, *twice])
            names = " / ".join(option.opts)
            assert f"Error: {names} is given twice: give only one\n" in result.stderr, words
            assert result.exit_code == 2
            tried += 1
    assert tried > 50


def test_a_shell_completes_variants_and_stored_runs(podsim, tmp_path):
    """It completed verbs and kinds; names of variants and runs had to be looked up and typed."""

    def completed(*words: str) -> list[str]:
        found = ShellComplete(main, {}, "podsim", "").get_completions([*words[:-1]], words[-1])
        return [each.value for each in found]

    for verb in ("run", "sweep", "find", "bench"):
        assert completed(verb, "tiny.yaml", "--variant", "l") == ["least-loaded"]
        assert completed(verb, "nowhere.yaml", "--variant", "l") == []
    assert completed("report", "") == []
    podsim("run", "tiny.yaml", "--jobs", 1)
    (folder,) = (tmp_path / "results" / "runs").iterdir()
    for verb in (("report",), ("plot",), ("compare",), ("explain",), ("export",), ("runs", "show")):
        assert completed(*verb, "t") == ["tiny", folder.name]
        assert completed(*verb, "tiny/l") == ["tiny/least-loaded"]
        seeds = [f"{folder.name}/least-loaded/seed-{seed}" for seed in (7, 8)]
        assert completed(*verb, f"{folder.name}/least-loaded/") == seeds


def test_a_reader_that_leaves_early_is_no_error_of_ours():
    """`podsim ... | head -1` would print a traceback, or claim a regression."""
    program = (
        "import click, sim.cli as cli\n"
        "@click.command()\n"
        "def flood():\n"
        "    for _ in range(100_000): click.echo('x' * 100)\n"
        "class One(cli.Verbs):\n"
        "    def get_command(self, ctx, name): return flood\n"
        "One(name='podsim')(['flood'])\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    child.stdout.readline()
    child.stdout.close()
    stderr = child.stderr.read()
    child.stderr.close()
    assert (child.wait(), stderr) == (141, b"")


@pytest.mark.parametrize(
    "arguments",
    [
        *("run tiny.yaml --jobs 1", "run tiny.yaml --jobs 2 --json"),
        *("sweep tiny.yaml --grid backends.pods.replicas=1", "runs list", "validate tiny.yaml"),
    ],
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_whoever_starts_podsim_need_not_listen(podsim, tmp_path, arguments, closed):
    """A job of cron without stderr ended in an internal error before its first run."""
    child = subprocess.run(
        f'"{sys.executable}" -m sim.cli {arguments} {closed}',
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, "Traceback" in child.stderr) == (0, False)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["--version"], ["run", "--help"], ["list", "gpus"], ["init"]),
        *(["validate", "tiny.yaml"], ["bench", "tiny.yaml"]),
        *(["run", "tiny.yaml", "--jobs", "1"], ["run", "tiny.yaml", "--json", "--no-store"]),
    ],
    ids=" ".join,
)
def test_a_full_disk_under_the_output_is_no_bug(podsim, tmp_path, arguments):
    """A full disk would be reported as a bug in podsim, or not at all."""
    with Path("/dev/full").open("w") as full:
        child = subprocess.run(
            [sys.executable, "-m", "sim.cli", *arguments],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert child.stderr == "error: cannot write the output: No space left on device\n"
    assert child.returncode == 2


def test_an_old_terminal_gets_the_output_with_escapes():
    """A machine without a UTF-8 locale would get an internal error instead of the table."""
    program = (
        "import click, sim.cli as cli\n"
        "@click.command()\n"
        "def dash(): click.echo('\\u2013')\n"
        "class One(cli.Verbs):\n"
        "    def get_command(self, ctx, name): return dash\n"
        "One(name='podsim')(['dash'])\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env={"PYTHONIOENCODING": "latin-1"},
        check=False,
    )
    assert (child.returncode, child.stdout, child.stderr) == (0, b"\\u2013\n", b"")
