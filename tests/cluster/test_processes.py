"""Replicas that go down, load and come back: who is told what, and what is counted."""

from collections.abc import Callable
from functools import partial

import pytest

from sim.core.errors import InvariantError
from sim.core.kernel import Kernel, Order
from sim.core.ports import PodPort, PodTotals, StepReport
from sim.core.request import Attempt, Reason, Status
from sim.engine.lifecycle import RankProcess, ReplicaLifecycle
from sim.engine.pod import FrontedPod
from sim.hardware.engine import FrontEnd
from tests.engine.harness import AMPLE_BLOCKS, T0, Call, pods, unrelated
from tests.oracle import Settings

AMPLE = Settings(T0, AMPLE_BLOCKS)


class BuildContext:
    """A replica on a clock, and a client that notes what it is told and may act on it."""

    def __init__(self, ranks: int = 1, front_end: FrontEnd | None = None) -> None:
        self.kernel = Kernel()
        self._front_end = front_end
        self.replica = ReplicaLifecycle(partial(self._engines, ranks), self.kernel)
        self.told: list[Attempt] = []
        self.reports: list[StepReport] = []
        self.on_end: Callable[[Attempt], None] = self.told.append

    @property
    def pod(self) -> RankProcess:
        return self.replica.processes[0]

    def _engines(self, ranks: int) -> list[PodPort]:
        engines = pods(AMPLE, ranks, self.kernel)
        if self._front_end is None:
            return list(engines)
        return [FrontedPod(each, self._front_end, self.kernel) for each in engines]

    def first_token(self, attempt: Attempt) -> None:
        """Nobody asks."""

    def ended(self, attempt: Attempt) -> None:
        self.on_end(attempt)

    def stepped(self, report: StepReport) -> None:
        self.reports.append(report)

    def send(self, time_s: float, prompt_tokens: int, output_tokens: int, rank: int = 0) -> Attempt:
        traffic = unrelated(Call(time_s, 0, prompt_tokens, output_tokens))
        request = traffic.request(traffic.calls[0], traffic.nodes())
        attempt = Attempt(request, 1, "", "", rank, "", "", None, time_s, time_s, listener=self)
        pod = self.replica.processes[rank]
        self.kernel.at(time_s, Order.ARRIVAL, lambda: pod.submit(attempt))
        return attempt

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        self.kernel.at(time_s, Order.FAULT, action)


def test_time_is_ready_loading_or_neither() -> None:
    """GPU hours of members would be wrong: of a load that was given up, of a life that goes on,
    or of the time in which the process was down.
    """
    site = BuildContext()
    replica, pod = site.replica, site.pod
    for time_s, action in (
        (1.0, replica.begin_loading),
        (4.0, replica.stop),  # given up
        (10.0, replica.begin_loading),
        (15.0, replica.start),
        (35.0, replica.stop),
        (40.0, replica.start),  # without a load
    ):
        site.at(time_s, action)

    def counted(until_s: float) -> tuple[float, float, int]:
        site.kernel.run_until(until_s)
        totals = pod.totals(site.kernel.now_s)
        return totals.ready_s, totals.loading_s, totals.loads

    assert counted(3.0) == (0.0, 2.0, 1)
    assert counted(9.0) == (0.0, 3.0, 1)
    assert counted(20.0) == (5.0, 8.0, 2)
    assert counted(39.0) == (20.0, 8.0, 2)
    assert counted(50.0) == (30.0, 8.0, 2)


def test_who_is_not_ready_neither_takes_nor_answers() -> None:
    """Requests would wait in a process that does not exist, and polls would be answered."""
    site = BuildContext()
    early = site.send(1.0, 10, 1)
    site.at(0.5, site.replica.begin_loading)
    site.kernel.run_until(2.0)
    assert (early.status, early.end_s, early.http_status) == (Status.FAILED, 1.0, None)
    assert early.end_reason == Reason.CONNECTION_REFUSED
    assert site.told == [early]
    assert (site.pod.ready, site.pod.idle, site.pod.published(2.0)) == (False, True, None)
    site.pod.start()
    assert site.pod.ready and site.pod.published(2.0) == (0, 0, 0.0)


def test_work_is_counted_over_all_lives() -> None:
    """A pod that came back would have done nothing before, and totals would fall."""
    site = BuildContext()
    site.replica.start()
    for time_s in (0.0, 1.0, 2.0):
        site.send(time_s, 1000, 3)
    site.at(0.075, site.replica.stop)  # prefill of 60 ms, a token of 10.1 ms, part of another
    for time_s in (0.5, 1.5):
        site.at(time_s, site.replica.start)
    site.at(1.4, site.replica.stop)
    site.kernel.run_until(0.3)
    once = site.pod.totals(0.3)
    assert once == PodTotals(2, 1000, steps=2, busy_s=pytest.approx(0.075), ready_s=0.075)
    site.kernel.run_until(3.0)
    thrice = site.pod.totals(3.0)
    assert (thrice.emitted_tokens, thrice.computed_tokens, thrice.steps) == (8, 3000, 8)
    assert thrice.busy_s == pytest.approx(0.075 + 2 * 0.0802)


@pytest.mark.parametrize("stop_s", [0.05, 0.075, 0.5])
def test_an_engine_that_has_ended_counts_no_more(stop_s: float) -> None:
    """The end of the step that was in flight would still come and be counted, or what a span has
    given would be forgotten. An arrival at 0.5 s would have its step, which is planned afterwards.
    """
    site = BuildContext()
    (engine,) = pods(AMPLE, 1, site.kernel)
    site.replica = ReplicaLifecycle(lambda: [engine], site.kernel)
    site.replica.start()
    site.send(0.0, 1000, 3)
    late = site.send(0.5, 1000, 3)
    counted: list[PodTotals] = []

    def stop() -> None:
        counted.append(engine.totals(site.kernel.now_s))
        site.replica.stop()
        counted.append(engine.totals(site.kernel.now_s))

    site.kernel.at(stop_s, Order.ARRIVAL, stop)
    site.kernel.run_until(2.0)
    counted.append(engine.totals(2.0))
    assert counted[0] == counted[1] == counted[2]
    assert late.first_token_s is None
    assert engine.idle and engine.published(2.0) == (0, 0, 0.0)


def test_an_observer_sees_every_life_and_the_step_that_is_cut() -> None:
    """A timeline would lack the work of a pod that came back, or show a step that never ended."""
    site = BuildContext()
    site.pod.watch(site)
    site.replica.start()
    site.send(0.0, 1000, 9)
    site.send(1.0, 1000, 1)
    site.at(0.085, site.replica.stop)
    site.at(0.5, site.replica.start)
    site.kernel.run_until(2.0)
    seen = [(report.start_s, report.end_s, report.steps) for report in site.reports]
    assert seen == [
        (0.0, pytest.approx(0.06), 1),
        (pytest.approx(0.06), 0.085, 3),  # two whole ones and part of a third
        (1.0, pytest.approx(1.06), 1),
    ]


def test_no_rank_serves_when_the_first_client_is_told() -> None:
    """A router would send a request that broke off at one rank to another one that is dying."""
    site = BuildContext(ranks=2)
    site.replica.start()
    sent = [site.send(0.0, 100, 50), site.send(0.0, 100, 50, rank=1), site.send(0.0, 100, 50)]
    ready: list[list[bool]] = []

    def note(attempt: Attempt) -> None:
        site.told.append(attempt)
        ready.append([pod.ready for pod in site.replica.processes])

    site.on_end = note
    site.at(0.2, site.replica.processes[1].stop)
    site.kernel.run_until(1.0)
    assert site.told == [sent[0], sent[2], sent[1]]
    assert ready == [[False, False]] * 3
    assert [attempt.emitted_tokens for attempt in sent] == [18] * 3


def test_a_client_that_leaves_while_others_are_told_is_not_told() -> None:
    """Whoever gives up a second request when the first one breaks would get two answers to it."""
    site = BuildContext()
    site.replica.start()
    first, second = site.send(0.0, 100, 50), site.send(0.0, 100, 50)

    def leave(attempt: Attempt) -> None:
        site.told.append(attempt)
        second.status = Status.CANCELLED
        site.pod.cancel(second)

    site.on_end = leave
    site.at(0.1, site.replica.stop)
    site.kernel.run_until(1.0)
    assert site.told == [first]
    assert (first.status, second.status) == (Status.FAILED, Status.CANCELLED)
    assert second.emitted_tokens == first.emitted_tokens > 0


def test_those_that_end_with_a_step_are_served_whoever_stops_the_pod() -> None:
    """Who has all tokens would be told that the connection is lost, or nobody would tell it."""
    site = BuildContext()
    site.replica.start()
    sent = [site.send(0.0, 100, 2), site.send(0.0, 100, 2), site.send(0.0, 100, 9)]

    def stop(attempt: Attempt) -> None:
        if not site.told:
            site.told.append(attempt)
            site.replica.stop()
        else:
            site.told.append(attempt)

    site.on_end = stop
    site.kernel.run_until(1.0)
    assert site.told == [sent[0], sent[2], sent[1]]
    assert [each.status for each in sent] == [Status.COMPLETED, Status.COMPLETED, Status.FAILED]
    assert [each.emitted_tokens for each in sent] == [2, 2, 2]


def test_the_front_end_ends_with_the_engine() -> None:
    """A request that is being tokenised would reach the engine of the next life, or get lost."""
    site = BuildContext(front_end=FrontEnd(per_request=0.05))
    site.replica.start()
    inside, on_its_way = site.send(0.0, 1000, 9), site.send(0.08, 1000, 9)
    site.at(0.1, site.replica.stop)
    site.at(0.1, site.replica.start)
    site.kernel.run_until(1.0)
    assert site.told == [inside, on_its_way]
    assert [each.end_reason for each in site.told] == [Reason.CONNECTION_LOST] * 2
    assert [each.end_s for each in site.told] == [0.1] * 2
    assert site.pod.totals(1.0).steps == 0


@pytest.mark.parametrize("front_end", [None, FrontEnd(per_request=0.01)])
def test_a_stop_forgets_who_waits_for_the_pod_to_be_idle(front_end: FrontEnd | None) -> None:
    """A pool that has lost a member would be told that it may unload it."""
    site = BuildContext(front_end=front_end)
    site.replica.start()
    site.send(0.0, 1000, 9)
    called: list[float] = []
    for time_s in (0.005, 0.02):
        site.at(time_s, lambda: site.pod.when_idle(lambda: called.append(site.kernel.now_s)))
    site.at(0.03, site.replica.stop)
    site.at(0.04, site.replica.start)
    site.kernel.run_until(1.0)
    assert called == []
    site.pod.when_idle(lambda: called.append(site.kernel.now_s))
    assert called == [1.0]


def test_a_life_begins_once() -> None:
    """A load would be counted twice, or an engine be replaced with its requests inside."""
    site = BuildContext()
    site.replica.begin_loading()
    with pytest.raises(InvariantError, match="cannot load: not down"):
        site.pod.begin_loading()
    site.pod.start()
    with pytest.raises(InvariantError, match="cannot load: not down"):
        site.replica.begin_loading()
    with pytest.raises(InvariantError, match="cannot start: ready already"):
        site.replica.start()
    site.pod.stop()
    site.pod.stop()
    site.pod.begin_loading()


def test_who_asked_is_told_once_when_somebody_comes() -> None:
    """An exact idle clock would count on over a request that comes and goes, or be stopped by one
    that nobody took.
    """
    site = BuildContext()
    told: list[float] = []
    site.pod.when_busy(lambda: told.append(site.kernel.now_s))
    site.send(1.0, 10, 1)  # nobody listens yet
    site.at(2.0, site.replica.start)
    for time_s in (3.0, 4.0):
        site.send(time_s, 10, 1)
    site.kernel.run_until(5.0)
    assert told == [3.0]
