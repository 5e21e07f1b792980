"""``podsim runs``: the stored runs; which there are, what each is, and how to be rid of them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sim.cli import Verb
from sim.cli.stored import DEFAULT_STORE, runs_begun
from sim.core.text import counted

if TYPE_CHECKING:
    from sim.cli.kept import KeptRuns
    from sim.results.stored import Found, StoredRun, Unreadable

MOST_SHOWN = 20


@click.group("runs")
def command() -> None:
    """List, show and remove stored runs.

    RUN is a folder of stored runs, or a name below results/runs:
    quickstart-1a2b3c4d, or quickstart for the one started last. It may go on with
    a variant and a seed: quickstart/bounded-ring/seed-1.
    """


@command.command("list", cls=Verb)
@click.argument("place", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def list_(place: str | None, as_json: bool) -> None:
    """List the stored runs below results/runs, or below the folder or scenario PLACE."""
    from sim.cli import listing

    found = _below(place)
    for torn in found.unreadable:
        click.echo(f"warning: {torn}", err=True)
    groups = listing.run_groups(found.runs, DEFAULT_STORE)
    if as_json:
        click.echo(json.dumps(listing.as_json(groups), indent=2))
    elif groups:
        click.echo(listing.as_text(groups))
    else:
        click.echo(f"no stored runs; podsim run FILE stores them in {DEFAULT_STORE}", err=True)


def _below(place: str | None) -> "Found":
    """What a list is of: of several scenarios of one name all, not only the newest."""
    from sim.cli.stored import named_place, scenario_folders
    from sim.results.stored import Found, found_runs

    if place is None:
        return found_runs(DEFAULT_STORE)
    folders = [] if Path(place).is_dir() else scenario_folders(place)
    if not folders:
        return named_place(place)[1]
    parts = [found_runs(folder) for folder in folders]
    return Found(
        tuple(run for part in parts for run in part.runs),
        tuple(torn for part in parts for torn in part.unreadable),
    )


@command.command("show", cls=Verb)
@click.argument("run", shell_complete=runs_begun)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not text.")
def show(run: str, as_json: bool) -> None:
    """Show RUN: the table that podsim run printed, then how the runs were made, and digests."""
    from sim.cli.kept import kept, scenario_place
    from sim.cli.stored import named_runs
    from sim.cli.table import render

    stored = named_runs(run)
    runs = kept(run, stored)
    if as_json:
        click.echo(_document(runs, stored))
        return
    place = scenario_place(stored[0])
    in_place = place != stored[0].path
    click.echo(render(runs, place if in_place else None))
    if not in_place:
        click.echo(f"\nTables: {place}")
    click.echo("\n".join(_making_and_digests(stored)))


def _making_and_digests(stored: "tuple[StoredRun, ...]") -> list[str]:
    from sim.cli.listing import provenance_lines
    from sim.core.text import aligned

    rows = [("variant", "seed", "digest")]
    rows += [(run.variant or "-", str(run.seed), run.digest) for run in stored[:MOST_SHOWN]]
    lines = [*provenance_lines(stored), "", *aligned(rows)]
    if len(stored) > MOST_SHOWN:
        lines.append(f"and {len(stored) - MOST_SHOWN} more runs: --json has all")
    return lines


def _document(runs: "KeptRuns", stored: "tuple[StoredRun, ...]") -> str:
    """What ``podsim run --json`` printed, and what only the disk knows."""
    from sim.cli.table import as_document

    document: dict[str, Any] = json.loads(as_document(runs))
    for entry, run in zip(document["runs"], stored, strict=True):
        entry["path"] = str(run.path)
        entry["variant_hash"] = run.variant_hash
        entry["provenance"] = dict(run.provenance)
        entry["versions"] = {
            program: run.manifest.get(program)
            for program in ("podsim", "python", "numpy", "pyarrow")
        }
    document["description"] = runs.scenario.description
    document["scenario_hash"] = stored[0].scenario_hash
    document["window_s"] = {
        run.variant: {
            "start": run.facts.window_start_s,
            "end": None if run.facts.window_end_s == float("inf") else run.facts.window_end_s,
        }
        for run in runs.runs
    }
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False)


@command.command("rm", cls=Verb)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=runs_begun)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed; remove nothing.")
def rm(runs: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Remove stored runs, each as a whole, and the folders that are empty then.

    Runs that cannot be read any more are removed as well. A folder with files
    that podsim has not written is refused, before anything is removed; so are
    runs that lie elsewhere, behind a link.
    """
    from sim.core.errors import UserError

    whole, torn = _named(runs)
    _refuse_strangers(whole, torn)
    plan = _plan(whole, torn)
    click.echo("\n".join(plan))
    if dry_run:
        return
    if not yes:
        if not _is_terminal():
            raise UserError("nothing was removed: give --yes where nobody can be asked")
        if not _agreed(f"remove {counted(len(whole) + len(torn), 'run')} for good?"):
            click.echo("nothing was removed", err=True)
            return
    _remove([*(run.path for run in whole), *(each.path for each in torn)])


def _agreed(question: str) -> bool:
    """Ask at the terminal; to leave without an answer is to interrupt."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None


def _is_terminal() -> bool:
    """Whether a question would be answered."""
    return sys.stdin.isatty()


def _named(names: tuple[str, ...]) -> "tuple[list[StoredRun], list[Unreadable]]":
    """All runs that are meant, each once.

    Raises ``UserError`` for every name that means none, and every link below one.
    """
    from sim.cli.stored import named_place
    from sim.core.errors import UserError
    from sim.results.removal import link_to

    whole: dict[Path, StoredRun] = {}
    torn: dict[Path, Unreadable] = {}
    faults = []
    for name in names:
        try:
            place, found = named_place(name)
        except UserError as error:
            faults.append(str(error))
            continue
        paths = [*(run.path for run in found.runs), *(each.path for each in found.unreadable)]
        links = dict.fromkeys(link for path in paths if (link := link_to(path, place)))
        faults += [f"{link} is a link to runs; name the folder that it leads to" for link in links]
        whole |= {run.path.resolve(): run for run in found.runs}
        torn |= {each.path.resolve(): each for each in found.unreadable}
    if faults:
        raise UserError("\n".join([*faults, "nothing was removed"]))
    return list(whole.values()), list(torn.values())


def _refuse_strangers(whole: "list[StoredRun]", torn: "list[Unreadable]") -> None:
    from sim.core.errors import UserError
    from sim.results.removal import obstacle

    looked_at = [(run.path, obstacle(run.path, torn=False)) for run in whole]
    looked_at += [(each.path, obstacle(each.path, torn=True)) for each in torn]
    faults = [f"{path} {why}" for path, why in looked_at if why]
    if faults:
        raise UserError("\n".join([*faults[:MOST_SHOWN], "nothing was removed"]))


def _plan(whole: "list[StoredRun]", torn: "list[Unreadable]") -> list[str]:
    """What would go, one line for all runs of a scenario."""
    from sim.cli.listing import run_groups
    from sim.core.text import aligned, size

    rows = [
        (group.name, counted(group.runs, "run"), size(group.size_bytes))
        for group in run_groups(whole, DEFAULT_STORE)
    ]
    rows += [(str(each.path), "cannot be read", "") for each in torn]
    return aligned(rows)


def _remove(paths: list[Path]) -> None:
    from sim.core.errors import UserError
    from sim.results.removal import remove

    gone = 0
    for path in paths:
        try:
            remove(path)
        except FileNotFoundError:
            continue  # another process has just removed it
        except OSError as error:
            raise UserError(
                f"cannot remove {path}: {error.strerror}; {counted(gone, 'run')} removed before it"
            ) from error
        gone += 1
    click.echo(f"removed {counted(gone, 'run')}")
