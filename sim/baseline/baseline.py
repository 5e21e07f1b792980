"""A baseline: what the runs of a scenario came to, as text that reads well as a diff.

One line per metric and variant, with the values over the seeds in order. Values
have six significant digits, far below any margin, so that arithmetic which
differs in the last bit leaves the lines alone: the digests tell it all the same.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.metadata import version
from math import isfinite
from typing import Any, Final

import numpy as np

from sim.baseline.folders import USUAL, Folders
from sim.comparison.sides import Figures, Side
from sim.core.errors import UserError
from sim.results.comparison import figure_keys, figure_value
from sim.results.metrics import flatten, metric
from sim.results.result import RunResult
from sim.results.stored import SCHEMA_VERSION
from sim.scenario.load import ScenarioSet

FORM: Final = 1
"""Of this file; a newer one is refused."""
SIGNIFICANT: Final = 6
FINGERPRINT_DIGITS: Final = 8
LEFT_OUT: Final = ("pod_requests.*", "samples.*.observed")
"""A pod's number means nothing across seeds, and how many values there are is not compared; how
many are censored says why a percentile is null."""


@dataclass(frozen=True)
class KeptVariant:
    """One variant over the seeds of its baseline.

    ``digests`` and each tuple of ``figures`` have one entry per seed; a figure
    is known by its keys joined by dots, null is ``None``.
    """

    name: str
    variant_hash: str
    digests: tuple[str, ...]
    figures: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Baseline:
    """What the runs of one scenario came to; ``made_with`` are the versions that ran them."""

    scenario: str
    seeds: tuple[int, ...]
    variants: tuple[KeptVariant, ...]
    made_with: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits that stand for all but ``made_with``."""
        document = _document(self)
        del document["made_with"]
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:FINGERPRINT_DIGITS]

    def side(self, label: str) -> Side:
        """Its runs for a comparison, variant by variant, seeds in order."""
        return Side(label, self.scenario, tuple(_runs(self)))

    def part(self, variants: Sequence[str]) -> "Baseline":
        """Only these variants, all of which it has, in the order given."""
        by_name = {variant.name: variant for variant in self.variants}
        return replace(self, variants=tuple(by_name[name] for name in variants))

    def text(self) -> str:
        """The file: JSON with a line for each metric of each variant."""
        return _laid_out(_document(self)) + "\n"


def kept(scenarios: ScenarioSet, results: Sequence[RunResult]) -> Baseline:
    """The baseline of a scenario from the results of all its variants, seeds in one order."""
    variants = tuple(
        _kept_variant(
            scenario.variant,
            scenarios.variant_hash(index),
            [result for result in results if result.variant == scenario.variant],
        )
        for index, scenario in enumerate(scenarios.variants)
    )
    seeds = tuple(dict.fromkeys(result.seed for result in results))
    return Baseline(scenarios.name, seeds, variants, _versions())


def read_baseline(text: str, source: str, folders: Folders = USUAL) -> Baseline:
    """The baseline in a file's text; raises ``UserError`` when it cannot be one.

    ``source`` is what the file is called in the message, ``folders`` are where it lies.
    """
    try:
        document = json.loads(text, parse_constant=_no_constant)
        form = document["form"]
        if form > FORM:
            raise UserError(
                f"{source}: written in form {form} by a newer podsim, this one reads form {FORM}; "
                "update podsim"
            )
        baseline = Baseline(
            str(document["scenario"]),
            tuple(int(seed) for seed in document["seeds"]),
            tuple(_read_variant(name, of) for name, of in document["variants"].items()),
            {str(name): str(value) for name, value in document["made_with"].items()},
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UserError(f"{source}: cannot read a baseline from it: {reason}") from error
    _check_lengths(baseline, source, folders)
    return baseline


def _kept_variant(name: str, variant_hash: str, results: Sequence[RunResult]) -> KeptVariant:
    summaries = [dict(flatten(result.summary)) for result in results]
    values = {
        key: tuple(_rounded(figure_value(key, summary)) for summary in summaries)
        for key in figure_keys(summaries)
        if not any(fnmatchcase(key, pattern) for pattern in LEFT_OUT)
    }
    # Of a family a name that is missing means 0, so one that is 0 everywhere need not be there.
    figures = {key: of for key, of in values.items() if any(of) or not metric(key).is_family}
    return KeptVariant(name, variant_hash, tuple(run.digest for run in results), figures)


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.{SIGNIFICANT}g}") if isinstance(value, float) else value


def _versions() -> dict[str, str]:
    return {
        "podsim": version("podsim"),
        "schema": str(SCHEMA_VERSION),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _runs(baseline: Baseline) -> Iterable[Figures]:
    for variant in baseline.variants:
        for at, seed in enumerate(baseline.seeds):
            summary = {key: values[at] for key, values in variant.figures.items()}
            yield Figures(variant.name, seed, variant.variant_hash, variant.digests[at], summary)


def _document(baseline: Baseline) -> dict[str, Any]:
    return {
        "form": FORM,
        "scenario": baseline.scenario,
        "made_with": dict(baseline.made_with),
        "seeds": list(baseline.seeds),
        "variants": {
            variant.name: {
                "variant_hash": variant.variant_hash,
                "digests": list(variant.digests),
                "figures": {key: list(values) for key, values in variant.figures.items()},
            }
            for variant in baseline.variants
        },
    }


def _laid_out(value: Any, indent: str = "") -> str:
    """JSON in which a mapping has a line for each key, and a list stands on one line."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    deeper = f"{indent}  "
    lines = [
        f"{deeper}{json.dumps(key, ensure_ascii=False)}: {_laid_out(item, deeper)}"
        for key, item in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _read_variant(name: str, document: Mapping[str, Any]) -> KeptVariant:
    return KeptVariant(
        name,
        str(document["variant_hash"]),
        tuple(str(digest) for digest in document["digests"]),
        {key: tuple(map(_number, values)) for key, values in document["figures"].items()},
    )


def _number(value: Any) -> float | None:
    if value is None or (type(value) in (int, float) and isfinite(value)):
        return value  # type: ignore[no-any-return]
    raise ValueError(f"a figure is a number or null; got {value!r}")


def _no_constant(word: str) -> float:
    raise ValueError(f"a figure is a number or null; got {word}")


def _check_lengths(baseline: Baseline, source: str, folders: Folders) -> None:
    seeds = len(baseline.seeds)
    for variant in baseline.variants:
        for key, values in {"digests": variant.digests, **variant.figures}.items():
            if len(values) != seeds:
                raise UserError(
                    f"{source}: {variant.name}: {key} has {len(values)} values for {seeds} seeds; "
                    f"{folders.update(baseline.scenario)} writes it anew"
                )
