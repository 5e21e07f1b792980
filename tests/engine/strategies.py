"""Random pods and traffic: tiny capacities, shared texts, bursts, clients that leave.

Which features a run has is drawn first (swarm testing), so that combinations
of few features are as likely as everything at once. Two families of times:

- ``decimal``: odd coefficients, arrivals on a grid of 1 µs. Coincidences are
  rare, and ``crowded`` tells a run in which an event comes closer than 10 ns
  to a step boundary without meeting it.
- ``binary``: coefficients and times are binary fractions, mostly multiples of
  1/4096 s, whose sums are exact; events meet boundaries all the time and
  results agree bit for bit.
"""

import os
from bisect import bisect_left
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.engine.harness import AnySettings, Call, Text, Traffic
from tests.oracle import Curve, Prefilling, Settings, StepTime, Trace
from tests.slot_oracle import SlotSettings

TICK_S = 1 / 4096
CLEARANCE_S = 1e-8
LONGEST_PROMPT = 120


def many(examples: int) -> settings:
    """The same examples in every run; with PODSIM_HAMMER=50 fifty times as many, drawn anew.

    With PODSIM_NO_SHRINK a failure stays as it was drawn: whoever only wants to
    know that there is one need not wait for a small one.
    """
    hammer = os.environ.get("PODSIM_HAMMER")
    unshrunk = (Phase.explicit, Phase.generate)
    return settings(
        max_examples=examples * int(hammer or 1),
        derandomize=hammer is None,
        phases=unshrunk if os.environ.get("PODSIM_NO_SHRINK") else tuple(Phase),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@dataclass(frozen=True)
class Scenario:
    """A pod, what is sent to it and when it is polled."""

    settings: AnySettings
    traffic: Traffic
    polls_s: tuple[float, ...]


@dataclass(frozen=True)
class Features:
    """Which kinds of thing happen in a run at all."""

    caching: bool
    whole_prompt_gate: bool
    model_limit: bool
    cancellations: bool
    branches: bool
    own_answers: bool
    continuations: bool
    bursts: bool
    long_answers: bool
    unhashed_first: bool
    states: bool
    async_scheduling: bool
    chunk_limit: bool
    watermark: bool
    queue_limits: bool
    priorities: bool


features = st.builds(Features, *[st.booleans()] * 16)


@st.composite
def scenarios(draw: st.DrawFn, binary: bool = False) -> Scenario:
    """A whole run."""
    kinds = draw(features)
    step_time = draw(binary_step_times() if binary else decimal_step_times())
    settings = draw(pods(kinds, step_time))
    times = binary_times() if binary else decimal_times()
    longest = min(LONGEST_PROMPT, settings.kv_blocks * settings.block_size + 2)
    traffic = draw(traffics(kinds, longest, times))
    polls_s = draw(st.lists(times, max_size=12))
    return Scenario(settings, traffic, tuple(sorted(polls_s)))


def decimal_times() -> st.SearchStrategy[float]:
    return st.integers(0, 400_000).map(lambda microseconds: microseconds / 1e6)


def binary_times() -> st.SearchStrategy[float]:
    return st.integers(0, 600).map(lambda ticks: ticks * TICK_S)


def decimal_step_times() -> st.SearchStrategy[StepTime]:
    """Milliseconds per step, with digits that no arrival has."""

    def coefficient(largest: int, odd: float) -> st.SearchStrategy[float]:
        return st.one_of(st.just(0.0), st.integers(1, largest).map(lambda part: part * odd))

    return st.builds(
        StepTime,
        a=st.integers(0, 12).map(lambda part: part * 1.0003719),
        b=coefficient(9, 23.00071),
        c=coefficient(9, 1237.0613),
        d=coefficient(9, 103_417.01),
        f=coefficient(9, 31.00917),
        g=coefficient(3, 0.310971),
        computed=st.none() | curves(st.integers(1, 40).map(lambda part: part * 0.270113)),
        prefilling=st.builds(
            Prefilling,
            a=coefficient(9, 0.700133),
            c=coefficient(9, 911.0311),
            f=coefficient(9, 17.00353),
        ),
    ).filter(_takes_time)


def curves(values_ms: st.SearchStrategy[float]) -> st.SearchStrategy[Curve]:
    """Up to five points among few tokens, so that all pieces and both ends are met."""

    def curve(tokens: set[int], values: list[float]) -> Curve:
        rising = sorted(tokens)
        *before, last = values[: len(rising)]
        return Curve(tuple(rising), (*before, max(last, before[-1])))

    tokens = st.sets(st.integers(1, 48), min_size=2, max_size=5)
    return st.builds(curve, tokens, st.lists(values_ms, min_size=5, max_size=5))


def _takes_time(costs: StepTime) -> bool:
    """Whether scenarios may say so: steps that prefill and steps that decode have a length."""
    prefills = (costs.a, costs.b, costs.d, costs.computed, costs.prefilling.a)
    return any(prefills) and any((costs.a, costs.c, costs.f, costs.g, costs.computed))


def binary_step_times() -> st.SearchStrategy[StepTime]:
    """Every term of the step time is a binary fraction, nearly always a multiple of 1/4096 s."""
    return st.builds(
        StepTime,
        a=st.integers(1, 12).map(lambda ticks: ticks * 1e3 * TICK_S),
        b=st.integers(0, 2).map(lambda ticks: ticks * 1e6 * TICK_S),
        c=st.integers(0, 1).map(lambda ticks: ticks * 1e8 * TICK_S),
        d=st.integers(0, 1).map(lambda ticks: ticks * 1e11 * TICK_S / 32),
        f=st.integers(0, 3).map(lambda ticks: ticks * 1e5 * TICK_S),
        g=st.just(0.0),
        computed=st.none() | st.integers(1, 6).map(tick_per_token),
        prefilling=st.builds(
            Prefilling,
            a=st.integers(0, 3).map(lambda ticks: ticks * 1e3 * TICK_S),
            f=st.integers(0, 1).map(lambda ticks: ticks * 1e5 * TICK_S),
        ),
    )


def tick_per_token(level: int) -> Curve:
    """Level up to some tokens, then a tick for each further one."""
    return Curve((level, level + 8, level + 9), (8e3 * TICK_S,) * 2 + (9e3 * TICK_S,))


@st.composite
def pods(draw: st.DrawFn, kinds: Features, step_time: StepTime) -> Settings:
    kv_blocks = draw(st.integers(4, 40)) * (8 if kinds.long_answers else 1)
    block_size = draw(st.integers(1, 16))
    longest = min(LONGEST_PROMPT, kv_blocks * block_size)
    state_blocks = draw(st.integers(0, min(3, kv_blocks - 1))) if kinds.states else 0
    prompt_tail = state_blocks > 0 and draw(st.booleans())
    least = block_size if prompt_tail else 1
    budget = draw(st.integers(max(2, least), 64))
    return Settings(
        step_time,
        kv_blocks=kv_blocks,
        block_size=block_size,
        max_num_seqs=draw(st.integers(1, min(6, budget))),
        max_num_batched_tokens=budget,
        max_model_len=draw(st.integers(1, longest + 40)) if kinds.model_limit else None,
        reserve_full_prompt=kinds.whole_prompt_gate,
        enable_prefix_caching=kinds.caching,
        evict_unhashed_first=kinds.unhashed_first,
        prompt_tail=prompt_tail,
        state_blocks=state_blocks,
        long_prefill_token_threshold=draw(st.integers(least, 40)) if kinds.chunk_limit else 0,
        watermark=draw(st.sampled_from((0.05, 0.25, 0.5))) if kinds.watermark else 0.0,
        max_num_queued_reqs=draw(st.none() | st.integers(1, 6)) if kinds.queue_limits else None,
        max_num_queued_tokens=draw(st.none() | st.integers(1, 200)) if kinds.queue_limits else None,
        scheduling_policy="priority" if kinds.priorities else "fcfs",
        async_scheduling=kinds.async_scheduling,
    )


@st.composite
def slot_scenarios(draw: st.DrawFn, binary: bool = False) -> Scenario:
    """A whole run of llama-server."""
    kinds = draw(features)
    step_time = draw(binary_step_times() if binary else decimal_step_times())
    settings = draw(servers(kinds, step_time))
    times = binary_times() if binary else decimal_times()
    traffic = draw(traffics(kinds, min(LONGEST_PROMPT, settings.slot_tokens + 2), times))
    polls_s = draw(st.lists(times, max_size=12))
    return Scenario(settings, traffic, tuple(sorted(polls_s)))


@st.composite
def servers(draw: st.DrawFn, kinds: Features, step_time: StepTime) -> SlotSettings:
    """A model limit becomes a tight context, the whole-prompt gate a unified pool."""
    parallel = draw(st.integers(1, 5))
    unified = kinds.whole_prompt_gate
    slot_tokens = draw(st.integers(2, 150 if kinds.model_limit else 600))
    ubatch_size = draw(st.integers(parallel, 24))
    return SlotSettings(
        step_time,
        ctx_size=slot_tokens if unified else slot_tokens * parallel + draw(st.integers(0, 1)),
        parallel=parallel,
        kv_unified=unified,
        kv_unified_per_slot=draw(st.sampled_from((None, 2, slot_tokens // 2 + 2, slot_tokens))),
        batch_size=draw(st.integers(ubatch_size, 64)),
        ubatch_size=ubatch_size,
        slot_prompt_similarity=draw(st.sampled_from((0.0, 0.1, 0.1, 0.5))),
        cache_prompt=kinds.caching,
        cache_ram=draw(st.sampled_from((0, 1, 100, 400, 10_000))),
        cache_idle_slots=draw(st.booleans()),
    )


@st.composite
def traffics(
    draw: st.DrawFn, kinds: Features, longest: int, times: st.SearchStrategy[float]
) -> Traffic:
    """Calls over a small tree of texts, in order of arrival; prompts of at most ``longest``."""
    texts = [Text()]
    for _ in range(draw(st.integers(0, 4))):
        texts.append(draw(_texts(kinds, texts, longest)))
    calls: list[Call] = []
    arrivals_s = draw(st.lists(times, min_size=1, max_size=12).map(sorted))
    for arrival_s in arrivals_s:
        if kinds.bursts and calls and draw(st.booleans()):
            arrival_s = calls[-1].arrival_s
        text, prompt_tokens = draw(_prompts(kinds, len(texts), calls, longest))
        answer = None
        if not (kinds.own_answers and draw(st.booleans())):
            answer = len(texts)
            texts.append(Text(text, prompt_tokens))
        cancel_s = None
        if kinds.cancellations and draw(st.booleans()):
            cancel_s = arrival_s + draw(times) / 4
        output_tokens = draw(st.integers(1, 400 if kinds.long_answers else 40))
        priority = draw(st.integers(-1, 2)) if kinds.priorities else 0
        calls.append(
            Call(arrival_s, text, prompt_tokens, output_tokens, cancel_s, answer, priority)
        )
    return Traffic(tuple(texts), tuple(calls))


@st.composite
def _texts(draw: st.DrawFn, kinds: Features, texts: list[Text], longest: int) -> Text:
    if not kinds.branches or not draw(st.booleans()):
        return Text()
    return Text(draw(st.integers(0, len(texts) - 1)), draw(st.integers(0, longest)))


@st.composite
def _prompts(
    draw: st.DrawFn, kinds: Features, texts: int, calls: list[Call], longest: int
) -> tuple[int, int]:
    """A text and a length: new, the exact repeat of an earlier call, or its next turn."""
    manner = draw(st.sampled_from(("new", "new", "repeat", "next", "edited")))
    if manner == "new" or not calls or not kinds.continuations:
        return draw(st.integers(0, texts - 1)), draw(st.integers(1, longest))
    earlier = draw(st.sampled_from(calls))
    if manner == "repeat":
        return earlier.text, earlier.prompt_tokens
    more = draw(st.integers(0, 20))
    if manner == "edited" or earlier.answer is None:
        return earlier.text, earlier.prompt_tokens + more
    return earlier.answer, earlier.prompt_tokens + earlier.output_tokens + more


def crowded(scenario: Scenario, trace: Trace) -> bool:
    """Does any event come so close to a step boundary that rounding decides their order?"""
    boundaries_s = sorted({step.end_s for step in trace.steps})
    for call in scenario.traffic.calls:
        for event_s in (call.arrival_s, call.cancel_s):
            if event_s is None or event_s in boundaries_s:
                continue
            if _is_near(event_s, boundaries_s):
                return True
    return any(_is_near(poll_s, boundaries_s) for poll_s in scenario.polls_s)


def near_a_boundary(event_s: float, trace: Trace) -> bool:
    """Does rounding decide whether a step ends before or after ``event_s``?"""
    return _is_near(event_s, sorted({step.end_s for step in trace.steps}))


def _is_near(event_s: float, boundaries_s: list[float]) -> bool:
    at = bisect_left(boundaries_s, event_s - CLEARANCE_S)
    return at < len(boundaries_s) and boundaries_s[at] <= event_s + CLEARANCE_S
