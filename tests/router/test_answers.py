"""The table of answers: what a client is told when no backend of a rule has served."""

from types import SimpleNamespace
from typing import Any

import pytest

from sim.core.request import PoolError, Reason, RouterError
from sim.router.dispatch import RoutingContext, answer
from sim.router.routes import Route, RouteTarget
from sim.scenario.pool import RouterSide

TIMEOUT = (503, "pool_activation_timeout", 5.0)
BUSY = (503, "pool_incumbent_busy", 5.0)
FULL = (503, "pool_queue_full", 5.0)
CLOSED = (503, "fail_closed_runtime", None)
FAILED = (502, "all_backends_failed", None)

OTHERS = (
    PoolError.SWAP_FAILED,
    RouterError.QUARANTINED,
    RouterError.NO_READY_POD,
    Reason.BACKEND_ERROR,
    Reason.TIMEOUT,
    Reason.CONNECTION_REFUSED,
    Reason.CONNECTION_LOST,
)


def told(
    *errors: str, fail_closed: bool = False, side: RouterSide | None = None
) -> tuple[int, str, float | None]:
    """The answer after backends have failed with ``errors``, in this order."""
    upstream: Any = SimpleNamespace(name="m", side=side or RouterSide())
    request: Any = SimpleNamespace(tries=1, hold_s=0.0)
    route = Route("rule", tuple(RouteTarget(upstream, 1.0) for _ in errors), False, fail_closed)
    routing = RoutingContext(request, route, 0, 0.0)
    for error in errors:
        routing.pass_over(error, 1.0)
    return tuple(answer(routing))  # type: ignore[return-value]


@pytest.mark.parametrize("before", [(), (Reason.BACKEND_ERROR,), (PoolError.INCUMBENT_BUSY,)])
@pytest.mark.parametrize("fail_closed", [False, True])
@pytest.mark.parametrize(
    ("error", "told_then"),
    [
        (PoolError.HOLD_BUDGET, TIMEOUT),
        (PoolError.SWAP_DEADLINE, TIMEOUT),
        (PoolError.QUEUE_FULL, FULL),
        *((error, None) for error in OTHERS),
    ],
)
def test_the_last_backend_decides(
    before: tuple[str, ...], fail_closed: bool, error: str, told_then: tuple[Any, ...] | None
) -> None:
    """A client would be told 502 of a pool that is only slow, or be told to come back to an
    outage; on a rule that fails closed either would be hidden."""
    due = told_then or (CLOSED if fail_closed else FAILED)
    assert told(*before, error, fail_closed=fail_closed) == due


@pytest.mark.parametrize("fail_closed", [False, True])
def test_a_busy_pool_is_named_only_if_all_backends_were_busy(fail_closed: bool) -> None:
    """[busy, 500] and [500, busy] are outages, both of them; an unknown, quarantined or late
    backend clears it, too."""
    busy = PoolError.INCUMBENT_BUSY
    due = CLOSED if fail_closed else FAILED
    assert told(busy, fail_closed=fail_closed) == BUSY
    assert told(busy, busy, fail_closed=fail_closed) == BUSY
    for other in OTHERS:
        assert told(busy, other, fail_closed=fail_closed) == due
        assert told(other, busy, fail_closed=fail_closed) == due
        assert told(busy, other, busy, fail_closed=fail_closed) == due
    assert told(PoolError.HOLD_BUDGET, busy, fail_closed=fail_closed) == due


def test_before_the_two_were_mended_they_were_outages() -> None:
    """The switches would do nothing, so that before and after could not be compared; or they
    would change the neighbouring answer."""
    deadline = RouterSide(swap_deadline_status=502)
    assert told(PoolError.SWAP_DEADLINE, side=deadline) == FAILED
    assert told(PoolError.SWAP_DEADLINE, side=deadline, fail_closed=True) == CLOSED
    assert told(PoolError.HOLD_BUDGET, side=deadline) == TIMEOUT
    assert told(PoolError.INCUMBENT_BUSY, side=deadline) == BUSY
    busy = RouterSide(all_busy_status=502)
    assert told(PoolError.INCUMBENT_BUSY, side=busy) == FAILED
    assert told(PoolError.INCUMBENT_BUSY, side=busy, fail_closed=True) == CLOSED
    assert told(PoolError.SWAP_DEADLINE, side=busy) == TIMEOUT
