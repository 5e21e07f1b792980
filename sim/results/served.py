"""Who served what: figures per answer, workload and rule of the router."""

from collections import Counter
from typing import Any

import numpy as np

from sim.core.recorder import RunFacts
from sim.core.request import Status
from sim.results import arrow
from sim.results.arrow import Integers, Mask, Texts
from sim.results.figures import count, ratio, spread
from sim.results.requests import RequestColumns, latencies
from sim.results.tables import Tables


def of_answers(tables: Tables, requests: RequestColumns, here: Mask) -> dict[str, Any]:
    """How the requests ``here`` ended: for their users, and try by try."""
    retries = tables.retries
    earlier = here[arrow.whole(retries, "request_id")]
    over = here & ~requests.were(Status.IN_FLIGHT)
    last = over & answered_last(tables, requests)
    status = arrow.strings(retries, "status")
    by_try = _answers(requests.status, requests.reason, requests.http_status, last)
    by_try += _answers(
        status, arrow.strings(retries, "reason"), arrow.whole(retries, "http_status"), earlier
    )
    errors = sum(
        count(last & requests.were(each)) + count(earlier & status.equal(each))
        for each in (Status.REJECTED, Status.FAILED)
    )
    tries = int(requests.tries[here].sum())
    failures = tables.failed_attempts
    concerned = here[arrow.whole(failures, "request_id")]
    by_request = _answers(requests.status, requests.reason, requests.http_status, over)
    return {
        "answers": {"by_request": _nested(by_request), "by_try": _nested(by_try)},
        "tries": tries,
        "try_error_ratio": ratio(errors, tries),
        "failed_attempts": {"by_error": arrow.strings(failures, "error").counts(concerned)},
    }


def of_workloads(
    facts: RunFacts, tables: Tables, requests: RequestColumns, here: Mask
) -> dict[str, Any]:
    """Figures of each workload, if there are several."""
    if len(facts.workload_counts) < 2:
        return {}
    fell = fell_through(tables, requests)
    return {
        "by_workload": {
            name: _of_workload(tables, requests, here & requests.workload.equal(name), fell)
            for name in facts.workload_counts
        }
    }


def of_rules(
    facts: RunFacts, tables: Tables, requests: RequestColumns, here: Mask
) -> dict[str, Any]:
    """Which backends served the requests of each rule, if there are rules."""
    if not facts.rules:
        return {}
    fell = fell_through(tables, requests)
    figures = {}
    for name, backends in facts.rules.items():
        taken = here & requests.rule.equal(name)
        completed = taken & requests.were(Status.COMPLETED)
        total = count(completed)
        figures[name] = {
            "requests": count(taken),
            "requests_completed": total,
            "backends": {
                each: {
                    "served_ratio": ratio(count(completed & requests.backend.equal(each)), total)
                }
                for each in backends
            },
            "fell_through_ratio": ratio(count(completed & fell), total),
        }
    return {"rules": figures}


def fell_through(tables: Tables, requests: RequestColumns) -> Mask:
    """The requests of which the last try has passed over a backend of its rule."""
    request = arrow.whole(tables.failed_attempts, "request_id")
    fell = np.zeros(len(requests.tries), dtype=bool)
    fell[request[of_last_try(tables, requests)]] = True
    return fell


def of_last_try(tables: Tables, requests: RequestColumns) -> Mask:
    """The failed attempts that belong to the last try of their request."""
    request = arrow.whole(tables.failed_attempts, "request_id")
    return np.equal(arrow.whole(tables.failed_attempts, "try"), requests.tries[request])


def answered_last(tables: Tables, requests: RequestColumns) -> Mask:
    """The requests whose end is that of their last try, not of a wait for another one."""
    earlier = arrow.whole(tables.retries, "request_id")
    return requests.tries > np.bincount(earlier, minlength=len(requests.tries))


def _of_workload(tables: Tables, requests: RequestColumns, its: Mask, fell: Mask) -> dict[str, Any]:
    completed = its & requests.were(Status.COMPLETED)
    errors = its & (requests.were(Status.REJECTED) | requests.were(Status.FAILED))
    times = latencies(requests, its)
    tried = of_answers(tables, requests, its)
    return {
        "requests": count(its),
        "requests_completed": count(completed),
        "requests_cancelled": count(its & requests.were(Status.CANCELLED)),
        "error_ratio": ratio(count(errors), count(its)),
        "answers": tried["answers"],
        "tries_per_request": ratio(tried["tries"], count(its)),
        "served_after_retry": count(completed & (requests.tries > 1)),
        "fell_through_ratio": ratio(count(completed & fell), count(completed)),
        "ttft_s": spread(times["ttft_s"], ("p50", "p95")),
        "e2e_s": spread(times["e2e_s"], ("p50", "p95")),
    }


def _answers(
    status: Texts, reason: Texts, http_status: Integers, where: Mask
) -> Counter[tuple[int, str]]:
    """How often which HTTP status, 0 for none, came for which reason."""
    found: Counter[tuple[int, str]] = Counter()
    for ended in status.counts(where):
        these = where & status.equal(ended)
        for http in np.unique(http_status[these]).tolist():
            answered = these & (http_status == http)
            reasons = {} if ended == Status.COMPLETED else reason.counts(answered)
            for why, times in reasons.items():
                found[max(http, 0), why] += times
            found[max(http, 0), ended] += count(answered) - sum(reasons.values())
    return +found


def _nested(answers: Counter[tuple[int, str]]) -> dict[str, dict[str, int]]:
    """By HTTP status, then by reason."""
    nested: dict[str, dict[str, int]] = {}
    for (http, why), times in sorted(answers.items()):
        nested.setdefault(str(http), {})[why] = times
    return nested
