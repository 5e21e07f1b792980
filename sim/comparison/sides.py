"""What is compared: the figures of some runs of one scenario, wherever they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.results.metrics import flatten
from sim.results.stored import StoredRun


@dataclass(frozen=True)
class Figures:
    """One run as a comparison sees it.

    ``variant_hash`` says what was simulated, ``digest`` what came out, and
    ``summary`` holds every figure with its keys joined by dots; null is ``None``.
    """

    variant: str
    seed: int
    variant_hash: str
    digest: str
    summary: Mapping[str, float | None]


@dataclass(frozen=True)
class Side:
    """The runs of one scenario that stand on one side; ``label`` is what they are called."""

    label: str
    scenario: str
    runs: tuple[Figures, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """Their variants, in order."""
        return tuple(dict.fromkeys(run.variant for run in self.runs))


def stored_side(label: str, runs: Sequence[StoredRun]) -> Side:
    """Stored runs of one scenario as a side; raises ``UserError`` for one that cannot be read."""
    figures = tuple(
        Figures(run.variant, run.seed, run.variant_hash, run.digest, dict(flatten(run.summary())))
        for run in runs
    )
    return Side(label, runs[0].scenario, figures)
