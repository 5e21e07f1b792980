"""``podsim init``: write a scenario to start from, or a package with a policy."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sim.cli import Verb, options
from sim.core.errors import UserError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@click.command("init", cls=Verb)
@click.argument(
    "file",
    type=options.FILE,
    callback=options.ends_in(".yaml", ".yml"),
    default="quickstart",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.option("--list", "as_list", is_flag=True, help="Say which scenarios there are.")
@click.option(
    "--policy",
    metavar="NAME",
    help="Write the folder NAME instead: a package with a policy of that kind, and its tests.",
)
@click.pass_context
def command(ctx: click.Context, file: Path, force: bool, as_list: bool, policy: str | None) -> None:
    """Write a commented scenario and say how to run it.

    FILE is the name of a shipped scenario (--list), which becomes NAME.yaml here,
    or a file that ends in .yaml, which becomes the quickstart.
    """
    names = sorted(
        each.name.removesuffix(".yaml") for each in _data().joinpath("scenarios").iterdir()
    )
    if as_list:
        click.echo("\n".join(names))
    elif policy is None:
        _write_scenario(file, names, force)
    else:
        given = ctx.get_parameter_source("file") is not click.core.ParameterSource.DEFAULT
        if given or force:
            raise click.UsageError("--policy goes with neither FILE nor --force")
        _write_policy(policy)


def _write_scenario(file: Path, names: list[str], force: bool) -> None:
    from sim.core.suggest import suggestion

    name = "quickstart" if file.suffix else str(file)
    if name not in names:
        hint = suggestion(name, names)
        raise UserError(f"no scenario {name!r} is shipped{hint}; a file of your own ends in .yaml")
    target = file if file.suffix else file.with_name(f"{name}.yaml")
    try:
        with target.open("wb" if force else "xb") as written:
            written.write(_template(f"scenarios/{name}.yaml"))
    except FileExistsError:
        raise UserError(f"{target} exists; --force overwrites it") from None
    click.echo(f"Wrote {target}. Run it with: podsim run {target}")


def _write_policy(name: str) -> None:
    module = name.replace("-", "_")
    _check_name(name, module)
    folder = Path(name)
    called = module.title().replace("_", "").removesuffix("Policy") + "Policy"
    names = {"MyPolicy": called, "my_policy": module, "my-policy": name}
    places = {
        "pyproject.toml": folder / "pyproject.toml",
        "README.md": folder / "README.md",
        "my_policy.py": folder / "src" / f"{module}.py",
        "test_my_policy.py": folder / "tests" / f"test_{module}.py",
    }
    try:
        folder.mkdir()
    except FileExistsError:
        raise UserError(f"{folder} exists; choose another name, or move it away") from None
    for template, place in places.items():
        text = _template(f"policy/{template}").decode("utf-8")
        for word, replacement in names.items():
            text = text.replace(word, replacement)
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {folder}. {folder / 'README.md'} says how to install, run and test it.")


def _check_name(name: str, module: str) -> None:
    """Refuse what cannot be a kind and a module, or is one already."""
    from importlib.util import find_spec
    from keyword import iskeyword

    from sim.core.registry import load

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 60:
        rule = "must be small letters and digits in words joined by hyphens, such as prefix-score"
        raise UserError(f"--policy {name}: {rule}")
    if name in load().policies:
        raise UserError(f"--policy {name}: there is one already, see podsim list policies")
    if iskeyword(module) or find_spec(module) is not None:
        raise UserError(f"--policy {name}: Python has {module} already; choose another name")


def _template(name: str) -> bytes:
    return _data().joinpath(*name.split("/")).read_bytes()


def _data() -> "Traversable":
    from importlib.resources import files

    return files("sim").joinpath("data")
