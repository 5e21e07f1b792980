"""Recorded agent sessions, and what each of their calls repeats of the calls before it.

A file has the kv-cache-tester format with run-length encoded block ids: one
JSON object per line is one session. The format and what is wrong with the
recording are described beside the trace (``scenarios/traces/README.md``).

Ids are compared as sequences from the first one, never singly: not every
trace chains its ids. A call whose ids begin with all ids of an earlier one
repeats that whole prompt, the part of a block behind its last id included,
and its answer too if it is long enough and answers are sent back. What
follows the last id is the call's own.
"""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, PlainValidator, Tag, model_validator
from pydantic_core import core_schema

from sim.core.fields import describe, refuse
from sim.workload.files import JsonLines, Must, filled, illegal, or_null, record, times, tokens

Think = Literal["corrected", "recorded"]

Runs: TypeAlias = list[tuple[int, int]]
"""Block ids as (first, count): first, first + 1, ...; a run ends only where the ids jump."""

TYPES: Final = ("n", "s", "subagent")
Tokens = Annotated[int, tokens("a whole number of tokens, 0 or more", low=0)]
PositiveTokens = Annotated[int, tokens("a whole number of tokens, at least 1", low=1)]
Seconds = Annotated[float, times()]
MaybeSeconds = Annotated[float | None, or_null(times())]
MaybeMilliseconds = Annotated[float | None, or_null(times("milliseconds", 1e3))]
Name = Annotated[str, Must("a name", core_schema.str_schema(strict=True))]


def _runs(found: Any) -> Runs:
    """Return the runs without those that only go on with the one before."""
    runs: Runs = []
    following = None
    try:
        for first, count in found:
            if type(first) is not int or type(count) is not int or count < 1:
                raise ValueError
            if first == following:
                before, length = runs.pop()
                runs.append((before, length + count))
            else:
                runs.append((first, count))
            following = first + count
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, list):
        raise illegal("must be a list of [first id, count of ids]")
    return runs


@record
class Call:
    """One request; ``think_time`` is the delay before it as recorded, seconds as all times."""

    type: Literal["n", "s"]
    t: Seconds
    think_time: MaybeSeconds = None
    api_time: MaybeSeconds = None
    prompt_tokens: PositiveTokens = Field(alias="in")
    output_tokens: Tokens = Field(alias="out")
    model: Name
    runs: Annotated[Runs, PlainValidator(_runs)] = Field(alias="hash_runs")

    @property
    def api_s(self) -> float:
        """How long its answer took."""
        return self.api_time or 0.0


def _typed(found: Any) -> Any:
    """Refuse what is no request of a known type, before its keys are looked at."""
    if not isinstance(found, dict):
        raise illegal(f"must be an object; got {describe(found)}")
    if found.get("type") not in TYPES:
        said = f"must be one of {', '.join(TYPES)}; got {describe(found.get('type'))}"
        refuse([("type", said)])
    return filled(SubAgent if found["type"] == "subagent" else Call, found)


def _listed(found: Any) -> Any:
    if isinstance(found, list) and found:
        return found
    got = "an empty list" if found == [] else describe(found)
    raise illegal(f"must be a list of requests; got {got}")


def _is_call(found: Any) -> Any:
    """Refuse a sub-agent of a sub-agent."""
    if _typed(found)["type"] == "subagent":
        refuse([("type", f"must be one of {', '.join(TYPES)}; got 'subagent'")])
    return found


@record
class SubAgent:
    """A conversation that the session starts and waits for.

    ``t`` is when it came back; of one without a duration, when it was started.
    """

    type: Literal["subagent"]
    t: Seconds
    requests: Annotated[list[Annotated[Call, BeforeValidator(_is_call)]], BeforeValidator(_listed)]
    duration_ms: MaybeMilliseconds = None
    subagent_type: Name
    tool_tokens: Tokens
    system_tokens: Tokens

    def numbered(self) -> list[tuple[str, Call]]:
        """Return its calls with their places in it."""
        return [(f"requests[{index}].", call) for index, call in enumerate(self.requests)]

    def times_s(self, ended_s: float) -> tuple[float, float]:
        """Return when it starts and ends, from the end of the call before it at ``ended_s``."""
        if self.duration_ms is None:
            start_s = self.t - ended_s
            length_s = sum((call.think_time or 0.0) + call.api_s for call in self.requests)
        else:
            length_s = self.duration_ms / 1e3
            start_s = self.t - length_s - ended_s
        start_s = max(0.0, start_s)
        return start_s, start_s + length_s


Entry = Annotated[
    Annotated[Call, Tag("<call>")] | Annotated[SubAgent, Tag("<sub-agent>")],
    Discriminator(lambda found: "<sub-agent>" if found["type"] == "subagent" else "<call>"),
    BeforeValidator(_typed),
]


@record
class Session:
    """One line."""

    id: Name = ""
    block_size: PositiveTokens
    tool_tokens: Tokens
    system_tokens: Tokens
    requests: Annotated[list[Entry], BeforeValidator(_listed)]

    @model_validator(mode="after")
    def _agrees(self) -> "Session":
        problems = []
        if isinstance(self.requests[0], SubAgent):
            problems.append(("requests[0]", "a session begins with a request of its own"))
        for index, entry in enumerate(self.requests):
            calls = [("", entry)] if isinstance(entry, Call) else entry.numbered()
            for below, call in calls:
                blocks, most = sum(n for _, n in call.runs), call.prompt_tokens // self.block_size
                if blocks > most:
                    said = f"lists {blocks} full blocks; the prompt has {most}"
                    problems.append((f"requests[{index}].{below}hash_runs", said))
        refuse(problems)
        return self

    @property
    def calls(self) -> list[Call]:
        """The requests of the session itself."""
        return [entry for entry in self.requests if isinstance(entry, Call)]


def read_sessions(path: Path) -> list[Session]:
    """Return the sessions of a file, plain or gzipped.

    Raises ``ScenarioError`` with line, path and value of everything that is wrong.
    """
    lines = JsonLines(path, "a session, an object")
    sessions: list[Session] = []
    named: dict[str, int] = {}  # the line of each id; twice there, a session would count double
    for number, session in lines.rows(Session):
        first = named.setdefault(session.id, number) if session.id else number
        if first != number:
            said = f"{describe(session.id)} is the id of the session in line {first} already"
            lines.fault(number, "id", said)
        sessions.append(session)
    if not sessions and not lines.faults:
        lines.fault(0, "", "is empty; one session per line is needed")
    lines.refuse_faults()
    return sessions


class Turn(NamedTuple):
    """One request of a conversation.

    It repeats ``kept_tokens`` tokens of the prompt of turn ``base``, or, when that is the turn
    before and they are its whole prompt, the whole text so far. ``think_s`` passes before it,
    after the sub-agents that run before it have come back; ``sub_agents`` start when it ends.
    """

    prompt_tokens: int
    output_tokens: int
    base: int
    kept_tokens: int
    sent_back: bool
    think_s: float
    sub_agents: "tuple[Plan, ...]" = ()


class Plan(NamedTuple):
    """One conversation: a session, or a sub-agent of some ``kind``.

    The first request of a sub-agent goes out after the think time of its first turn, counted
    from the end of the call before.
    """

    kind: str
    model: str
    shared_tokens: int
    turns: list[Turn]


class Rules(NamedTuple):
    """How recordings are cut, timed and read."""

    max_context: int
    cap_s: float
    think: Think
    reuse_output: bool
    sub_agents: bool


def kept_calls(calls: list[Call], max_context: int) -> list[Call]:
    """Return the calls before the first one whose prompt is longer than ``max_context`` tokens."""
    longer = (index for index, call in enumerate(calls) if call.prompt_tokens > max_context)
    return calls[: next(longer, len(calls))]


def plan_session(session: Session, rules: Rules) -> Plan:
    """Return the turns of a recorded session, its sub-agents with them."""
    calls = kept_calls(session.calls, rules.max_context)
    delays = _delays_s(calls, rules.think)
    started: dict[int, list[Plan]] = {}  # by the number of calls before
    for index, group in _groups(session).items() if rules.sub_agents else ():
        plans = [_plan_sub_agent(sub, start_s, session, rules) for sub, start_s, _ in group]
        started[index] = [plan for plan in plans if plan is not None]
        if index < len(calls) and started[index]:
            # The recorded delay covers the sub-agents, which now take their own time.
            delays[index] = max(0.0, delays[index] - max(end_s for _, _, end_s in group))
    think_s = [_capped(delay_s, rules.cap_s) for delay_s in delays]
    turns = [
        turn._replace(sub_agents=tuple(started.get(index, ())))
        for index, turn in enumerate(_turns(calls, think_s, session.block_size, rules), start=1)
    ]
    return _plan("", session, calls, turns)


def _groups(session: Session) -> dict[int, list[tuple[SubAgent, float, float]]]:
    """Return sub-agents with their start and end, by the number of calls before them."""
    groups: dict[int, list[tuple[SubAgent, float, float]]] = {}
    calls = 0
    ended_s = 0.0
    for entry in session.requests:
        if isinstance(entry, Call):
            calls += 1
            ended_s = entry.t + entry.api_s
        else:
            groups.setdefault(calls, []).append((entry, *entry.times_s(ended_s)))
    return groups


def _plan_sub_agent(sub: SubAgent, start_s: float, session: Session, rules: Rules) -> Plan | None:
    calls = kept_calls(sub.requests, rules.max_context)
    if not calls:
        return None
    think_s = [_capped(delay_s, rules.cap_s) for delay_s in _delays_s(calls, rules.think)]
    think_s[0] = _capped(start_s + think_s[0], rules.cap_s)
    turns = _turns(calls, think_s, session.block_size, rules)
    return _plan(sub.subagent_type, sub, calls, turns)


def _plan(kind: str, owner: Session | SubAgent, calls: list[Call], turns: list[Turn]) -> Plan:
    shared_tokens = min(owner.tool_tokens + owner.system_tokens, calls[0].prompt_tokens)
    return Plan(kind, calls[0].model, shared_tokens, turns)


def _capped(delay_s: float, cap_s: float) -> float:
    return round(min(delay_s, cap_s) * 1e6) / 1e6


def _delays_s(calls: list[Call], think: Think) -> list[float]:
    """Return the client delays before the calls.

    The recording proxy sent every turn twice, so a recorded delay holds the
    other call: of a non-streamed call its own time, of a streamed one that of
    the call before.
    """
    delays = []
    before_s = 0.0
    for call in calls:
        recorded_s = call.think_time or 0.0
        doubled_s = before_s if call.type == "s" else call.api_s
        delays.append(recorded_s if think == "recorded" else max(0.0, recorded_s - doubled_s))
        before_s = call.api_s
    return delays


def _turns(calls: list[Call], think_s: list[float], block_tokens: int, rules: Rules) -> list[Turn]:
    """Return the turns of a conversation without its sub-agents."""
    matches = _matches(calls, block_tokens)
    turns = []
    for index, call in enumerate(calls):
        sent_back = True  # nobody asks after the last answer
        if index + 1 < len(calls):
            whole = call.prompt_tokens + max(call.output_tokens, 1)
            sent_back = (
                rules.reuse_output
                and matches[index + 1] == (index, call.prompt_tokens)
                and calls[index + 1].prompt_tokens >= whole
            )
        base, kept_tokens = matches[index]
        output_tokens = max(call.output_tokens, 1)
        turns.append(
            Turn(call.prompt_tokens, output_tokens, base, kept_tokens, sent_back, think_s[index])
        )
    return turns


def _matches(calls: list[Call], block_tokens: int) -> list[tuple[int, int]]:
    """Return for each call which earlier one it repeats most of, the latest of equals, and how
    much."""
    matches = [(-1, 0)]
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
        matches.append((best, best_tokens))
    return matches


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
