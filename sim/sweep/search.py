"""The value of one parameter at which targets begin to be met, with intervals over seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from itertools import count, islice, product
from math import ceil, isinf
from pathlib import Path
from typing import Final

from sim.comparison.pairing import named_seeds
from sim.core.errors import InvariantError, ScenarioError, UserError, WorkerError
from sim.core.stats import Interval
from sim.core.text import share
from sim.results.survivors import REFUSED, WORTH_SAYING, Figures, left_out
from sim.scenario.load import ScenarioSet
from sim.sweep.bisection import Edge, contradictions, edge
from sim.sweep.design import Design, varied
from sim.sweep.executors import ExecutorFactory, factory_for_scripts
from sim.sweep.quantities import Quantity, alike, in_base, parse
from sim.sweep.runs import DEFAULT_STORE, Failed, Outcome, RunStore, Task, measure_all
from sim.sweep.search_result import Answer, Judged, Number, Status, Trial
from sim.sweep.sweep import Loader, Source, of_one_variant
from sim.sweep.target import Gone, Target, Verdict, check
from sim.sweep.target import parse as parse_target

DEFAULT_MAX_SEEDS: Final = 20
DEFAULT_PARTS: Final = 100
MAX_VALUES: Final = 10**9
MAX_SKIPPED: Final = 1_000
"""Values that are no scenario before a search gives up, with the fault of the last."""


@dataclass(frozen=True)
class SearchSpace:
    """The values of a search: from ``low`` in steps of ``step`` to ``high``, which is the last,
    or those that are ``listed``.
    """

    path: str
    low: Quantity
    high: Quantity
    step: Quantity
    listed: tuple[Quantity, ...] = ()

    @property
    def last(self) -> int:
        """The index of ``high``."""
        if self.listed:
            return len(self.listed) - 1
        return ceil((self.high.number - self.low.number) / self.step.number)

    def quantity(self, index: int) -> Quantity:
        """The value of an index."""
        if self.listed:
            return self.listed[index]
        if index == self.last:
            return self.high
        return Quantity(self.low.number + index * self.step.number, self.low.unit)

    def value(self, index: int) -> Number:
        """The number of an index, in the unit of the ends."""
        return self.quantity(index).value

    def setting(self, index: int) -> str:
        """What ``--set`` would be given for an index."""
        return f"{self.path}={self.quantity(index)}"

    @property
    def design(self) -> Design:
        """What finished runs are stored under: the same values, whatever is asked of them."""
        values = ",".join(map(str, self.listed)) or f"{self.low}..{self.high}..{self.step}"
        return Design((self.path,), ("--vary",), ((values,),))


def search_space(vary: str, tolerance: str | None) -> SearchSpace:
    """The values of ``path=1..32`` or ``path=2,4,8``; raises ``ScenarioError`` and ``UserError``.

    Without a tolerance whole numbers go by one, others by a round number of
    at most a hundredth of the way.
    """
    path, written, is_list = varied("--vary", vary)
    low, high = written[0], written[-1]
    if is_list:
        if tolerance is not None:
            raise UserError("--tolerance is the step of a range; --vary has the values one by one")
        return SearchSpace(path, low, high, Quantity(Decimal(1)), written)
    whole = low.is_whole and high.is_whole
    if whole:
        low, high = in_base(low), in_base(high)
    if tolerance is None:
        way = (high.number - low.number) / DEFAULT_PARTS
        step = Quantity(Decimal(1) if whole else _round(way), low.unit)
        return SearchSpace(path, low, high, step)
    try:
        step = parse(tolerance)
        low, high, step = alike([low, high, in_base(step) if whole else step])
    except ValueError as error:
        raise UserError(f"--tolerance {tolerance}: {error}") from None
    if step.number <= 0 or (whole and not step.is_whole):
        kind = "a whole number from 1" if whole else "above 0"
        raise UserError(f"--tolerance {tolerance}: must be {kind} for {low}..{high}")
    made = SearchSpace(path, low, high, step)
    if made.last > MAX_VALUES:
        raise UserError(f"--tolerance {tolerance}: too small for {low}..{high}")
    return made


def find(
    scenario: Source,
    vary: str,
    target: str | Iterable[str],
    *,
    tolerance: str | None = None,
    variants: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    max_seeds: int = DEFAULT_MAX_SEEDS,
    settings: Iterable[str] = (),
    jobs: int = 1,
    executor: str = "processes",
    address: str | None = None,
    retries: int = 1,
    store: str | Path = DEFAULT_STORE,
    opened: ExecutorFactory | None = None,
    on_message: Callable[[str], None] = lambda _: None,
) -> tuple[Answer, ...]:
    """Bisect one parameter for a target, as ``podsim find``: one answer for each variant.

    ``vary`` is ``"backends.qwen.replicas=1..32"`` or ``"...=2,4,8"``, ``target``
    ``"ttft_s.p95 <= 2.5"`` or several of them, which are to hold together. Values of
    an answer are numbers, in its ``unit``. ``jobs``, ``executor``, ``address`` and
    ``store`` are as in ``sim.sweep.run``; ``opened`` is an executor of one's own.

    The seeds are those of the scenario when missing, at least two; where an interval straddles a
    bound, twice as many are tried, up to ``max_seeds``. Values between the ends that are no
    scenario are skipped. ``on_message`` gets what was tried as it is done. Raises
    ``ScenarioError`` and ``UserError`` for what cannot be meant.
    """
    space = search_space(vary, tolerance)
    targets = [parse_target(each) for each in ([target] if isinstance(target, str) else target)]
    opened = opened or factory_for_scripts(executor, jobs, address)
    scenarios = _Scenarios(Loader(scenario), space, tuple(settings), tuple(variants))
    ends = [scenarios.at(0), scenarios.at(space.last)]
    if faults := of_one_variant("--vary", space.path, ends):
        raise ScenarioError(faults)
    for end in ends:
        for variant, each in product(end.variants, targets):
            check(each, variant)
    for warning in dict.fromkeys(warning for end in ends for warning in end.warnings):
        on_message(f"warning: {warning}")
    given = ends[0].seeds if seeds is None else tuple(seeds)
    start = max(2, len(given))
    every = _more(given, max(start, max_seeds))
    names = [variant.variant for variant in ends[0].variants]
    first = product(names, (0, space.last), every[:start])
    tasks = [scenarios.task(index, name, seed) for name, index, seed in first]
    design = replace(space.design, settings=tuple(settings))
    runs = RunStore(Path(store), ends[0].name, design)
    with opened(tasks) as workers:
        measure = partial(measure_all, executor=workers, retries=retries)
        return tuple(
            _Search(scenarios, name, targets, every, start, measure, runs, on_message).answer()
            for name in names
        )


@dataclass
class _Scenarios:
    """The scenario at each value, loaded when it is asked for.

    A place is an index among the values that are not ``skipped`` for the reasons given there.
    """

    loader: Loader
    space: SearchSpace
    settings: tuple[str, ...]
    variants: tuple[str, ...]
    loaded: dict[int, ScenarioSet] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)

    def at(self, index: int) -> ScenarioSet:
        if index not in self.loaded:
            settings = (*self.settings, self.space.setting(index))
            self.loaded[index] = self.loader.load(settings, self.variants)
        return self.loaded[index]

    def task(self, index: int, variant: str, seed: int) -> Task:
        return Task(self.at(index).variant([variant]), seed, version("podsim"))

    def index(self, place: int) -> int:
        for skipped in sorted(self.skipped):
            place += skipped <= place
        return place


class _UnmeasuredError(Exception):
    """The search came to a value at which nothing can be measured."""


class _SkippedError(Exception):
    """The search came to a value that is no scenario."""


@dataclass
class _Search:
    """The search for one variant; ``figures`` are those of each index and seed."""

    scenarios: _Scenarios
    variant: str
    targets: Sequence[Target]
    seeds: Sequence[int]
    start: int
    measure_all: Callable[..., None]
    store: RunStore
    on_message: Callable[[str], None]
    figures: dict[tuple[int, int], Figures] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)

    def answer(self) -> Answer:
        space = self.scenarios.space
        self._measure((0, space.last), self.start)
        found, reason = Edge(None, None, None), None
        try:
            found = self._edge()
        except _UnmeasuredError as error:
            reason = str(error)
            for end in sorted({0, space.last} - self.trials.keys()):  # it has its runs
                self._add(end, self._trial(end, self.start))

        def at(place: int | None) -> Number | None:
            return None if place is None else space.value(self.scenarios.index(place))

        trials = dict(sorted(self.trials.items()))
        wrong = [] if reason else _contradictions(trials)
        return Answer(
            variant=self.variant,
            path=space.path,
            targets=tuple(self.targets),
            status="unmeasured" if reason else _status(found),
            larger_helps=found.upward,
            value=at(found.meets),
            misses=at(found.misses),
            trials=tuple(trials.values()),
            contradictions=tuple((space.value(one), space.value(two)) for one, two in wrong),
            unit=space.low.unit,
            skipped=tuple(
                (space.value(at), why) for at, why in sorted(self.scenarios.skipped.items())
            ),
            reason=reason,
        )

    def _edge(self) -> Edge:
        """Where targets begin to be met; searched again without a value that is no scenario."""
        while True:
            with suppress(_SkippedError):
                return edge(self.scenarios.space.last - len(self.scenarios.skipped), self._judge)

    def _judge(self, place: int) -> Verdict:
        """Try a value under more and more seeds, until its intervals say something.

        Raises ``_UnmeasuredError`` when nothing was measured, and
        ``_SkippedError`` for a value between the ends such as 3 GPUs for 8 heads.
        """
        index = self.scenarios.index(place)
        if index not in self.trials:
            self._load(index)
            number, trial = self.start, self._tried(index, self.start)
            while trial.verdict == "undecided" and number < len(self.seeds):
                number = min(2 * number, len(self.seeds))
                trial = self._tried(index, number)
            self._add(index, trial)
        trial = self.trials[index]
        if trial.verdict == "unmeasured":
            raise _UnmeasuredError(f"at {self.scenarios.space.quantity(index)} {trial.reason}")
        return trial.verdict

    def _load(self, index: int) -> None:
        try:
            self.scenarios.at(index)
        except ScenarioError as error:
            if len(self.scenarios.skipped) == MAX_SKIPPED:
                raise
            why = self.scenarios.skipped[index] = error.faults[0].message
            setting = self.scenarios.space.setting(index)
            self.on_message(f"{setting} cannot be run, skipped: {why}")
            raise _SkippedError from None

    def _tried(self, index: int, number: int) -> Trial:
        self._measure((index,), number)
        return self._trial(index, number)

    def _trial(self, index: int, number: int) -> Trial:
        """What the runs of the first ``number`` seeds say, which have been made."""
        runs = {seed: self.figures[index, seed] for seed in self.seeds[:number]}
        judged = tuple(judge(target, runs) for target in self.targets)
        return Trial(self.scenarios.space.value(index), judged)

    def _add(self, index: int, trial: Trial) -> None:
        self.trials[index] = trial
        result = trial.reason
        if result is None:
            figures = ", ".join(_figure(each) for each in trial.judged)
            result = f"{figures} over {trial.seeds} seeds, {trial.verdict}"
        who = f"{self.variant}: " if self.variant else ""
        self.on_message(f"{who}{self.scenarios.space.setting(index)}: {result}")

    def _measure(self, indices: Sequence[int], number: int) -> None:
        """Make the runs of the first ``number`` seeds that have not been made yet."""
        missing: list[tuple[int, int, Task]] = []
        for index, seed in product(indices, self.seeds[:number]):
            if (index, seed) not in self.figures:
                task = self.scenarios.task(index, self.variant, seed)
                before = self.store.read(index, task)
                if before is None:
                    missing.append((index, seed, task))
                else:
                    self.figures[index, seed] = before.figures

        def on_end(at: int, outcome: Outcome) -> None:
            index, seed, task = missing[at]
            if isinstance(outcome, Failed):
                who = " ".join(filter(None, (self.variant, f"seed {seed}")))
                where = f"{self.scenarios.space.setting(index)}, {who}"
                kind = InvariantError if outcome.is_bug else WorkerError
                raise kind(f"{where}: {outcome.reason} (tried {outcome.tries} times)")
            self.store.write(index, task, outcome)
            self.figures[index, seed] = outcome.figures

        if missing:
            self.measure_all([task for _, _, task in missing], on_end=on_end)


def _status(found: Edge) -> Status:
    if found.is_sharp:
        return "found"
    if found.upward is None and found.meets is not None:
        return "always"
    if found.upward is None and found.misses is not None:
        return "never"
    return "undecided"


def judge(target: Target, runs: Mapping[int, Figures]) -> Judged:
    """Judge a target by the figures of some runs, by seed."""
    found = {seed: target.value(figures) for seed, figures in runs.items()}
    gone = {seed: figure for seed, figure in found.items() if isinstance(figure, Gone)}
    if gone:
        (first, *_) = gone.values()
        nothing = Interval(None, None, None, len(runs))
        return Judged(target, nothing, "unmeasured", reason=first.under(named_seeds(gone)))
    interval = target.interval([each for each in found.values() if not isinstance(each, Gone)])
    missing = max(left_out(target.key, [figures]) for figures in runs.values())
    return Judged(target, interval, target.verdict(interval), missing)


def _contradictions(trials: Mapping[int, Trial]) -> list[tuple[int, int]]:
    """Where the figure of any target surely went the wrong way, each pair of values once."""
    found: dict[tuple[int, int], None] = {}
    for each in zip(*(trial.judged for trial in trials.values())):
        tried = {at: judged.interval for at, judged in zip(trials, each)}
        found.update(dict.fromkeys(contradictions(tried)))
    return sorted(found)


def _figure(judged: Judged) -> str:
    """The figure of one target in words, with the share of requests that it leaves out."""
    mean, refused = judged.interval.mean, judged.left_out > WORTH_SAYING
    text = f"{judged.target.key} {'unknown' if mean is None else f'{mean:g}'}"
    if mean is not None and isinf(mean):
        text = f"{judged.target.key} {'of too few' if refused else 'too late to be seen'}"
    return f"{text} ({share(judged.left_out)} {REFUSED})" if refused else text


def _more(seeds: Sequence[int], number: int) -> tuple[int, ...]:
    """The seeds, and after them so many of the next ones that they are ``number``."""
    others = (seed for seed in count(1) if seed not in seeds)
    return (*seeds, *islice(others, max(0, number - len(seeds))))


def _round(number: Decimal) -> Decimal:
    """The largest of 1, 2, 5, 10, 20, ... (or 0.5, 0.2, ...) that is at most ``number``."""
    power = Decimal(1).scaleb(number.adjusted())
    return max(power * digit for digit in (1, 2, 5) if power * digit <= number)
