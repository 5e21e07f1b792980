"""The figures that ``podsim plot`` knows, by name: what each shows. Light: ``--help`` reads it."""

from typing import Final

FIGURES: Final[dict[str, str]] = {
    "ttft-cdf": "distribution of the time to first token, by variant",
    "metrics": "headline figures by variant, with intervals over the seeds",
    "hit-rate-over-time": "cached share of prompt tokens over time, by variant",
    "load-over-time": "requests in flight on each pod over time",
    "kv-usage-over-time": "share of the KV blocks in use on each pod over time",
    "spills-by-reason": "placements away from a session's home, by reason and variant",
    "session-map": "which pod each session was sent to, over time",
    "pool-timeline": "which member of a pool was in memory, over time, and who waited",
}
"""In the order in which they are worth looking at."""
