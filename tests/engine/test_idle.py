"""When a pod has nobody, against the slow engine; and who is told of it."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given

from sim.core.kernel import Kernel, Order
from sim.core.ports import PodPort
from sim.engine.pod import FrontedPod
from sim.hardware.engine import FrontEnd
from tests.engine.harness import AMPLE_BLOCKS, T0, Call, Client, pods, trace_steps, unrelated
from tests.engine.strategies import Scenario, crowded, many, scenarios, slot_scenarios
from tests.engine.test_span_equals_step import middles_s
from tests.oracle import Settings, Trace

AMPLE = Settings(T0, AMPLE_BLOCKS)
MOST_TIMES = 60


class Asked:
    """What was said when a pod was asked at some time."""

    def __init__(self, kernel: Kernel, pod: PodPort, time_s: float) -> None:
        self._kernel = kernel
        self._pod = pod
        self.time_s = time_s
        self.idle: bool | None = None
        self.told_s: list[float] = []
        kernel.at(time_s, Order.POLL, self._ask)

    def _ask(self) -> None:
        self.idle = self._pod.idle
        self._pod.when_idle(self._tell)

    def _tell(self) -> None:
        assert self._pod.idle
        self.told_s.append(self._kernel.now_s)


def idle_agrees(scenario: Scenario, trace: Trace, times_s: list[float]) -> None:
    kernel = Kernel()
    (pod,) = pods(scenario.settings, 1, kernel)
    Client(kernel, [pod], scenario.traffic).begin()
    answers = [Asked(kernel, pod, time_s) for time_s in times_s]
    kernel.run_until(float("inf"))
    for asked in answers:
        due_s = idle_from_s(scenario, trace, asked.time_s)
        assert asked.idle == (due_s == asked.time_s)
        assert asked.told_s == [pytest.approx(due_s, rel=0, abs=2e-9)]


def idle_from_s(scenario: Scenario, trace: Trace, time_s: float) -> float:
    """From when on nobody is there, if somebody is at ``time_s``, which is within no boundary."""
    for step in trace.steps:
        if step.end_s > time_s:
            if step.start_s > time_s:
                return time_s
            if not step.work_left and not _came_within(scenario, trace, step.start_s, step.end_s):
                return step.end_s
            time_s = step.end_s
            following = next((each for each in trace.steps if each.start_s >= time_s), None)
            if following is None or following.start_s > time_s:
                return time_s  # whoever was left has failed before another step
    return time_s


def _came_within(scenario: Scenario, trace: Trace, start_s: float, end_s: float) -> bool:
    """Has somebody come during the step who is there at its end?"""
    return any(
        start_s < call.arrival_s < end_s and (job.end_s is None or job.end_s >= end_s)
        for call, job in zip(scenario.traffic.calls, trace.jobs, strict=True)
    )


def times_between(trace: Trace) -> list[float]:
    """In the middle of steps and of gaps between two, and after all; of long runs every so many."""
    gaps = zip([0.0, *(step.end_s for step in trace.steps)], [*trace.steps, None])
    pauses = ((end_s + (step.start_s if step else end_s + 2.0)) / 2 for end_s, step in gaps)
    ends_s = {step.end_s for step in trace.steps}
    times_s = sorted({*middles_s(trace), *pauses} - ends_s - {0.0})
    return times_s[:: len(times_s) // MOST_TIMES + 1]


@many(80)
@given(scenarios())
def test_decimal_times_agree(scenario: Scenario) -> None:
    """If not, a pool drains a member that still computes for somebody, or one is never drained."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    assume(not crowded(scenario, trace))
    idle_agrees(scenario, trace, times_between(trace))


@many(80)
@given(scenarios(binary=True))
def test_binary_times_agree(scenario: Scenario) -> None:
    """If not, who comes at the very end of a step is there before it has ended, or who leaves
    at the very end is not; async: the step for nobody behind the last token is overlooked.
    """
    trace = trace_steps(scenario.settings, scenario.traffic)
    idle_agrees(scenario, trace, times_between(trace))


@many(60)
@given(slot_scenarios(binary=True))
def test_a_llama_server_agrees(scenario: Scenario) -> None:
    """If not, those who break off for want of KV leave a pod that is never told to be idle."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    idle_agrees(scenario, trace, times_between(trace))


def test_a_client_that_left_is_computed_until_the_end_of_the_step() -> None:
    """A pool would unload a model in the middle of a step: the proxy counts nobody any more, the
    engine is at work on 1,000 tokens until 60 ms.
    """
    kernel = Kernel()
    (pod,) = pods(AMPLE, 1, kernel)
    Client(kernel, [pod], unrelated(Call(0.0, 0, 1000, 5, cancel_s=0.02))).begin()
    asked = Asked(kernel, pod, 0.03)
    kernel.run_until(1.0)
    assert not asked.idle
    assert asked.told_s == [pytest.approx(0.06)]


def test_a_client_that_leaves_before_the_first_step_leaves_nobody() -> None:
    """Whoever waits for the pod to be idle would wait for the step of a request that is gone."""
    kernel = Kernel()
    (pod,) = pods(AMPLE, 1, kernel)
    client = Client(kernel, [pod], unrelated(Call(0.5, 0, 1000, 5)))
    client.begin()
    told_s: list[float] = []
    leave: Callable[[], None] = lambda: pod.cancel(client.observations()[0].jobs[0])  # type: ignore[arg-type]  # noqa: E731
    kernel.at(0.5, Order.ARRIVAL, lambda: pod.when_idle(lambda: told_s.append(kernel.now_s)))
    kernel.at(0.5, Order.ARRIVAL, leave)
    kernel.run_until(0.5)
    kernel.run_until(2.0)
    assert told_s == [0.5]
    assert pod.idle


def test_of_those_that_end_together_the_last_is_told_before_the_pod_is_idle() -> None:
    """A pool that stops a pod when it is told of the first end would cut off the second, whose
    tokens have all been given.
    """
    kernel = Kernel()
    (pod,) = pods(AMPLE, 1, kernel)
    client = Client(kernel, [pod], unrelated(Call(0.0, 0, 100, 2), Call(0.0, 1, 100, 2)))
    client.begin()
    seen: list[tuple[int, int, bool]] = []

    def note() -> None:
        seen.append((len(client.told), pod.totals(kernel.now_s).emitted_tokens, pod.idle))

    kernel.at(0.001, Order.POLL, lambda: pod.when_idle(note))
    kernel.run_until(1.0)
    assert seen == [(2, 4, True)]


@pytest.mark.parametrize(("leaves_s", "idle_s"), [(None, 0.017 + 0.06), (0.016, 0.016)])
def test_who_is_being_tokenised_is_there(leaves_s: float | None, idle_s: float) -> None:
    """A pod would count as idle while a request is on its way to its engine, and be unloaded
    under it; or nobody would be told when that request's client has left.
    """
    kernel = Kernel()
    (engine,) = pods(AMPLE, 1, kernel)
    pod = FrontedPod(engine, FrontEnd(per_request=0.015, per_prompt_token=2e-6), kernel)
    Client(kernel, [pod], unrelated(Call(0.0, 0, 1000, 1, cancel_s=leaves_s))).begin()
    asked = Asked(kernel, pod, 0.01)
    late = Asked(kernel, pod, 1.0)
    kernel.run_until(2.0)
    assert not asked.idle
    assert asked.told_s == [pytest.approx(idle_s)]
    assert late.idle and late.told_s == [1.0]


def test_who_is_refused_by_the_engine_leaves_nobody() -> None:
    """The pod would wait for ever for the end of a request that its engine never took."""
    kernel = Kernel()
    (engine,) = pods(Settings(T0, AMPLE_BLOCKS, max_model_len=10), 1, kernel)
    pod = FrontedPod(engine, FrontEnd(per_request=0.015), kernel)
    Client(kernel, [pod], unrelated(Call(0.0, 0, 1000, 1))).begin()
    asked = Asked(kernel, pod, 0.01)
    kernel.run_until(1.0)
    assert asked.told_s == [0.015]
