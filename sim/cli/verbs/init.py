"""``podsim init``: write a scenario to start from, or a package with a policy."""

import re
from pathlib import Path

import click

from sim.errors import UserError


@click.command("init")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="quickstart.yaml")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option(
    "--policy",
    metavar="NAME",
    help="Write the folder NAME instead: a package with a policy of that kind, and its tests.",
)
@click.pass_context
def command(ctx: click.Context, file: Path, force: bool, policy: str | None) -> None:
    """Write a commented scenario to FILE (default quickstart.yaml) and say how to run it."""
    if policy is not None:
        given = ctx.get_parameter_source("file") is not click.core.ParameterSource.DEFAULT
        if given or force:
            raise click.UsageError("--policy goes with neither FILE nor --force")
        _write_policy(policy)
        return
    try:
        with file.open("wb" if force else "xb") as target:
            target.write(_template("quickstart.yaml"))
    except FileExistsError:
        raise UserError(f"{file} exists; --force overwrites it") from None
    click.echo(f"Wrote {file}. Run it with: podsim run {file}")


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

    from sim.registry import load

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 60:
        said = "must be small letters and digits in words joined by hyphens, such as prefix-score"
        raise UserError(f"--policy {name}: {said}")
    if name in load().policies:
        raise UserError(f"--policy {name}: there is one already, see podsim list policies")
    if iskeyword(module) or find_spec(module) is not None:
        raise UserError(f"--policy {name}: Python has {module} already; choose another name")


def _template(name: str) -> bytes:
    from importlib.resources import files

    return files("sim").joinpath("data", *name.split("/")).read_bytes()
