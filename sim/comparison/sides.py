"""What is compared: the figures of some runs of one scenario, wherever they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.results.metrics import flatten
from sim.results.stored import StoredRun


@dataclass(frozen=True)
class Figures:
    """One run as a comparison sees it.

    ``variant_hash`` says what was simulated, ``scenario_hash`` with which other
    variants, ``digest`` what came out, and ``summary`` holds every figure with
    its keys joined by dots; null is ``None``. ``settings`` is the resolved
    scenario where it is known: two runs that are not comparable can say why.
    """

    variant: str
    seed: int
    variant_hash: str
    digest: str
    summary: Mapping[str, float | None]
    scenario_hash: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


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

    def of(self, variant: str) -> dict[int, Figures]:
        """The runs of a variant by seed."""
        return {run.seed: run for run in self.runs if run.variant == variant}


def stored_side(label: str, runs: Sequence[StoredRun]) -> Side:
    """Stored runs of one scenario as a side; raises ``UserError`` for one that cannot be read."""
    figures = tuple(
        Figures(
            run.variant,
            run.seed,
            run.variant_hash,
            run.digest,
            dict(flatten(run.summary())),
            run.scenario_hash,
            run.manifest.get("scenario", {}),
        )
        for run in runs
    )
    return Side(label, runs[0].scenario, figures)
