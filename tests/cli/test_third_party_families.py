"""Packages that publish policies of their own, some of them broken."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Podsim

ENTRY_POINTS = """\
[podsim.policies]
fine = palette:Fine
gone = palette:Gone
plain = palette:Plain
torn = torn:Policy
"""
PALETTE = """\
from sim.router.placement.load import LeastLoaded
from typing import Literal
from sim.core.registry import family

class FineSpec(LeastLoaded.spec_type):
    kind: Literal["fine"]

@family(FineSpec)
class Fine(LeastLoaded):
    pass

class Plain:
    pass
"""


@pytest.fixture
def run(
    podsim: Podsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[int, str]]:
    """Run the tiny scenario with a policy of the package ``paint``; exit code and stderr."""
    site = tmp_path / "site"
    (site / "paint-1.0.dist-info").mkdir(parents=True)
    (site / "paint-1.0.dist-info" / "METADATA").write_text("Name: paint\nVersion: 1.0\n")
    (site / "paint-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "palette.py").write_text(PALETTE)
    (site / "torn.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(site))

    def run(policy: str) -> tuple[int, str]:
        setting = f"backends.pods.policy={{kind: {policy}}}"
        result = podsim(
            *("run", "tiny.yaml", "--no-store", "--seed", 1, "--jobs", 1),
            *("--variant", "least-loaded", "--set", setting),
        )
        return result.exit_code, result.stderr

    return run


@pytest.mark.parametrize("policy", ["fine", "least-loaded"])
def test_a_broken_family_stops_nobody_who_does_not_use_it(run, policy):
    """One broken package in the environment would make every run fail."""
    assert run(policy) == (0, "")


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("torn", "cannot import torn:Policy: ModuleNotFoundError: No module named 'a_library_that"),
        ("gone", "cannot import palette:Gone: AttributeError: module 'palette' has no attribute"),
        ("plain", "palette:Plain is not decorated with @sim.core.registry.family"),
    ],
)
def test_a_broken_family_that_is_used_is_named_with_its_package(run, policy, reason):
    """Somebody else's mistake would be reported to us as a bug in podsim."""
    code, said = run(policy)
    assert code == 2
    assert said.startswith(f"error: paint: entry point '{policy}' in podsim.policies: {reason}")
