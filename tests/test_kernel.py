"""The clock: one order of events, half-open horizons, processes that may fail."""

import pytest

from sim.core.errors import Misuse
from sim.core.kernel import Kernel, Order, Process


def test_events_of_one_instant_run_in_their_order() -> None:
    """C68: the order of creation must decide only between events of one kind."""
    kernel = Kernel()
    log: list[str] = []
    for name, order in (
        ("timeout", Order.CLIENT_TIMEOUT),
        ("arrival 1", Order.ARRIVAL),
        ("poll", Order.POLL),
        ("step end", Order.STEP_END),
        ("arrival 2", Order.ARRIVAL),
        ("window", Order.WINDOW),
    ):
        kernel.at(10.0, order, lambda name=name: log.append(name))
    kernel.run_until(11.0)
    assert log == ["window", "step end", "poll", "arrival 1", "arrival 2", "timeout"]


def test_the_horizon_is_half_open() -> None:
    """An event at the horizon belongs to what comes after it."""
    kernel = Kernel()
    log: list[float] = []
    for time_s in (1.0, 2.0):
        kernel.at(time_s, Order.ARRIVAL, lambda: log.append(kernel.now_s))
    kernel.run_until(2.0)
    assert (log, kernel.now_s) == ([1.0], 2.0)
    kernel.run_until(3.0)
    assert log == [1.0, 2.0]


def test_the_clock_never_goes_back() -> None:
    """INV-5: an event in the past is a bug that must not pass for an event of now."""
    kernel = Kernel()
    kernel.at(5.0, Order.ARRIVAL, lambda: kernel.at(1.0, Order.ARRIVAL, lambda: None))
    with pytest.raises(Misuse, match=r"clock would go back.* 1\.0 s"):
        kernel.run_until(10.0)


def test_a_time_that_is_no_number_is_told_with_who_asked_for_it() -> None:
    """It ran at once and put the clock out of order: whoever came next was late, or blamed."""
    kernel = Kernel()

    def later() -> None:
        """Somebody else's."""

    def wrong() -> None:
        """What was asked for."""

    def ask() -> None:
        kernel.at(float("nan"), Order.ARRIVAL, wrong)
        for time_s in (4.0, 3.0, 2.0):
            kernel.at(time_s, Order.ARRIVAL, later)

    kernel.at(1.0, Order.ARRIVAL, ask)
    with pytest.raises(Misuse, match="due at nan s") as raised:
        kernel.run_until(10.0)
    assert raised.value.culprit is wrong


def test_nobody_sleeps_until_what_is_past() -> None:
    """A process that does would be told as a fault of the clock, far from its own lines."""
    kernel = Kernel()
    for time_s in (-1.0, float("nan")):
        with pytest.raises(Misuse, match="clock would go back"):
            kernel.sleep_until(time_s, Order.ARRIVAL)


def test_the_phase_is_the_highest_order_of_the_instant() -> None:
    """What a client timeout brings about at once must be known to come after planning."""
    kernel = Kernel()
    seen: list[int] = []

    def leave() -> None:
        kernel.at(1.0, Order.ARRIVAL, lambda: seen.append(kernel.phase))

    kernel.at(1.0, Order.CLIENT_TIMEOUT, leave)
    kernel.at(2.0, Order.ARRIVAL, lambda: seen.append(kernel.phase))
    kernel.run_until(3.0)
    assert seen == [Order.CLIENT_TIMEOUT, Order.ARRIVAL]


def test_a_process_sleeps_and_its_failure_is_told() -> None:
    """A process that dies must end the run with its own error, not with one of the clock."""
    kernel = Kernel()
    log: list[float] = []

    def process() -> Process:
        for time_s in (0.5, 0.5, 4.0):
            yield kernel.sleep_until(time_s, Order.POLL)
            log.append(kernel.now_s)
        raise RuntimeError("boom")

    kernel.spawn(process())
    with pytest.raises(RuntimeError, match="boom"):
        kernel.run_until(10.0)
    assert log == [0.5, 0.5, 4.0]


def test_a_run_can_be_stopped_and_watched() -> None:
    """``stop`` ends after the present callback, where the clock then stands."""
    kernel = Kernel()
    ticks: list[float] = []
    for index in range(5000):
        kernel.at(index / 1000, Order.ARRIVAL, lambda: None)
    kernel.at(4.5, Order.OBSERVATION, kernel.stop)
    kernel.run_until(float("inf"), ticks.append)
    assert (kernel.now_s, kernel.events) == (4.5, 4502)
    assert ticks == [4.095]


def test_each_order_looks_for_what_is_due_before_it() -> None:
    """A timer for which nothing is due would let a later one overtake what that one waits for."""
    kernel = Kernel()
    log: list[str] = []
    kernel.at_instant(0.3, Order.IDLE_PROBE, lambda: log.append("probe"))
    kernel.at_instant(0.3, Order.HOLD_EXPIRY, lambda: log.append("hold"))
    kernel.at_instant(0.3, Order.HOLD_EXPIRY, lambda: log.append("another hold"))
    kernel.at(0.1 + 0.2, Order.SWAP_BOUND, lambda: log.append("bound"))
    kernel.run_until(1.0)
    assert log == ["probe", "bound", "hold", "another hold"]
