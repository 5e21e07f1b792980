"""The command line: one small file per verb, imported when it is needed.

A verb's module imports click and nothing heavy; what it works with is
imported when the verb runs, so that ``podsim --help`` answers at once.
"""

import errno
import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from keyword import iskeyword
from typing import Any, Final

import click

from sim.cli.interruption import interruptible
from sim.core.errors import SUSPECT, InvariantError, ScenarioError, UserError, WorkerError

VERBS: Final = (
    "init",
    "import",
    "validate",
    "list",
    "run",
    "runs",
    "explain",
    "report",
    "plot",
    "compare",
    "baseline",
    "sweep",
    "find",
    "export",
    "bench",
)
"""In the order of a working day; ``sim.cli.verbs.<verb>`` holds ``command``."""

ARGUMENTS: Final = "podsim.arguments"
"""Where the context of a command keeps what was typed behind ``podsim``."""

# What a file system may answer to a user's path; any other OSError is a bug of ours.
FILE_TROUBLES: Final = frozenset(
    getattr(errno, name)
    for name in (
        *("EACCES", "EEXIST", "EISDIR", "ENAMETOOLONG", "ENOENT"),
        *("EDQUOT", "EFBIG", "EIO", "ENOSPC", "ENOTDIR", "EPERM", "EROFS"),
    )
)


class ExitCode:
    """What the command's exit status means."""

    FINE: Final = 0
    REGRESSION: Final = 1
    BAD_INPUT: Final = 2
    NOT_COMPARABLE: Final = 3
    INVARIANT: Final = 4
    INTERNAL: Final = 70
    INTERRUPTED: Final = 130
    OUTPUT_CLOSED: Final = 141  # the reader of our output has left, as for any Unix filter


class Verb(click.Command):
    """A verb, whose options each have one value unless they say that they are repeatable."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a second value of an option: click would take the last one without a word."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for at, option in enumerate(given):
            takes_one = isinstance(option, click.Option) and not (option.is_flag or option.multiple)
            if takes_one and option in given[:at] and not ctx.resilient_parsing:
                names = " / ".join(option.opts)
                raise click.BadOptionUsage(names, f"{names} is given twice: give only one", ctx)
        return super().parse_args(ctx, args)


class Verbs(click.Group):
    """The group of all verbs; turns each kind of failure into its message and exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, in the order of a working day."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb; None for a word that is not one."""
        if cmd_name not in VERBS:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name  # import_
        command: click.Command = import_module(f"sim.cli.verbs.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that was typed, or fail with the one that was probably meant."""
        typed = args[0]
        if not typed.startswith("-") and self.get_command(ctx, typed) is None:
            from sim.core.suggest import suggestion

            ctx.fail(f"No such command {typed!r}{suggestion(typed, VERBS)}")
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], *others: Any, **options: Any
    ) -> click.Context:
        """Read the command line; --help and --version of the group are answered here."""
        typed = tuple(args)
        with _failures_explained():
            context = super().make_context(info_name, args, *others, **options)
        context.meta[ARGUMENTS] = typed
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb that was called."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # an old terminal is no error
        with _failures_explained(), interruptible():
            return super().invoke(ctx)


@contextmanager
def _failures_explained() -> Iterator[None]:
    """Print what has failed and end with its exit code; click prints its own failures."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except BrokenPipeError:
        _abandon_stdout()
        raise click.exceptions.Exit(ExitCode.OUTPUT_CLOSED) from None
    except (Exception, KeyboardInterrupt) as failure:
        message, code = explain(failure)
        if isinstance(failure, OSError):
            _abandon_stdout()
        with suppress(OSError):  # stderr may be as full as stdout
            click.echo(message, err=True)
        raise click.exceptions.Exit(code) from None


def explain(failure: BaseException) -> tuple[str, int]:
    """The message and the exit code of a failure; only a bug of podsim shows a traceback."""
    match failure:
        case ScenarioError(faults=faults):
            count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
            return f"{failure}\n{count}; nothing was run", ExitCode.BAD_INPUT
        case UserError():
            return f"error: {failure}", ExitCode.BAD_INPUT
        case InvariantError():
            whose = "" if SUSPECT in str(failure) else ", a bug in podsim"
            return f"invariant violated{whose}: {failure}", ExitCode.INVARIANT
        case KeyboardInterrupt():
            return "interrupted", ExitCode.INTERRUPTED
        case WorkerError():
            return f"error: {failure}; try --jobs 1", ExitCode.INTERNAL
        case OSError(errno=number, filename=str(name)) if number in FILE_TROUBLES:
            return f"error: {name}: {failure.strerror}", ExitCode.BAD_INPUT
        case OSError(errno=number) if number in FILE_TROUBLES:
            return f"error: cannot write the output: {failure.strerror}", ExitCode.BAD_INPUT
    report = "".join(traceback.format_exception(failure))
    suspects = [note for note in getattr(failure, "__notes__", ()) if note.startswith(SUSPECT)]
    whose = ", ".join(suspects) or "this is a bug in podsim; please report the lines above"
    return f"{report}internal error: {whose}", ExitCode.INTERNAL


def _abandon_stdout() -> None:
    """Keep the interpreter from complaining at exit about what can no longer be written."""
    with suppress(io.UnsupportedOperation):  # not a file, so nothing to complain about
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="podsim", message="%(prog)s %(version)s")
def main() -> None:
    """Simulate GPU inference clusters: which placement, on which fleet, for your agents?

    \b
    Exit codes: 0 fine, 1 worse than before, or find has no answer,
    2 bad input or usage, 3 not comparable, or nothing to measure,
    4 invariant violated, 70 internal error, a killed worker or failed
    runs of a sweep, 130 interrupted, 141 reader gone.
    """
