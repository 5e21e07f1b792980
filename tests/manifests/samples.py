"""Manifests of these tests, and what is made of them."""

from pathlib import Path
from typing import Any

from sim.manifests.engines import Given
from sim.manifests.objects import Manifest
from sim.manifests.translation import Imported, translate

DATA = Path(__file__).parent / "data"
EXPECTED = DATA / "expected"

SAMPLES = {
    "load-aware": ("load-aware.yaml",),
    "pool": ("pool-router.yaml", "pool-services.yaml"),
    "fail-closed": ("fail-closed.yaml",),
    "round-robin": ("round-robin.yaml",),
    "ring": ("ring.yaml",),
    "unknown": ("unknown.yaml",),
}
"""Files of each import that has an expected scenario."""


def manifest(name: str) -> Manifest:
    return Manifest(name, (DATA / name).read_text("utf-8"))


def imported(sample: str) -> Imported:
    return translate([manifest(name) for name in SAMPLES[sample]])


def translated(text: str, workload: str | None = None, **given: Any) -> Imported:
    """Of one file ``m.yaml``, with a workload file ``w.yaml``."""
    traffic = None if workload is None else Manifest("w.yaml", workload)
    return translate([Manifest("m.yaml", text)], Given(**given), traffic)
