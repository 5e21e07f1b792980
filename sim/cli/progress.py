"""Progress on stderr: simulated time, speed and time left, for all runs together."""

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from sim.execution.runner import OnProgress, Progress

LINE_EVERY_S = 30.0

Item = TypeVar("Item")


def fraction_done(report: "Progress") -> float:
    """Part of the work that is done, from 0 to 1; whole runs when their end is not planned."""
    if report.planned_s:
        return min(1.0, report.simulated_s / report.planned_s)
    return report.runs_done / report.runs_total


def figures(report: "Progress", elapsed_s: float) -> str:
    """The numbers beside the bar after ``elapsed_s`` seconds of wall-clock time."""
    parts = [f"{report.runs_done} of {report.runs_total} runs"]
    if report.simulated_s:
        parts.append(f"{report.simulated_s:,.0f} s simulated")
        if elapsed_s > 0.0:
            parts.append(f"{report.simulated_s / elapsed_s:,.0f} x real time")
    fraction = fraction_done(report)
    if fraction:
        parts.append(f"{elapsed_s * (1.0 - fraction) / fraction:,.0f} s left")
    return ", ".join(parts)


def _is_watched() -> bool:
    """Whether there is a terminal to draw on; stderr may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def note(text: str) -> None:
    """A line on stderr, above a bar that is there: click would write into it."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def watched(items: Collection[Item], what: str) -> Iterator[Item]:
    """The items one by one, under a bar that counts them while stderr is a terminal."""
    if not _is_watched():
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, description=what)


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Show that something of unknown length is under way, while stderr is a terminal."""
    if not _is_watched():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def waited(items: Iterable[Item], text: str) -> Iterator[Item]:
    """The items as they come, the terminal being busy only in between: each may be printed."""
    source = iter(items)
    while True:
        with busy(text):
            found = list(islice(source, 1))
        if not found:
            return
        yield from found


@contextmanager
def progress_bar() -> Iterator[Callable[["Progress"], None] | None]:
    """A callback that draws progress while stderr is a terminal; None when it is not."""
    if not _is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        began_s = time.perf_counter()

        def draw(report: "Progress") -> None:
            elapsed_s = time.perf_counter() - began_s
            done = fraction_done(report)
            bar.update(task, completed=done, description=figures(report, elapsed_s))

        yield draw


def progress_lines(every_s: float = LINE_EVERY_S) -> Callable[["Progress"], None]:
    """A callback that writes a line now and then, for what takes hours and has no terminal."""
    began_s = time.perf_counter()
    last_s = 0.0

    def write(report: "Progress") -> None:
        nonlocal last_s
        elapsed_s = time.perf_counter() - began_s
        if elapsed_s - last_s >= every_s:
            last_s = elapsed_s
            click.echo(figures(report, elapsed_s), err=True)

    return write


@contextmanager
def reported_progress(kept: str | None, lines: bool = False) -> "Iterator[OnProgress]":
    """A callback that draws progress while stderr is a terminal, else writes ``lines``.

    When the work fails and some of its runs are done, the message ``kept`` is written.
    """
    runs_done = 0
    try:
        with progress_bar() as bar:
            draw = bar or (progress_lines() if lines else lambda _: None)

            def report(progress: "Progress") -> None:
                nonlocal runs_done
                runs_done = progress.runs_done
                draw(progress)

            yield report
    except (Exception, KeyboardInterrupt):
        if kept and runs_done:
            note(kept)
        raise
