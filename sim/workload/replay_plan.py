"""From recorded block ids to conversations: what each call repeats of the calls before it.

Ids are compared as sequences from the first one, never singly: not every
trace chains its ids. A call whose ids begin with all ids of an earlier one
repeats that whole prompt, the part of a block behind its last id included,
and its answer too if it is long enough and answers are sent back. What
follows the last id is the call's own.
"""

from typing import Literal, NamedTuple

from sim.workload.recorded import Call, Recording, Runs, SubAgent

Think = Literal["corrected", "recorded"]


class Plan(NamedTuple):
    """The turns of one conversation, one entry each.

    Turn i repeats ``kept_tokens[i]`` tokens of the prompt of turn ``base[i]``,
    or, when that is turn i - 1 and ``kept_tokens[i]`` is its whole prompt, the
    whole text so far. ``think_s`` passes before the turn, after the sub-agents
    that run before it have come back.
    """

    model: str
    shared_tokens: int
    prompt_tokens: list[int]
    output_tokens: list[int]
    base: list[int]
    kept_tokens: list[int]
    sent_back: list[bool]
    think_s: list[float]
    sub_agents: dict[int, list["SubPlan"]]


class SubPlan(NamedTuple):
    """A sub-agent: its first request goes out ``start_s`` after the end of the call before."""

    kind: str
    start_s: float
    plan: Plan


class Rules(NamedTuple):
    """How recordings are cut, timed and read."""

    max_context: int
    cap_s: float
    think: Think
    reuse_output: bool
    sub_agents: bool


def kept_calls(calls: list[Call], max_context: int) -> list[Call]:
    """The calls before the first one whose prompt is longer than ``max_context`` tokens."""
    for index, call in enumerate(calls):
        if call.prompt_tokens > max_context:
            return calls[:index]
    return calls


def plan_session(recording: Recording, rules: Rules) -> Plan:
    """The turns of a recorded session, its sub-agents with them."""
    calls = kept_calls(recording.calls, rules.max_context)
    delays = _delays_s(calls, rules.think)
    sub_agents: dict[int, list[SubPlan]] = {}
    if rules.sub_agents:
        for index, group in recording.sub_agents.items():
            plans = [_plan_sub_agent(sub, recording.block_tokens, rules) for sub in group]
            started = [plan for plan in plans if plan is not None]
            if index > len(calls) or not started:
                continue
            sub_agents[index] = started
            if index < len(calls):
                # The recorded delay covers the sub-agents, which now take their own time.
                delays[index] = max(0.0, delays[index] - max(sub.end_s for sub in group))
    think_s = [_capped(delay_s, rules.cap_s) for delay_s in delays]
    plan = _plan(calls, recording.shared_tokens, recording.block_tokens, think_s, rules)
    return plan._replace(sub_agents=sub_agents)


def _plan_sub_agent(sub: SubAgent, block_tokens: int, rules: Rules) -> SubPlan | None:
    calls = kept_calls(sub.calls, rules.max_context)
    if not calls:
        return None
    think_s = [_capped(delay_s, rules.cap_s) for delay_s in _delays_s(calls, rules.think)]
    plan = _plan(calls, sub.shared_tokens, block_tokens, think_s, rules)
    return SubPlan(sub.kind, _capped(sub.start_s + think_s[0], rules.cap_s), plan)


def _capped(delay_s: float, cap_s: float) -> float:
    return round(min(delay_s, cap_s) * 1e6) / 1e6


def _delays_s(calls: list[Call], think: Think) -> list[float]:
    """Client delays before the calls.

    The recording proxy sent every turn twice, so a recorded delay holds the
    other call: of a non-streamed call its own time, of a streamed one that of
    the call before.
    """
    delays = []
    before_s = 0.0
    for call in calls:
        recorded_s = call.think_s or 0.0
        doubled_s = before_s if call.streamed else call.api_s
        delays.append(recorded_s if think == "recorded" else max(0.0, recorded_s - doubled_s))
        before_s = call.api_s
    return delays


def _plan(
    calls: list[Call], shared_tokens: int, block_tokens: int, think_s: list[float], rules: Rules
) -> Plan:
    base, kept_tokens = _matches(calls, block_tokens)
    sent_back = [
        rules.reuse_output
        and base[index + 1] == index
        and kept_tokens[index + 1] == call.prompt_tokens
        and calls[index + 1].prompt_tokens >= call.prompt_tokens + max(call.output_tokens, 1)
        for index, call in enumerate(calls[:-1])
    ]
    return Plan(
        calls[0].model,
        min(shared_tokens, calls[0].prompt_tokens),
        [call.prompt_tokens for call in calls],
        [max(call.output_tokens, 1) for call in calls],
        base,
        kept_tokens,
        [*sent_back, True],  # nobody asks after the last answer
        think_s,
        {},
    )


def _matches(calls: list[Call], block_tokens: int) -> tuple[list[int], list[int]]:
    """For each call the earlier one it repeats most of, the latest of equals, and how much."""
    bases, kept = [-1], [0]
    for index in range(1, len(calls)):
        call = calls[index]
        best = index - 1
        best_tokens = _repeated(calls[best], call, block_tokens)
        if best_tokens < calls[best].prompt_tokens:
            # An edit: the text may go back to what it was before the call before.
            for earlier in range(index - 2, -1, -1):
                tokens = _repeated(calls[earlier], call, block_tokens)
                if tokens > best_tokens:
                    best, best_tokens = earlier, tokens
        bases.append(best)
        kept.append(best_tokens)
    return bases, kept


def _repeated(earlier: Call, later: Call, block_tokens: int) -> int:
    """Leading tokens of the prompt of ``earlier`` that ``later`` repeats."""
    equal = leading_equal(earlier.runs, later.runs)
    if equal and equal == sum(count for _, count in earlier.runs):
        return min(earlier.prompt_tokens, later.prompt_tokens)
    return equal * block_tokens


def leading_equal(one: Runs, other: Runs) -> int:
    """How many leading ids of two run-length encoded sequences are equal."""
    equal = 0
    for (first, count), (other_first, other_count) in zip(one, other):
        if first != other_first:
            break
        equal += min(count, other_count)
        if count != other_count:
            break
    return equal
