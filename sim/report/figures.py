"""The figures of a report, each with a sentence per variant that says what is seen."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from sim.core.text import sentence_list
from sim.plots.catalogue import MOST_PANELS, Kind, telling, window_of
from sim.plots.frames import Span, within
from sim.plots.style import as_bytes
from sim.report.study import Fact, Study
from sim.results.report_rows import REASONS
from sim.results.stored import StoredRun

WIDTH_IN: Final = 3.6
"""As wide as a phone: text keeps its size there, and grows where there is more room."""
FEW: Final = 3
"""Variants that a sentence names one by one; of more it says from where to where they reach."""


@dataclass(frozen=True)
class Figure:
    """A figure with its heading, what is seen by variant, how it was drawn, and its content.

    Those of variants beyond the first ones are ``further``.
    """

    anchor: str
    title: str
    captions: tuple[Fact, ...]
    note: str
    source: str
    further: bool = False

    @property
    def description(self) -> str:
        """What is seen, for who does not see it."""
        return " ".join(f"{name}: {text}" if name else text for name, text in self.captions)


def figures(study: Study, anchor: str) -> Iterator[Figure]:
    """Every figure that says something of these runs; ``anchor`` begins the ids of all."""
    firsts = study.material.firsts
    for kind in telling(study.material):
        if kind.name in OF_ALL:
            yield _figure(study, kind, anchor, firsts, [("", OF_ALL[kind.name](study))])
        elif kind.name in OF_RUN:
            for at in range(0, len(firsts), MOST_PANELS):
                runs = firsts[at : at + MOST_PANELS]
                captions = [
                    (f"{study.called(run.variant)}, seed {run.seed}", text)
                    for run in runs
                    for text in OF_RUN[kind.name](study, run)
                ]
                if captions:
                    yield _figure(study, kind, anchor, runs, captions, at)


def _figure(
    study: Study,
    kind: Kind,
    anchor: str,
    runs: Sequence[StoredRun],
    captions: Sequence[Fact],
    at: int = 0,
) -> Figure:
    drawing = kind.draw(study.material, WIDTH_IN, runs, bare=True)
    note = "; ".join(drawing.notes)
    return Figure(
        anchor=f"{anchor}-{kind.name}" + (f"-{at + 1}" if at else ""),
        title=drawing.title,
        captions=tuple(captions),
        note=f"{note[0].upper()}{note[1:]}." if note else "",
        source=f"data:image/svg+xml;base64,{b64encode(as_bytes(drawing)).decode()}",
        further=at > 0,
    )


def of_ttft(study: Study) -> str:
    """How long half of the requests, and nearly all, wait for their first token."""
    half, nearly_all = (_by_variant(study, f"ttft_s.{level}", " s") for level in ("p50", "p95"))
    return f"Half of the requests have their first token within {half}; 95 % within {nearly_all}."


def of_hits(study: Study) -> str:
    """How much of the prompts was in a cache."""
    found = _by_variant(study, "prompt_cache_hit_ratio", " %")
    return f"Over the window, the share of prompt tokens found in a cache is {found}."


def of_spills(study: Study) -> str:
    """How much was sent away, why most often, and where nothing can be."""
    has_home = {run.variant: run.facts.has_home for run in study.results}
    homes = [name for name in study.variants if has_home[name]]
    homeless = [study.called(name) for name in study.variants if not has_home[name]]
    times = {
        key.removeprefix(REASONS): sum(figure["mean"] or 0.0 for figure in by_variant.values())
        for key, by_variant in study.comparison.items()
        if key.startswith(REASONS)
    }
    shares = _by_variant(study, "spill_ratio", " %", homes)
    most = max(times, key=lambda reason: times[reason], default="")
    return (
        f"The share of placements that spilled away from their home is {shares}"
        + (f"; the reason is {most} most often" if any(times.values()) else "")
        + (f" (the policy of {sentence_list(homeless)} knows no home)" if homeless else "")
        + "."
    )


def of_load(study: Study, run: StoredRun) -> Iterator[str]:
    """Which pods have most and least to do over the polls of the window."""
    polls = within(study.material.polls[run.variant], "time_s", window_of(run))
    if not len(polls):
        return
    means = polls.groupby("pod", sort=True, observed=True)["in_flight"].mean()
    high, low = _requests(means.max()), _requests(means.min())
    busiest = f"{high} requests are in flight on {means.idxmax()}"
    if len(means) > 1 and high == low:
        busiest = f"{high} requests are in flight on each pod"
    elif len(means) > 1:
        busiest += f", the busiest pod, and {low} on {means.idxmin()}, the least busy one"
    highest = int(polls["in_flight"].max())
    yield f"On average over the window's polls, {busiest}; the highest poll is {highest:,}."


def of_kv_usage(study: Study, run: StoredRun) -> Iterator[str]:
    """How full the caches are of what cannot be evicted."""
    usage = _summary(study, run)["kv_usage"]
    if usage["mean"] is not None:
        yield (
            f"Requests hold {_share(usage['mean'])} of the KV blocks on average over all polls of "
            f"the window, and at most {_share(usage['p95'])} in 95 % of them."
        )


def of_pools(study: Study, run: StoredRun) -> Iterator[str]:
    """How many swaps there were in each pool, what they cost, and who was resident."""
    for pool, found in _summary(study, run).get("pool", {}).items():
        swaps = found["swaps"]["total"]
        resident = sentence_list(
            f"{member} {_share(its['ready_ratio'])}" for member, its in found["members"].items()
        )
        yield (
            f"In {pool}, {swaps} swap{' was' if swaps == 1 else 's were'} completed in the window "
            f"and swaps took {_share(found['swapping_ratio'])} of it; resident were {resident} of "
            "the time."
        )


def of_sessions(study: Study, run: StoredRun) -> Iterator[str]:
    """How many sessions stay on their pod."""
    sessions, moved, moves = count_moves(study.material.requests_of(run), window_of(run))
    there = "with two turns or more that begin in the window"
    if sessions and not moved:
        yield f"All {sessions:,} sessions {there} stay on one pod."
    elif sessions:
        yield (
            f"{sessions - moved:,} of {sessions:,} sessions {there} stay on one pod; the others "
            f"make {moves:,} move{'' if moves == 1 else 's'} in all."
        )


def count_moves(requests: pd.DataFrame, window_s: Span) -> tuple[int, int, int]:
    """Sessions of two turns or more that began in the window, those of them that moved, moves."""
    placed = requests[requests["session_id"].notna() & requests["pod"].notna()]
    turns = placed.sort_values("arrival_s", kind="stable").groupby("session_id", observed=True)
    began_s, moves = turns["arrival_s"].min(), turns["pod"].agg(_moves)
    inside = (began_s >= window_s[0]) & (began_s < window_s[1]) & (turns.size() > 1)
    return int(inside.sum()), int((moves[inside] > 0).sum()), int(moves[inside].sum())


def _moves(pods: "pd.Series[str]") -> int:
    at = pods.to_numpy(dtype=object)
    return int(np.count_nonzero(at[1:] != at[:-1]))


OF_ALL: Final[Mapping[str, Callable[[Study], str]]] = {
    "ttft-cdf": of_ttft,
    "hit-rate-over-time": of_hits,
    "spills-by-reason": of_spills,
}
OF_RUN: Final[Mapping[str, Callable[[Study, StoredRun], Iterator[str]]]] = {
    "load-over-time": of_load,
    "kv-usage-over-time": of_kv_usage,
    "session-map": of_sessions,
    "pool-timeline": of_pools,
}


def _summary(study: Study, run: StoredRun) -> dict[str, Any]:
    return study.results[study.stored.index(run)].summary


def _by_variant(study: Study, key: str, unit: str, variants: Sequence[str] | None = None) -> str:
    """The figure of each variant in words; of many variants the two ends."""
    names = study.variants if variants is None else variants
    row = next((row for row in study.rows if row.key == key), None)
    values = {name: study.value(key, name) for name in names if row}
    texts = {
        name: f"{row.number(value)}{unit}"
        for name, value in values.items()
        if row and value is not None
    }
    if len(study.variants) == 1 or not texts:
        return next(iter(texts.values()), "unknown")
    if len(names) <= FEW:
        return sentence_list(
            f"{texts.get(name, 'unknown')} ({study.called(name)})" for name in names
        )
    if len(set(texts.values())) == 1 and len(texts) == len(names):
        return f"{texts[names[0]]} with every variant"
    low, high = (pick(texts, key=lambda name: values[name] or 0.0) for pick in (min, max))
    ends = f"{texts[low]} ({study.called(low)}) to {texts[high]} ({study.called(high)})"
    unknown = len(names) - len(texts)
    return f"{ends}, unknown of {unknown} variants" if unknown else ends


def _requests(mean: float) -> str:
    """A mean of counts, with two digits where it is small."""
    return f"{mean:.1f}" if mean >= 0.95 or mean == 0.0 else f"{mean:.2g}"


def _share(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value * 100.0:.1f} %"
