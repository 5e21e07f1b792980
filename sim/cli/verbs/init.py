"""``podsim init``: write a scenario to start from."""

from pathlib import Path

import click

from sim.cli import Verb
from sim.errors import UserError


@click.command("init", cls=Verb)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="quickstart.yaml")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def command(file: Path, force: bool) -> None:
    """Write a commented scenario to FILE (default quickstart.yaml) and say how to run it."""
    from importlib.resources import files

    template = files("sim").joinpath("data", "quickstart.yaml").read_bytes()
    try:
        with file.open("wb" if force else "xb") as target:
            target.write(template)
    except FileExistsError:
        raise UserError(f"{file} exists; --force overwrites it") from None
    click.echo(f"Wrote {file}. Run it with: podsim run {file}")
