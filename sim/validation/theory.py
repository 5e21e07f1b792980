"""Textbook queueing and caching theory: formulas, and recursions that follow every customer.

Rates are per second, times in seconds. Formulas are about steady states and
raise ``UnanswerableError`` when there is none. Recursions take the arrivals and the
service requirements of one run, in order of arrival, and give the departures.
"""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from math import exp, fsum, isclose
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.core.stats import Floats

SMALLEST: Final = 1e-15
"""What a sum or an iteration may neglect, relative to the result."""


class UnanswerableError(ValueError):
    """Theory has no answer to what is asked; ``args[0]`` says why."""


def _stable(load: float) -> float:
    if not 0.0 <= load < 1.0:
        raise UnanswerableError(f"no steady state at a load of {load:g}")
    return load


# -- one queue ----------------------------------------------------------------------------


def mm1_sojourn_s(arrivals_per_s: float, service_s: float) -> float:
    """M/M/1: mean time in the system, 1/(mu - lambda). Kleinrock, Queueing Systems I, 1975."""
    return service_s / (1.0 - _stable(arrivals_per_s * service_s))


def md1_wait_s(arrivals_per_s: float, service_s: float) -> float:
    """M/D/1: mean wait, rho/(2 mu (1 - rho)). Kleinrock, Queueing Systems I, 1975."""
    load = _stable(arrivals_per_s * service_s)
    return load * service_s / (2.0 * (1.0 - load))


def mg1_wait_s(arrivals_per_s: float, service_s: float, second_moment_s2: float) -> float:
    """M/G/1: mean wait, lambda E[S^2]/(2 (1 - rho)). Pollaczek 1930, Khinchine 1932."""
    load = _stable(arrivals_per_s * service_s)
    return arrivals_per_s * second_moment_s2 / (2.0 * (1.0 - load))


def mg1_ps_sojourn_s(arrivals_per_s: float, requirement_s: float) -> float:
    """M/G/1 under processor sharing: mean time in the system, E[S]/(1 - rho) for any law of S.

    Sakata, Noguchi and Oizumi 1971; Kleinrock, Queueing Systems II, 1976.
    """
    return requirement_s / (1.0 - _stable(arrivals_per_s * requirement_s))


def erlang_c(servers: int, offered: float) -> float:
    """M/M/c: share of customers that wait; ``offered`` is lambda E[S]. Erlang 1917.

    By the recursion of Erlang B, B_k = a B_{k-1} / (k + a B_{k-1}).
    """
    load = _stable(offered / servers)
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    return blocked / (1.0 - load * (1.0 - blocked))


def mmc_wait_s(servers: int, arrivals_per_s: float, service_s: float) -> float:
    """M/M/c: mean wait, C/(c mu - lambda). Kleinrock, Queueing Systems I, 1975."""
    waiting = erlang_c(servers, arrivals_per_s * service_s)
    return waiting / (servers / service_s - arrivals_per_s)


def mmc_waiting_share(
    servers: int, arrivals_per_s: float, service_s: float, longer_s: float
) -> float:
    """M/M/c: share of customers that wait longer than ``longer_s``, C exp(-(c mu - lambda) t)."""
    waiting = erlang_c(servers, arrivals_per_s * service_s)
    return waiting * exp(-(servers / service_s - arrivals_per_s) * longer_s)


class Closed(NamedTuple):
    """A closed system: departures per second, and mean seconds from a request to its end."""

    throughput_per_s: float
    response_s: float


def machine_repair(clients: int, service_s: float, think_s: float) -> Closed:
    """Clients that think and queue at one exponential server: exact mean value analysis.

    R_k = S (1 + Q_{k-1}), X_k = k/(R_k + Z), Q_k = X_k R_k. Reiser and Lavenberg 1980.
    Raises ``UnanswerableError`` without clients.
    """
    if clients < 1:
        raise UnanswerableError("a closed system needs a client")
    queue = throughput = response_s = 0.0
    for population in range(1, clients + 1):
        response_s = service_s * (1.0 + queue)
        throughput = population / (response_s + think_s)
        queue = throughput * response_s
    return Closed(throughput, response_s)


def birth_death_sojourn_s(
    arrivals_per_s: float, departures_per_s: Callable[[int], float], constant_from: int
) -> float:
    """Poisson arrivals, departures at a rate that depends on who is there: mean time in the system.

    pi_n is proportional to the product of lambda/mu_k over k = 1..n; the mean
    number over lambda is the time (Little). ``departures_per_s(n)`` is mu_n,
    the same for all n from ``constant_from`` on. Kleinrock, Queueing Systems I, 1975.
    """
    load = _stable(arrivals_per_s / departures_per_s(constant_from))
    weights = [1.0]
    for present in range(1, constant_from + 1):
        weights.append(weights[-1] * arrivals_per_s / departures_per_s(present))
    # From here on the weights are geometric, and so their sums are closed.
    tail = weights[-1] * load / (1.0 - load)
    number = fsum(present * weight for present, weight in enumerate(weights))
    number += tail * (constant_from + 1.0 / (1.0 - load))
    return number / (fsum(weights) + tail) / arrivals_per_s


# -- several queues -----------------------------------------------------------------------


def round_robin_sojourn_s(queues: int, load: float, service_s: float) -> float:
    """Poisson arrivals dealt in turn to exponential servers: mean time in the system.

    Each queue is GI/M/1 with Erlang gaps: sigma = (n rho/(n rho + 1 - sigma))^n
    is the share that waits, E[S]/(1 - sigma) the time. Kleinrock, Queueing Systems I, 1975.
    """
    rate = queues * _stable(load)
    sigma = 0.0
    while True:
        following = (rate / (rate + 1.0 - sigma)) ** queues
        if isclose(following, sigma, rel_tol=SMALLEST, abs_tol=SMALLEST):
            return service_s / (1.0 - following)
        sigma = following


def power_of_two_sojourn_s(load: float, service_s: float) -> float:
    """The shorter of two random queues, of infinitely many: E[S] times the sum of rho^(2^i - 2).

    Over i from 1. Vvedenskaya, Dobrushin and Karpelevich 1996; Mitzenmacher 1996.
    """
    total, choices, term = 0.0, 2, 1.0
    while term > SMALLEST:
        total += term
        choices *= 2
        term = _stable(load) ** (choices - 2)
    return total * service_s


# -- caches -------------------------------------------------------------------------------


def zipf(items: int, exponent: float) -> Floats:
    """Chances of ``items`` items, the k-th as likely as k^-exponent."""
    weights = np.arange(1, items + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def che_hit_ratio(chances: Floats, capacity: float, strangers: float = 0.0) -> float:
    """LRU under independent references: Che's approximation of the share of hits.

    An item stays for the time t, in references, in which as many different
    ones come as fit: sum of 1 - exp(-p_i t) = C; its hits are 1 - exp(-p_i t).
    With each reference come ``strangers`` further items that nobody asks for
    again; they take t times their number. Che, Tung and Wang 2002. Raises
    ``UnanswerableError`` when everything fits.
    """
    if strangers == 0.0 and capacity >= len(chances):
        raise UnanswerableError("everything fits: there is nothing to approximate")

    def held(stay: float) -> float:
        return float(-np.expm1(-chances * stay).sum()) + strangers * stay

    low, high = 0.0, 1.0
    while held(high) < capacity:
        high *= 2.0
    while high - low > SMALLEST * high * 10.0:
        middle = (low + high) / 2.0
        low, high = (middle, high) if held(middle) < capacity else (low, middle)
    return float((chances * -np.expm1(-chances * high)).sum())


# -- recursions ---------------------------------------------------------------------------


def lindley(arrivals_s: Floats, services_s: Floats) -> Floats:
    """Departures of a queue with one server, first come first served.

    D_i = max(D_{i-1}, A_i) + S_i. Lindley 1952.
    """
    departures_s = np.empty(len(arrivals_s))
    free_s = 0.0
    for index, (arrival_s, service_s) in enumerate(zip(arrivals_s.tolist(), services_s.tolist())):
        free_s = max(free_s, arrival_s) + service_s
        departures_s[index] = free_s
    return departures_s


def kiefer_wolfowitz(arrivals_s: Floats, services_s: Floats, servers: int) -> Floats:
    """Departures of a queue with several servers, first come first served.

    Whoever is first takes the server that is free first. Kiefer and Wolfowitz 1955.
    """
    departures_s = np.empty(len(arrivals_s))
    free_s = [0.0] * servers  # a heap
    for index, (arrival_s, service_s) in enumerate(zip(arrivals_s.tolist(), services_s.tolist())):
        departure_s = max(free_s[0], arrival_s) + service_s
        heapreplace(free_s, departure_s)
        departures_s[index] = departure_s
    return departures_s


def processor_sharing(arrivals_s: Floats, requirements_s: Floats) -> Floats:
    """Departures of a server that all who are there share equally.

    By virtual time, which runs at 1/n while n are there: a customer leaves
    when virtual time has passed its requirement (Parekh and Gallager 1993).
    """
    departures_s = np.empty(len(arrivals_s))
    present: list[tuple[float, int]] = []  # virtual time of departure, customer
    virtual = now_s = 0.0

    def serve_until(until_s: float) -> None:
        nonlocal virtual, now_s
        while present:
            due_s = now_s + (present[0][0] - virtual) * len(present)
            if due_s > until_s:
                virtual += (until_s - now_s) / len(present)
                break
            virtual, leaves = heappop(present)
            now_s = departures_s[leaves] = due_s
        else:
            virtual = 0.0  # lest it lose digits as it grows
        now_s = until_s

    pairs = zip(arrivals_s.tolist(), requirements_s.tolist())
    for index, (arrival_s, requirement_s) in enumerate(pairs):
        serve_until(arrival_s)
        heappush(present, (virtual + requirement_s, index))
    serve_until(float("inf"))
    return departures_s


def closing_busy_periods(arrivals_s: Floats, departures_s: Floats) -> NDArray[np.int64]:
    """The customers before whose successor comes everybody has left; the last one is among them."""
    latest_s = np.maximum.accumulate(departures_s)
    return np.flatnonzero(np.append(arrivals_s[1:] > latest_s[:-1], True))
