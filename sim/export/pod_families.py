"""What the engines' own metrics would say: ``vllm:*`` and ``llamacpp:*``.

Each kind of engine is called what it calls itself. llama-server has no
histogram of first tokens and no counters of its cache, so a run on it has none.
Engines of other packages have no names here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.core.ports import PodTotals
from sim.export.families import VLLM_TTFT_S, Family, Histogram, Labels, Scrape
from sim.results import arrow

OF_POD: Final = ("pod", "model_name")
OF_ENGINE: Final = (*OF_POD, "engine")
_PLACE: Final = re.compile(r"[0-9]+(?:-rank-([0-9]+))?")


@dataclass(frozen=True)
class Pod:
    """A pod: its name, its backend, and the index of its engine among those of its replica."""

    name: str
    backend: str
    engine: str


def pods(scrape: Scrape) -> list[Pod]:
    """The pods of a run, in its order; named by backend, replica and, of several, rank."""
    return [_pod(name, scrape.scenario["backends"]) for name in scrape.facts.pods]


def _pod(name: str, backends: Iterable[str]) -> Pod:
    """Names of backends may hold hyphens, numbers and ``rank`` themselves."""
    for backend in backends:
        rest = name.removeprefix(f"{backend}-")
        if rest != name and (place := _PLACE.fullmatch(rest)):
            return Pod(name, backend, place[1] or "0")
    raise AssertionError(f"pod {name} is of no backend")


def pod_families(scrape: Scrape) -> Iterator[Family]:
    """Families of the kinds of engines that there are."""
    by_kind: dict[str, dict[Pod, str]] = {}
    for pod in pods(scrape):
        engine = scrape.engine(pod.backend)
        by_kind.setdefault(engine["kind"], {})[pod] = engine["model"] or ""
    readings = _Readings(scrape)
    if "vllm" in by_kind:
        yield from _vllm(scrape, readings, by_kind["vllm"])
    if "llamacpp" in by_kind:
        yield from _llamacpp(readings, by_kind["llamacpp"])


class _Readings:
    """What is known of each pod at the moment of the scrape."""

    def __init__(self, scrape: Scrape) -> None:
        table = scrape.result.tables.pods
        here = scrape.happened(arrow.numbers(table, "time_s"))
        texts = arrow.strings(table, "pod")
        self._last = {
            name: int(rows[-1])
            for name in texts.words
            if len(rows := np.flatnonzero(here & texts.equal(name)))
        }
        self._columns = {
            name: arrow.numbers(table, name) for name in ("running", "waiting", "kv_usage")
        }
        facts = scrape.facts
        self._totals = dict(zip(facts.pods, facts.closed, strict=True))

    def gauge(self, pod: Pod, column: str) -> float | None:
        """The last poll before the scrape; None when nobody answered any."""
        row = self._last.get(pod.name)
        return None if row is None else float(self._columns[column][row])

    def totals(self, pod: Pod) -> PodTotals:
        """Running totals."""
        return self._totals[pod.name]


def _vllm(scrape: Scrape, readings: _Readings, models: Mapping[Pod, str]) -> Iterator[Family]:
    labels: dict[Pod, Labels] = {
        pod: (pod.name, model, pod.engine) for pod, model in models.items()
    }
    for name, column, told in (
        ("num_requests_running", "running", "Requests in execution, as last polled."),
        ("num_requests_waiting", "waiting", "Requests that wait to be admitted, as last polled."),
        (
            "kv_cache_usage_perc",
            "kv_usage",
            "KV blocks held by requests, 1 for all, as last polled.",
        ),
    ):
        yield _gauges(f"vllm:{name}", told, OF_ENGINE, readings, labels, column)
    attempts = _Attempts(scrape)
    yield _counters(
        "vllm:prefix_cache_queries_total",
        "Prompt tokens that were looked up in the prefix cache when a request was first admitted.",
        OF_ENGINE,
        {labels[pod]: attempts.tokens(pod, "prompt_tokens") for pod in labels},
    )
    yield _counters(
        "vllm:prefix_cache_hits_total",
        "Prompt tokens that were found there.",
        OF_ENGINE,
        {labels[pod]: attempts.tokens(pod, "cached_tokens") for pod in labels},
    )
    yield Family(
        "vllm:time_to_first_token_seconds",
        "histogram",
        "Time from the arrival of a request at the pod to its first token.",
        OF_ENGINE,
        {labels[pod]: attempts.first_tokens(pod) for pod in labels},
    )
    yield _counters(
        "vllm:num_preemptions_total",
        "Preemptions.",
        OF_ENGINE,
        {labels[pod]: float(readings.totals(pod).preemptions) for pod in labels},
    )


def _llamacpp(readings: _Readings, models: Mapping[Pod, str]) -> Iterator[Family]:
    labels: dict[Pod, Labels] = {pod: (pod.name, model) for pod, model in models.items()}
    for name, column, told in (
        ("requests_processing", "running", "Requests that have a slot, as last polled."),
        ("requests_deferred", "waiting", "Requests that wait for a slot, as last polled."),
    ):
        yield _gauges(f"llamacpp:{name}", told, OF_POD, readings, labels, column)
    for name, total, told in (
        ("prompt_tokens_total", "computed_tokens", "Prompt tokens that were computed."),
        ("tokens_predicted_total", "emitted_tokens", "Tokens that were generated."),
    ):
        samples = {labels[pod]: float(getattr(readings.totals(pod), total)) for pod in labels}
        yield _counters(f"llamacpp:{name}", told, OF_POD, samples)


def _gauges(
    name: str,
    told: str,
    names: Labels,
    readings: _Readings,
    labels: Mapping[Pod, Labels],
    column: str,
) -> Family:
    read = {labels[pod]: readings.gauge(pod, column) for pod in labels}
    known = {each: value for each, value in read.items() if value is not None}
    return Family(name, "gauge", told, names, known)


def _counters(name: str, told: str, names: Labels, samples: Mapping[Labels, float]) -> Family:
    return Family(name, "counter", told, names, samples)


class _Attempts:
    """The placements table: what of it has happened at each pod."""

    def __init__(self, scrape: Scrape) -> None:
        table = scrape.result.tables.placements
        self._pod = arrow.strings(table, "pod")
        self._columns = {
            name: arrow.numbers(table, name) for name in ("prompt_tokens", "cached_tokens")
        }
        first_s = arrow.numbers(table, "first_token_s")
        self._ttft_s = first_s - arrow.numbers(table, "dispatch_s")
        self._admitted = scrape.happened(arrow.numbers(table, "scheduled_s"))
        self._answered = scrape.happened(first_s)

    def tokens(self, pod: Pod, column: str) -> float:
        """Of all that were admitted."""
        return float(self._columns[column][self._admitted & self._pod.equal(pod.name)].sum())

    def first_tokens(self, pod: Pod) -> Histogram:
        """From their dispatch on."""
        here = self._answered & self._pod.equal(pod.name)
        return Histogram.of(self._ttft_s[here], VLLM_TTFT_S)
