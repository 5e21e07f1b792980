"""The two sides of a comparison, and its result: a verdict for each metric, and one over all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from sim.core.errors import UserError
from sim.results.metrics import flatten
from sim.results.result import RunResult
from sim.results.stored import StoredRun
from sim.results.tables import Tables

if TYPE_CHECKING:
    import pandas as pd

    from sim.execution.runner import Runs


Verdict: TypeAlias = Literal[
    "identical",
    "same",
    "changed",
    "better",
    "inconclusive",
    "incomparable",
    "different",
    "worse",
]
"""``changed`` is beyond the margin in a figure of which neither direction is better; ``different``
is what is not identical where nothing else was asked.
"""

SEVERITY: Final[tuple[Verdict, ...]] = get_args(Verdict)
"""From what nobody needs to look at to what turns a check red."""


@dataclass(frozen=True)
class MetricVerdict:
    """One metric of one variant, over the seeds that both sides have.

    ``change`` is the mean difference, new - base, as a share of the base's mean
    when ``relative``, else in the metric's unit; [``low``, ``high``] is its
    t interval, at the level that Holm's procedure leaves this metric, ``level``
    being the probability that it misses. ``margin`` is in the same measure as
    ``change``. ``base`` and ``new`` are means over the ``n`` seeds under which
    both sides know the figure, or over those under which each does when there
    are none; ``p_value`` is before Holm. ``seeds_needed`` is
    how many seeds would decide what is inconclusive, ``reason`` why it is what
    it is, in words.
    """

    variant: str
    key: str
    unit: str
    primary: bool
    verdict: Verdict
    n: int
    base: float | None = None
    new: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    relative: bool = True
    margin: float = 0.0
    p_value: float | None = None
    seeds_needed: int | None = None
    reason: str = ""
    level: float | None = None


@dataclass(frozen=True)
class Unpaired:
    """A variant of the base that could not be compared, and why."""

    variant: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Everything that was judged, in the order of variants and of ``sim.results.metrics``.

    ``reason`` says why nothing could be judged, when that is so. ``pairs`` counts
    the pairs of runs, ``identical`` those of them that are the same to the bit.
    ``notes`` are remarks that decide nothing.
    """

    base: str
    new: str
    scenario: str
    judged: tuple[MetricVerdict, ...]
    reason: str = ""
    unpaired: tuple[Unpaired, ...] = ()
    pairs: int = 0
    identical: int = 0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: a notebook shows it."""
        return f"Comparison({self.scenario}, {self.base} → {self.new}: {self.verdict})"

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of a primary metric; what could not be compared counts too."""
        found: list[Verdict] = [each.verdict for each in self.judged if each.primary]
        if self.reason or self.unpaired or not found:
            found.append("incomparable")
        return max(found, key=SEVERITY.index)

    @property
    def table(self) -> "pd.DataFrame":
        """A row for each metric that was judged; the columns are those of ``MetricVerdict``."""
        import pandas as pd

        return pd.DataFrame([asdict(each) for each in self.judged])

    def named(self, verdict: Verdict, *, primary: bool = True) -> tuple[MetricVerdict, ...]:
        """The metrics with this verdict, either the primary ones or the others."""
        return tuple(
            each for each in self.judged if each.verdict == verdict and each.primary == primary
        )


@dataclass(frozen=True)
class Figures:
    """One run as a comparison sees it.

    ``variant_hash`` says what was simulated, ``scenario_hash`` with which other
    variants, ``digest`` what came out, and ``summary`` holds every figure with
    its keys joined by dots; null is ``None``. ``settings`` is the resolved
    scenario where it is known: two runs that are not comparable can say why.
    ``tables`` reads its tables, where they are kept.
    """

    variant: str
    seed: int
    variant_hash: str
    digest: str
    summary: Mapping[str, float | None]
    scenario_hash: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    tables: Callable[[], Tables] | None = field(default=None, compare=False, repr=False)

    def is_identical(self, other: "Figures") -> bool:
        """Whether both have the same tables and the same figures; NaN is never the same."""
        keys = self.summary.keys()
        return (
            self.digest == other.digest
            and keys == other.summary.keys()
            # One by one: a mapping takes an object for equal to itself, NaN included.
            and all(self.summary[key] == other.summary[key] for key in keys)
        )


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


def stored_sides(label: str, runs: Iterable[StoredRun]) -> tuple[Side, ...]:
    """Stored runs as a side for each scenario, in the order given.

    Raises ``UserError`` for runs that cannot be read, and for several results of
    one run: it would be unclear which of them is meant.
    """
    scenarios: dict[str, list[StoredRun]] = {}
    for run in runs:
        scenarios.setdefault(run.scenario, []).append(run)
    for scenario, found in scenarios.items():
        if len({(run.variant, run.seed) for run in found}) < len(found):
            places = dict.fromkeys(str(run.path.parent.parent) for run in found)
            raise UserError(
                f"{label}: several results of {scenario}, in {', '.join(places)}; name one of them"
            )
    return tuple(stored_side(label, found) for found in scenarios.values())


def one_side(label: str, runs: Iterable[StoredRun]) -> Side:
    """The same for runs of one scenario; raises ``UserError`` for none and for several."""
    sides = stored_sides(label, runs)
    if len(sides) != 1:
        names = ", ".join(side.scenario for side in sides) or "none"
        raise UserError(f"{label}: must hold runs of one scenario; found {names}")
    return sides[0]


def stored_side(label: str, runs: Sequence[StoredRun]) -> Side:
    """Stored runs of one scenario as a side; raises ``UserError`` for one that cannot be read."""
    figures = tuple(
        Figures(
            variant=run.variant,
            seed=run.seed,
            variant_hash=run.variant_hash,
            digest=run.digest,
            summary=dict(flatten(run.summary())),
            scenario_hash=run.scenario_hash,
            settings=run.manifest.get("scenario", {}),
            tables=partial(_stored_tables, run),
        )
        for run in runs
    )
    return Side(label, runs[0].scenario, figures)


def fresh_side(label: str, runs: "Runs") -> Side:
    """Runs that have just been made as a side."""
    scenarios = runs.scenario
    at = {variant.variant: index for index, variant in enumerate(scenarios.variants)}
    figures = tuple(
        Figures(
            variant=run.variant,
            seed=run.seed,
            variant_hash=scenarios.variant_hash(at[run.variant]),
            digest=run.digest,
            summary=dict(flatten(run.summary)),
            scenario_hash=scenarios.scenario_hash,
            settings=scenarios.variants[at[run.variant]].model_dump(mode="json", by_alias=True),
            tables=partial(_own_tables, run),
        )
        for run in runs.runs
    )
    return Side(label, scenarios.name, figures)


def result_side(label: str, scenario: str, runs: Iterable[RunResult]) -> Side:
    """The figures of results as a side that knows nothing of its settings and tables."""
    return Side(
        label,
        scenario,
        tuple(
            Figures(run.variant, run.seed, "", run.digest, dict(flatten(run.summary)))
            for run in runs
        ),
    )


def _stored_tables(run: StoredRun) -> Tables:
    return run.read().tables


def _own_tables(run: RunResult) -> Tables:
    return run.tables
