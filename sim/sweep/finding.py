"""The value of one parameter at which a target begins to be met, with intervals over seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.metadata import version
from itertools import count, islice
from math import ceil, inf
from typing import Final, TypeAlias

from sim.comparison.pairing import named_seeds
from sim.errors import InvariantError, ScenarioError, UserError, WorkerError
from sim.scenario.load import ScenarioSet
from sim.stats import Interval
from sim.sweep import axes, search
from sim.sweep.amounts import Amount, alike, in_base, parse
from sim.sweep.answer import Answer, Status, Trial
from sim.sweep.executor import Executor
from sim.sweep.points import Loader, Source, of_one_variant
from sim.sweep.runs import Failed, Outcome, Task, measure_all
from sim.sweep.sweep import Opened
from sim.sweep.target import Gone, Target, Verdict, check

Note: TypeAlias = Callable[[str], None]

DEFAULT_MAX_SEEDS: Final = 20
DEFAULT_PARTS: Final = 100
MAX_VALUES: Final = 10**9


@dataclass(frozen=True)
class Ladder:
    """The values of a search: from ``low`` in steps of ``step`` to ``high``, which is the last."""

    path: str
    low: Amount
    high: Amount
    step: Amount

    @property
    def last(self) -> int:
        """The index of ``high``."""
        return ceil((self.high.number - self.low.number) / self.step.number)

    def value(self, index: int) -> str:
        """As ``--set`` takes it."""
        if index == self.last:
            return str(self.high)
        return str(Amount(self.low.number + index * self.step.number, self.low.unit))


def ladder(vary: str, tolerance: str | None) -> Ladder:
    """The values of ``path=1..32``; raises ``ScenarioError`` and ``UserError``.

    Without a tolerance whole numbers go by one, others by a round number of
    at most a hundredth of the way.
    """
    path, (low, high) = axes.ends("--vary", vary)
    whole = low.is_whole and high.is_whole
    if whole:
        low, high = in_base(low), in_base(high)
    if tolerance is None:
        way = (high.number - low.number) / DEFAULT_PARTS
        return Ladder(path, low, high, Amount(Decimal(1) if whole else _round(way), low.unit))
    try:
        step = parse(tolerance)
        low, high, step = alike([low, high, in_base(step) if whole else step])
    except ValueError as error:
        raise UserError(f"--tolerance {tolerance}: {error}") from None
    if step.number <= 0 or (whole and not step.is_whole):
        kind = "a whole number from 1" if whole else "above 0"
        raise UserError(f"--tolerance {tolerance}: must be {kind} for {low}..{high}")
    made = Ladder(path, low, high, step)
    if made.last > MAX_VALUES:
        raise UserError(f"--tolerance {tolerance}: too small for {low}..{high}")
    return made


def find(
    source: Source,
    values: Ladder,
    target: Target,
    opened: Opened,
    *,
    variants: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    max_seeds: int = DEFAULT_MAX_SEEDS,
    settings: Sequence[str] = (),
    retries: int = 1,
    note: Note = lambda _: None,
) -> tuple[Answer, ...]:
    """One answer for each variant; ``note`` hears what was tried as it is done.

    The seeds are those of the scenario when missing, at least two; where an
    interval straddles the bound, twice as many are tried, up to ``max_seeds``.
    A variant whose search comes to a value with nothing to be measured, or that
    is no scenario, says so in its answer, and the next one is searched. Raises
    ``ScenarioError`` when an end of the range is no scenario, and ``UserError``
    for a figure that no run can have.
    """
    loader = Loader(source)
    loaded = _Scenarios(loader, values, settings, variants)
    ends = [loaded.at(0), loaded.at(values.last)]
    if faults := of_one_variant("--vary", values.path, ends):
        raise ScenarioError(faults)
    for scenario in (variant for end in ends for variant in end.variants):
        check(target, scenario)
    for warning in dict.fromkeys(warning for end in ends for warning in end.warnings):
        note(f"warning: {warning}")
    given = ends[0].seeds if seeds is None else tuple(seeds)
    start = max(2, len(given))
    every = _more(given, max(start, max_seeds))
    answers = []
    tasks = [
        loaded.task(index, variant.variant, seed)
        for variant in ends[0].variants
        for index in (0, values.last)
        for seed in every[:start]
    ]
    with opened(tasks) as executor:
        for variant in ends[0].variants:
            trials = _Trials(loaded, variant.variant, target, every, start, executor, retries, note)
            answers.append(trials.answer())
    return tuple(answers)


@dataclass
class _Scenarios:
    """The scenario at each value, loaded when it is asked for."""

    loader: Loader
    values: Ladder
    settings: Sequence[str]
    variants: Sequence[str]
    known: dict[int, ScenarioSet] = field(default_factory=dict)

    def at(self, index: int) -> ScenarioSet:
        if index not in self.known:
            setting = f"{self.values.path}={self.values.value(index)}"
            self.known[index] = self.loader.load((*self.settings, setting), self.variants)
        return self.known[index]

    def task(self, index: int, variant: str, seed: int) -> Task:
        return Task(self.at(index).variant([variant]), seed, version("podsim"))


class _UnmeasuredError(Exception):
    """The search came to a value at which nothing can be measured."""


@dataclass
class _Trials:
    """The search for one variant."""

    scenarios: _Scenarios
    variant: str
    target: Target
    seeds: Sequence[int]
    start: int
    executor: Executor
    retries: int
    note: Note
    figures: dict[tuple[int, int], float | Gone] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)

    def answer(self) -> Answer:
        values = self.scenarios.values
        self._measure((0, values.last), self.start)
        reason = None
        try:
            found = search.edge(values.last, self._judge)
        except _UnmeasuredError as error:
            found, reason = search.Edge(None, None, None), str(error)
            for end in sorted({0, values.last} - self.trials.keys()):  # it has its runs
                self._keep(end, self._trial(end, self.start))
        tried = {index: trial.interval for index, trial in sorted(self.trials.items())}
        return Answer(
            variant=self.variant,
            path=values.path,
            target=self.target,
            status="unmeasured" if reason else self._status(found),
            larger_helps=found.upward,
            value=None if found.meets is None else values.value(found.meets),
            misses=None if found.misses is None else values.value(found.misses),
            trials=tuple(self.trials[index] for index in tried),
            contradictions=tuple(
                (values.value(one), values.value(other))
                for one, other in ([] if reason else search.contradictions(tried))
            ),
            reason=reason,
        )

    def _status(self, found: search.Edge) -> Status:
        if found.is_sharp:
            return "found"
        if found.upward is None and found.meets is not None:
            return "always"
        if found.upward is None and found.misses is not None:
            return "never"
        return "undecided"

    def _judge(self, index: int) -> Verdict:
        """Try a value under more and more seeds, until its interval says something.

        Raises ``_UnmeasuredError`` when there is nothing to be said.
        """
        number = self.start
        while True:
            try:
                self._measure((index,), number)
            except ScenarioError as error:  # a value between the ends, such as 3 GPUs for 8 heads
                value, why = self.scenarios.values.value(index), error.faults[0].message
                raise _UnmeasuredError(f"{value} cannot be run: {why}") from None
            trial = self._trial(index, number)
            if trial.verdict != "undecided" or number == len(self.seeds):
                break
            number = min(2 * number, len(self.seeds))
        self._keep(index, trial)
        if trial.verdict == "unmeasured":
            raise _UnmeasuredError(f"at {trial.value} {trial.reason}")
        return trial.verdict

    def _trial(self, index: int, number: int) -> Trial:
        """What the runs of the first ``number`` seeds say, which have been made."""
        value = self.scenarios.values.value(index)
        found = {seed: self.figures[index, seed] for seed in self.seeds[:number]}
        gone = {seed: figure for seed, figure in found.items() if isinstance(figure, Gone)}
        if gone:
            (first, *_) = gone.values()
            reason = first.under(named_seeds(gone))
            return Trial(value, Interval(None, None, None, number), "unmeasured", reason)
        known = [figure for figure in found.values() if not isinstance(figure, Gone)]
        interval = self.target.interval(known)
        return Trial(value, interval, self.target.verdict(interval))

    def _keep(self, index: int, trial: Trial) -> None:
        self.trials[index] = trial
        self.note(self._told(trial))

    def _measure(self, indices: Sequence[int], number: int) -> None:
        """Make the runs of the first ``number`` seeds that have not been made yet."""
        missing = [
            (index, seed)
            for index in indices
            for seed in self.seeds[:number]
            if (index, seed) not in self.figures
        ]
        tasks = [self.scenarios.task(index, self.variant, seed) for index, seed in missing]

        def ended(at: int, outcome: Outcome) -> None:
            index, seed = missing[at]
            if isinstance(outcome, Failed):
                who = " ".join(filter(None, (self.variant, f"seed {seed}")))
                where = f"{self.scenarios.values.path}={self.scenarios.values.value(index)}, {who}"
                kind = InvariantError if outcome.is_bug else WorkerError
                raise kind(f"{where}: {outcome.reason} (tried {outcome.tries} times)")
            self.figures[index, seed] = self.target.value(outcome.figures)

        measure_all(tasks, self.executor, self.retries, ended)

    def _told(self, trial: Trial) -> str:
        who = f"{self.variant}: " if self.variant else ""
        where = f"{who}{self.scenarios.values.path}={trial.value}"
        if trial.reason is not None:
            return f"{where}: {trial.reason}"
        mean = trial.interval.mean
        figure = "censored" if mean in (inf, -inf) else f"{mean:g}"
        return f"{where}: {self.target.key} {figure} over {trial.interval.n} seeds, {trial.verdict}"


def _more(seeds: Sequence[int], number: int) -> tuple[int, ...]:
    """The seeds, and after them so many of the next ones that they are ``number``."""
    others = (seed for seed in count(1) if seed not in seeds)
    return (*seeds, *islice(others, max(0, number - len(seeds))))


def _round(number: Decimal) -> Decimal:
    """The largest of 1, 2, 5, 10, 20, ... (or 0.5, 0.2, ...) that is at most ``number``."""
    power = Decimal(1).scaleb(number.adjusted())
    return max(power * digit for digit in (1, 2, 5) if power * digit <= number)
