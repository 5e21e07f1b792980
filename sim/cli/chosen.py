"""Which runs of a scenario a verb is to make: options that several have, and what they mean."""

from pathlib import Path

import click

MAX_SEEDS = 10_000


def variants_of_file(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """For the completion of a shell: variants of the scenario file that has been typed."""
    from sim.core.document import at, entries, parse
    from sim.core.errors import ScenarioError
    from sim.core.textfile import read_text

    # As long as its last option lacks a value, click does not tell arguments apart.
    typed = context.params.get("file") or next(iter(context.args), None)
    try:
        root = parse(read_text(Path(typed)), "") if typed else None
    except ScenarioError:
        return []
    return [name for name in entries(at(root, "variants")) if name.startswith(begun)]


with_variants = click.option(
    *("--variant", "variants"),
    multiple=True,
    metavar="NAME",
    shell_complete=variants_of_file,
    help="Run this variant (repeatable).",
)
with_settings = click.option(
    *("--set", "settings"),
    multiple=True,
    metavar="PATH=VALUE",
    help="Set a value of the file, for instance engines.x.maxNumSeqs=256 (repeatable).",
)


def checked_seed(_: click.Context, option: click.Parameter, seed: int | None) -> int | None:
    """The value of an option --seed, if there is one; a seed has 63 bits."""
    from sim.scenario.schema import MAX_SEED

    if seed is not None and seed > MAX_SEED:
        raise click.BadParameter(f"{seed} is not in the range up to 2^63 - 1", param=option)
    return seed


with_seed = click.option(
    "--seed",
    type=click.IntRange(min=0),
    callback=checked_seed,
    metavar="N",
    help="Run one seed, not the file's.",
)


def chosen_seeds(
    seed: int | None, seeds: int | None, settings: tuple[str, ...]
) -> tuple[int, ...] | None:
    """The seeds that --seed and --seeds ask for; None leaves them to the file.

    Raises ``click.UsageError`` when both are given, or one and ``--set seeds=...``.
    """
    if (seed, seeds) != (None, None) and any(each.startswith("seeds=") for each in settings):
        raise click.UsageError("--set seeds=... and --seed or --seeds: give only one")
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed runs one seed, --seeds N the seeds 1 to N: give only one")
    if seed is not None:
        return (seed,)
    return None if seeds is None else tuple(range(1, seeds + 1))
