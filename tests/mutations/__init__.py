"""Deliberate faults of one line in engine, cache, router, pools: the suite must catch each.

``python -m tests.mutations`` puts them in one by one.
"""

from tests.mutations import (
    admission,
    cache,
    duration,
    explain,
    lives,
    pool,
    pool_kinds,
    reports,
    router,
    routing,
    scheduler,
)
from tests.mutations.fault import Fault as Fault

FAULTS = (
    *scheduler.FAULTS,
    *admission.FAULTS,
    *reports.FAULTS,
    *cache.FAULTS,
    *duration.FAULTS,
    *lives.FAULTS,
    *pool.FAULTS,
    *pool_kinds.FAULTS,
    *router.FAULTS,
    *routing.FAULTS,
    *explain.FAULTS,
)
