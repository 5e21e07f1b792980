"""Many points of a scenario, on this machine or a cluster; and the one at which a target is met.

``run`` makes a sweep, ``read`` its table as a DataFrame, ``find`` bisects one
parameter for a target. They are resolved on first use, as the names of ``sim``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.sweep.search import find
    from sim.sweep.sweep import run
    from sim.sweep.table import read

__all__ = ["find", "read", "run"]


def __getattr__(name: str) -> Any:
    homes = {"find": "sim.sweep.search", "read": "sim.sweep.table", "run": "sim.sweep.sweep"}
    if name not in homes:
        raise AttributeError(f"module 'sim.sweep' has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)
