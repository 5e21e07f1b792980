"""``podsim bench``: what a run costs, measured from outside on a fresh process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

import click

from sim.cli import Verb, options

PREFERRED: Final = ("session-table", "least-loaded")
RSS_UNIT_BYTES: Final = 1 if sys.platform == "darwin" else 1024
PODSIM: Final = (sys.executable, "-m", "sim.cli")


@click.command("bench", cls=Verb)
@click.argument("file", type=options.PATH)
@click.option(
    "--variant",
    metavar="NAME",
    shell_complete=options.variants_of_file,
    help="Variant to run; session-table, least-loaded or the first.",
)
@options.one_seed("Seed; 1 if missing.", default=1)
@options.as_json()
def command(file: Path, variant: str | None, seed: int, as_json: bool) -> None:
    """Measure one run of FILE in a fresh process: one variant, one seed, one job, tables stored.

    CPU time is counted from the start of the interpreter to the last byte
    written, user and system; requests are those of the whole run.
    """
    if variant is None:
        variant = _default_variant(file)
    with TemporaryDirectory(prefix="podsim-bench-") as folder:
        arguments = ["run", str(file), "--seed", str(seed), "--jobs", "1", "--out", folder]
        if variant:
            arguments += ["--variant", variant]
        cost = _measured(arguments, Path(folder))
        figures = {"variant": variant, "seed": seed, **_rates(cost, Path(folder))}
    click.echo(json.dumps(figures, indent=2) if as_json else _as_text(figures))


def _default_variant(file: Path) -> str:
    """The variant to run when none is named; empty for a scenario without variants.

    A process of its own reads the file: on Linux the peak memory of a child
    is at least that of its parent, so this process must stay small.
    """
    child = subprocess.run(
        [*PODSIM, "validate", str(file), "--json"], capture_output=True, check=False
    )
    if child.returncode:
        _fail(child.returncode, child.stderr)
    names = [found["variant"] for found in json.loads(child.stdout)["variants"]]
    chosen: str = next((name for name in PREFERRED if name in names), names[0])
    return chosen


def _measured(arguments: list[str], folder: Path) -> dict[str, float]:
    """Run podsim, wait for it and return what it has used; its failure becomes ours.

    Its output goes to files in ``folder``: after Ctrl-C, which reaches both
    processes, only one of them prints that it was interrupted.
    """
    import time

    from sim.cli.progress import busy

    began_s = time.perf_counter()
    stdout, stderr = folder / "stdout", folder / "stderr"
    with stdout.open("wb") as output, stderr.open("wb") as errors:
        child = subprocess.Popen([*PODSIM, *arguments], stdout=output, stderr=errors)
        try:
            with busy("measuring a run in a fresh process"):
                _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        _fail(child.returncode, stderr.read_bytes())
    return {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": time.perf_counter() - began_s,
        "peak_memory_bytes": usage.ru_maxrss * RSS_UNIT_BYTES,
    }


def _fail(code: int, errors: bytes) -> NoReturn:
    """End as the child did, with its message."""
    click.echo(errors, nl=False, err=True)
    raise click.exceptions.Exit(abs(code))


def _rates(cost: dict[str, float], folder: Path) -> dict[str, Any]:
    """Rates per second of CPU time, from the cost and the result that was stored."""
    from sim.results.store import read

    (place,) = folder.glob("*/*/seed-*")
    result = read(place)
    counts = {
        "requests": len(result.tables.requests),
        "events": result.facts.events,
        "simulated_s": result.facts.end_s,
    }
    rates = {f"{name}_per_cpu_s": number / cost["cpu_s"] for name, number in counts.items()}
    memory = {"peak_memory_bytes": cost.pop("peak_memory_bytes")}
    return counts | cost | rates | memory


def _as_text(figures: dict[str, Any]) -> str:
    variant = f"variant {figures['variant']}, " if figures["variant"] else ""
    lines = [
        f"{variant}seed {figures['seed']}: {figures['requests']:,} requests, "
        f"{figures['events']:,} events, {figures['simulated_s']:,.0f} s simulated"
    ]
    for label, value in (
        ("CPU time, s", f"{figures['cpu_s']:,.2f}"),
        ("wall-clock time, s", f"{figures['wall_s']:,.2f}"),
        ("requests per CPU-second", f"{figures['requests_per_cpu_s']:,.0f}"),
        ("events per CPU-second", f"{figures['events_per_cpu_s']:,.0f}"),
        ("simulated seconds per CPU-second", f"{figures['simulated_s_per_cpu_s']:,.0f}"),
        ("peak memory, MB", f"{figures['peak_memory_bytes'] / 1e6:,.0f}"),
    ):
        lines.append(f"{label:<32} {value:>12}")
    return "\n".join(lines)
