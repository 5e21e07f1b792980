"""What the router tells a client when no backend of a rule has served (router and pools, 6)."""

from typing import Final, NamedTuple

from sim.core.request import Answer, HttpStatus, PoolError
from sim.router.trip import Trip

POOL_RETRY_AFTER_S: Final = 5.0
"""What LLMKube's router asks clients to wait for a pool."""

MENDED: Final = HttpStatus.UNAVAILABLE
"""What the two answers of ``sim.scenario.pool.RouterSide`` are since they were mended."""


class Refusal(NamedTuple):
    """An answer without a response: its status, its name, and how long to wait with the next."""

    http_status: int
    reason: str
    retry_after_s: float | None = None


CONCURRENCY_LIMIT: Final = Refusal(HttpStatus.TOO_MANY_REQUESTS, Answer.CONCURRENCY_LIMIT, 1.0)
"""Of llama-swap, which asks clients to wait for a second (its ``ConcurrencyLimitError``)."""

NO_ROUTE: Final = Refusal(HttpStatus.UNAVAILABLE, Answer.NO_ROUTE)


def answer(trip: Trip) -> Refusal:
    """The first row of the table of answers that fits; the last backend's error decides."""
    side = trip.route.targets[-1].upstream.side
    if trip.error == PoolError.HOLD_BUDGET:
        return _unavailable(Answer.POOL_ACTIVATION_TIMEOUT)
    if trip.error == PoolError.SWAP_DEADLINE and side.swap_deadline_status == MENDED:
        return _unavailable(Answer.POOL_ACTIVATION_TIMEOUT)
    if trip.all_busy and side.all_busy_status == MENDED:
        return _unavailable(Answer.POOL_INCUMBENT_BUSY)
    if trip.error == PoolError.QUEUE_FULL:
        return _unavailable(Answer.POOL_QUEUE_FULL)
    if trip.route.fail_closed:
        return Refusal(HttpStatus.UNAVAILABLE, Answer.FAIL_CLOSED)
    return Refusal(HttpStatus.BAD_GATEWAY, Answer.ALL_BACKENDS_FAILED)


def _unavailable(reason: str) -> Refusal:
    return Refusal(HttpStatus.UNAVAILABLE, reason, POOL_RETRY_AFTER_S)
