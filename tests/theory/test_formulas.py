"""The formulas: published values, each other's special cases, and a million simulated customers."""

from math import exp

import numpy as np
import pytest

from sim.validation import theory


def test_the_published_values_of_one_queue():
    """A formula would be mistyped: values at a load of 0.8 and a service of one second."""
    assert theory.mm1_sojourn_s(0.8, 1.0) == pytest.approx(5.0)
    assert theory.md1_wait_s(0.8, 1.0) == pytest.approx(2.0)
    assert theory.mg1_wait_s(0.8, 1.0, 5.0) == pytest.approx(10.0)
    assert theory.mmc_wait_s(4, 3.2, 1.0) == pytest.approx(0.7455, abs=5e-5)
    assert theory.erlang_c(4, 3.2) == pytest.approx(0.596, abs=5e-4)
    assert theory.mg1_ps_sojourn_s(0.7, 1.0) == pytest.approx(3.333, abs=5e-4)


def test_the_published_values_of_closed_batching_and_placed_systems():
    """A recursion would stop one term early or late."""
    closed = theory.machine_repair(20, 1.0, 10.0)
    assert closed == pytest.approx((0.99813, 10.038), abs=6e-4)
    assert theory.round_robin_sojourn_s(16, 0.8, 1.0) == pytest.approx(2.84, abs=5e-3)
    assert theory.power_of_two_sojourn_s(0.8, 1.0) == pytest.approx(1.95, abs=5e-3)

    def departures_per_s(present: int) -> float:
        batch = min(present, 32)
        return batch / (200 * (0.006 + 0.0004 * batch))

    saturation = departures_per_s(32)
    sojourn_s = theory.birth_death_sojourn_s(0.8 * saturation, departures_per_s, 32)
    assert sojourn_s == pytest.approx(2.830, abs=5e-4)


@pytest.mark.parametrize(("capacity", "ratio"), [(100, 0.1566), (1000, 0.4367), (3000, 0.6589)])
def test_the_published_values_of_caches(capacity, ratio):
    """The characteristic time would be that of another cache (Zipf 0.8 over 10,000 items)."""
    chances = theory.zipf(10_000, 0.8)
    assert chances.sum() == pytest.approx(1.0)
    assert theory.che_hit_ratio(chances, capacity) == pytest.approx(ratio, abs=6e-5)


def test_special_cases_agree():
    """Two formulas for one system would differ."""
    rate, service_s = 0.6, 1.25
    one = theory.mm1_sojourn_s(rate, service_s)
    assert theory.mmc_wait_s(1, rate, service_s) + service_s == pytest.approx(one)
    assert theory.mg1_wait_s(rate, service_s, 2 * service_s**2) + service_s == pytest.approx(one)
    half = theory.mg1_wait_s(rate, service_s, service_s**2)
    assert theory.md1_wait_s(rate, service_s) == pytest.approx(half)
    assert theory.round_robin_sojourn_s(1, rate * service_s, service_s) == pytest.approx(one)
    assert theory.mg1_ps_sojourn_s(rate, service_s) == pytest.approx(one)
    share = theory.mmc_waiting_share(1, rate, service_s, 2.0)
    assert share == pytest.approx(rate * service_s * exp(-2.0 * (1 / service_s - rate)))
    for servers in (1, 3):
        sojourn_s = theory.birth_death_sojourn_s(
            rate, lambda n, c=servers: min(n, c) / service_s, servers
        )
        wait_s = theory.mmc_wait_s(servers, rate, service_s)
        assert sojourn_s == pytest.approx(wait_s + service_s)
    assert theory.machine_repair(1, service_s, 3.0) == pytest.approx((1 / 4.25, service_s))


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.mm1_sojourn_s(1.0, 1.0),
        lambda: theory.md1_wait_s(2.0, 1.0),
        lambda: theory.mg1_wait_s(1.0, 1.0, 2.0),
        lambda: theory.mg1_ps_sojourn_s(1.0, 1.0),
        lambda: theory.erlang_c(2, 2.0),
        lambda: theory.birth_death_sojourn_s(2.0, lambda n: min(n, 2), 2),
        lambda: theory.round_robin_sojourn_s(4, 1.0, 1.0),
        lambda: theory.power_of_two_sojourn_s(1.0, 1.0),
        lambda: theory.machine_repair(0, 1.0, 1.0),
        lambda: theory.che_hit_ratio(theory.zipf(10, 1.0), 10),
    ],
)
def test_what_has_no_steady_state_is_refused(call):
    """A formula would answer with a number that means nothing, or never."""
    with pytest.raises(theory.UnanswerableError):
        call()


@pytest.fixture(scope="module")
def customers() -> tuple[np.ndarray, np.ndarray]:
    """Arrivals at 0.7 per second, memoryless services of a second: 300,000 customers."""
    generator = np.random.default_rng(1)
    gaps_s, services_s = generator.exponential(1.0, (2, 300_000))
    return np.cumsum(gaps_s / 0.7), services_s


def test_recursions_and_formulas_are_about_the_same_systems(customers):
    """What the engine is compared with, request by request, would not be the textbook's queue."""
    arrivals_s, services_s = customers
    alone_s = theory.lindley(arrivals_s, services_s)
    shared_s = theory.processor_sharing(arrivals_s, services_s)
    constant_s = theory.lindley(arrivals_s, np.ones_like(arrivals_s))
    four_s = theory.kiefer_wolfowitz(arrivals_s / 4, services_s, 4)
    for departures_s, sojourn_s in (
        (alone_s, theory.mm1_sojourn_s(0.7, 1.0)),
        (shared_s, theory.mg1_ps_sojourn_s(0.7, 1.0)),
        (constant_s, theory.md1_wait_s(0.7, 1.0) + 1.0),
    ):
        assert np.mean(departures_s - arrivals_s) == pytest.approx(sojourn_s, rel=0.03)
    waits_s = four_s - arrivals_s / 4 - services_s
    assert np.mean(waits_s) == pytest.approx(theory.mmc_wait_s(4, 2.8, 1.0), rel=0.03)
    assert np.mean(waits_s > 1e-9) == pytest.approx(theory.erlang_c(4, 2.8), rel=0.02)


def test_sharing_and_queueing_finish_the_work_together(customers):
    """Virtual time would lose or invent work."""
    arrivals_s, services_s = customers
    alone_s = theory.lindley(arrivals_s, services_s)
    shared_s = theory.processor_sharing(arrivals_s, services_s)
    closing = theory.closing_busy_periods(arrivals_s, alone_s)
    assert closing.tolist() == theory.closing_busy_periods(arrivals_s, shared_s).tolist()
    assert np.maximum.accumulate(shared_s)[closing] == pytest.approx(alone_s[closing], abs=1e-8)


def test_recursions_by_hand():
    """Three customers worked out on paper would leave at other times."""
    arrivals_s, services_s = np.array([0.0, 1.0, 10.0]), np.array([4.0, 2.0, 1.0])
    assert theory.lindley(arrivals_s, services_s).tolist() == [4.0, 6.0, 11.0]
    assert theory.kiefer_wolfowitz(arrivals_s, services_s, 2).tolist() == [4.0, 3.0, 11.0]
    # The first has 3 s to go when the second comes; the second gets its 2 s at half speed.
    assert theory.processor_sharing(arrivals_s, services_s).tolist() == [6.0, 5.0, 11.0]
    departures_s = np.array([6.0, 5.0, 11.0])
    assert theory.closing_busy_periods(arrivals_s, departures_s).tolist() == [1, 2]
