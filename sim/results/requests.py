"""The requests of a run as figures read them."""

from dataclasses import dataclass

import numpy as np

from sim.core.request import Status
from sim.core.stats import Floats, Sample
from sim.results import arrow
from sim.results.arrow import Integers, Mask, Table, Texts
from sim.results.figures import known, sample


@dataclass(frozen=True)
class RequestColumns:
    """The columns of the requests table that figures need; unknown numbers are NaN."""

    session: Texts
    agent: Texts
    workload: Texts
    rule: Texts
    backend: Texts
    status: Texts
    reason: Texts
    arrival_s: Floats
    dispatch_s: Floats
    scheduled_s: Floats
    first_token_s: Floats
    end_s: Floats
    prompt_tokens: Floats
    output_tokens: Floats
    http_status: Integers
    tries: Integers

    @staticmethod
    def of(table: Table) -> "RequestColumns":
        """Read them."""
        return RequestColumns(
            session=arrow.strings(table, "session_id"),
            agent=arrow.strings(table, "agent_id"),
            workload=arrow.strings(table, "workload"),
            rule=arrow.strings(table, "rule"),
            backend=arrow.strings(table, "backend"),
            status=arrow.strings(table, "status"),
            reason=arrow.strings(table, "reason"),
            arrival_s=arrow.numbers(table, "arrival_s"),
            dispatch_s=arrow.numbers(table, "dispatch_s"),
            scheduled_s=arrow.numbers(table, "scheduled_s"),
            first_token_s=arrow.numbers(table, "first_token_s"),
            end_s=arrow.numbers(table, "end_s"),
            prompt_tokens=arrow.numbers(table, "prompt_tokens"),
            output_tokens=arrow.numbers(table, "output_tokens"),
            http_status=arrow.whole(table, "http_status"),
            tries=arrow.whole(table, "tries"),
        )

    def were(self, status: str) -> Mask:
        """The requests that ended, or did not, in this way."""
        return self.status.equal(status)

    @property
    def ttft_s(self) -> Floats:
        """First token - arrival."""
        return self.first_token_s - self.arrival_s

    @property
    def stream_s(self) -> Floats:
        """From first token to end."""
        return self.end_s - self.first_token_s

    @property
    def gaps(self) -> Floats:
        """Tokens after the first; unknown unless completed with two tokens or more."""
        streamed = self.were(Status.COMPLETED) & (self.output_tokens >= 2.0)
        return np.where(streamed, self.output_tokens - 1.0, np.nan)

    @property
    def tpot_s(self) -> Floats:
        """Time per output token after the first; unknown where ``gaps`` is."""
        return self.stream_s / self.gaps


def latencies(requests: RequestColumns, here: Mask) -> dict[str, Sample]:
    """The times of the requests ``here``, by quantity; an arrival counts as at a step boundary that
    it follows by a nanosecond.
    """
    growing = requests.were(Status.IN_FLIGHT)
    ended = requests.were(Status.COMPLETED) | growing
    queue_s = np.maximum(requests.scheduled_s - requests.dispatch_s, 0.0)
    streamed = here & (requests.stream_s > 0.0)  # steps may be shorter than the clock resolves
    tokens_per_s = requests.gaps[streamed] / requests.stream_s[streamed]
    return {
        "ttft_s": sample(requests.ttft_s, here, growing),
        "tpot_s": Sample(known(requests.tpot_s[here])),
        "e2e_s": sample(requests.end_s - requests.arrival_s, here & ended, growing),
        "queue_s": sample(queue_s, here, growing),
        "stream_tokens_per_s": Sample(known(tokens_per_s)),
    }
