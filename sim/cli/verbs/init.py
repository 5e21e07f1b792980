"""``podsim init``: write a scenario to start from."""

from pathlib import Path

import click

from sim.cli import Verb
from sim.cli.outputs import named
from sim.errors import UserError


@click.command("init", cls=Verb)
@click.argument(
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=named(".yaml", ".yml"),
    default="quickstart",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.option("--list", "as_list", is_flag=True, help="Say which scenarios there are.")
def command(file: Path, force: bool, as_list: bool) -> None:
    """Write a commented scenario and say how to run it.

    FILE is the name of a shipped scenario (--list), which becomes NAME.yaml here,
    or a file that ends in .yaml, which becomes the quickstart.
    """
    from importlib.resources import files

    from sim.scenario.suggest import suggestion

    shipped = files("sim").joinpath("data", "scenarios")
    names = sorted(each.name.removesuffix(".yaml") for each in shipped.iterdir())
    if as_list:
        click.echo("\n".join(names))
        return
    name = "quickstart" if file.suffix else str(file)
    if name not in names:
        raise UserError(f"no scenario {name!r} is shipped{suggestion(name, names)}; a file of "
                        "your own ends in .yaml")  # fmt: skip
    target = file if file.suffix else file.with_name(f"{name}.yaml")
    template = shipped.joinpath(f"{name}.yaml").read_bytes()
    try:
        with target.open("wb" if force else "xb") as written:
            written.write(template)
    except FileExistsError:
        raise UserError(f"{target} exists; --force overwrites it") from None
    click.echo(f"Wrote {target}. Run it with: podsim run {target}")
