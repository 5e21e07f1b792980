"""Deliberate faults of one line in engine, cache and pools, each of which the suite must catch.

``python -m tests.mutations`` puts them in one by one.
"""

from tests.mutations import admission, cache, duration, lives, pool, reports, routing, scheduler
from tests.mutations.fault import Fault as Fault

FAULTS = (
    *scheduler.FAULTS,
    *admission.FAULTS,
    *reports.FAULTS,
    *cache.FAULTS,
    *duration.FAULTS,
    *lives.FAULTS,
    *pool.FAULTS,
    *routing.FAULTS,
)
