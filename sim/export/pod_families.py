"""What the engines' own metrics would say: ``vllm:*`` and ``llamacpp:*``.

Each kind of engine is called what it calls itself. llama-server has no
histogram of first tokens and no counters of its cache, so a run on it has none.
Engines of other packages have no names here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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
    """Return the pods of a run, in its order; named by backend, replica and, of several, rank."""
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
    by_kind: dict[str, dict[str, Labels]] = {}
    for pod in pods(scrape):
        engine = scrape.scenario["engines"][scrape.scenario["backends"][pod.backend]["engine"]]
        labels: Labels = (pod.name, engine["model"] or "")
        if engine["kind"] == "vllm":
            labels = (*labels, pod.engine)
        by_kind.setdefault(engine["kind"], {})[pod.name] = labels
    if "vllm" in by_kind:
        yield from _vllm(scrape, by_kind["vllm"])
    if "llamacpp" in by_kind:
        yield from _llamacpp(scrape, by_kind["llamacpp"])


def _vllm(scrape: Scrape, labels: Mapping[str, Labels]) -> Iterator[Family]:
    for name, column, about in (
        ("num_requests_running", "running", "Requests in execution, as last polled."),
        ("num_requests_waiting", "waiting", "Requests that wait to be admitted, as last polled."),
        (
            "kv_cache_usage_perc",
            "kv_usage",
            "KV blocks held by requests, 1 for all, as last polled.",
        ),
    ):
        samples = _last_polled(scrape, labels, column)
        yield Family(f"vllm:{name}", "gauge", about, OF_ENGINE, samples)
    attempts = scrape.placements
    admitted = attempts[attempts["scheduled_s"] < scrape.at_s]
    tokens = admitted.groupby("pod")[["prompt_tokens", "cached_tokens"]].sum()
    for name, column, about in (
        (
            "queries",
            "prompt_tokens",
            "Prompt tokens that were looked up in the prefix cache when a request was first "
            "admitted.",
        ),
        ("hits", "cached_tokens", "Prompt tokens that were found there."),
    ):
        summed = tokens[column].to_dict()
        counts = {labels[pod]: float(summed.get(pod, 0)) for pod in labels}
        yield Family(f"vllm:prefix_cache_{name}_total", "counter", about, OF_ENGINE, counts)
    answered = attempts[attempts["first_token_s"] < scrape.at_s]
    ttft_s = answered["first_token_s"] - answered["dispatch_s"]
    yield Family(
        "vllm:time_to_first_token_seconds",
        "histogram",
        "Time from the arrival of a request at the pod to its first token.",
        OF_ENGINE,
        {
            labels[pod]: Histogram.of(ttft_s[answered["pod"] == pod].to_numpy(), VLLM_TTFT_S)
            for pod in labels
        },
    )
    preemptions = _totals(scrape, labels, "preemptions")
    yield Family("vllm:num_preemptions_total", "counter", "Preemptions.", OF_ENGINE, preemptions)


def _llamacpp(scrape: Scrape, labels: Mapping[str, Labels]) -> Iterator[Family]:
    for name, column, about in (
        ("requests_processing", "running", "Requests that have a slot, as last polled."),
        ("requests_deferred", "waiting", "Requests that wait for a slot, as last polled."),
    ):
        samples = _last_polled(scrape, labels, column)
        yield Family(f"llamacpp:{name}", "gauge", about, OF_POD, samples)
    for name, total, about in (
        ("prompt_tokens_total", "computed_tokens", "Prompt tokens that were computed."),
        ("tokens_predicted_total", "emitted_tokens", "Tokens that were generated."),
    ):
        samples = _totals(scrape, labels, total)
        yield Family(f"llamacpp:{name}", "counter", about, OF_POD, samples)


def _last_polled(scrape: Scrape, labels: Mapping[str, Labels], column: str) -> dict[Labels, float]:
    """Return the last poll of each pod before the scrape; of one that never answered none."""
    polls = arrow.data_frame(scrape.result.tables.pods)
    last = polls[polls["time_s"] < scrape.at_s].groupby("pod")[column].last().to_dict()
    return {labels[pod]: float(last[pod]) for pod in labels if pod in last}


def _totals(scrape: Scrape, labels: Mapping[str, Labels], name: str) -> dict[Labels, float]:
    """Return running totals of the pods."""
    totals: dict[str, PodTotals] = dict(zip(scrape.facts.pods, scrape.facts.closed, strict=True))
    return {labels[pod]: float(getattr(totals[pod], name)) for pod in labels}
