"""The front of an engine: limits on what it accepts, and the answers to its requests."""

from collections.abc import Collection

from sim.core.request import Attempt, HttpStatus, Reason, Status
from sim.engine.batch import RunningRequest


class RequestLimits:
    """The checks of the API server, which counts until clients are served or gone.

    Lengths are tokens, of a prompt and of a prompt with its answer;
    ``most_tokens`` are of the prompts of those that have no first token.
    """

    def __init__(
        self,
        longest_prompt: int,
        longest_sequence: int,
        most_requests: int | None = None,
        most_tokens: int | None = None,
    ) -> None:
        self._longest_prompt = longest_prompt
        self._longest_sequence = longest_sequence
        self._most_requests = most_requests
        self._most_tokens = most_tokens
        self._requests = 0
        self._unanswered_tokens = 0  # of the prompts of those without a first token

    def refusal(self, prompt_tokens: int) -> tuple[int, str] | None:
        """HTTP status and reason why a request is refused now; None when it is not.

        A prompt that can never be served is told so first.
        """
        if prompt_tokens > self._longest_prompt:
            return HttpStatus.BAD_REQUEST, Reason.PROMPT_TOO_LONG
        return self.overflow()

    def overflow(self) -> tuple[int, str] | None:
        """The same of any request, whatever its prompt: whether as much is there as may be."""
        requests, tokens = self._most_requests, self._most_tokens
        if requests is not None and self._requests >= requests:
            return HttpStatus.UNAVAILABLE, Reason.QUEUE_FULL
        if tokens is not None and self._unanswered_tokens >= tokens:
            return HttpStatus.UNAVAILABLE, Reason.QUEUE_FULL
        return None

    def take(self, prompt_tokens: int) -> int:
        """A request is there; returns the most tokens of its answer, at least one.

        An answer that would be longer ends there, with ``length``.
        """
        self._requests += 1
        self._unanswered_tokens += prompt_tokens
        return max(1, self._longest_sequence - prompt_tokens)

    def answer(self, prompt_tokens: int) -> None:
        """It has its first token."""
        self._unanswered_tokens -= prompt_tokens

    def leave(self, unanswered_tokens: int) -> None:
        """It is over; its prompt counts here if it never had a token."""
        self._requests -= 1
        self._unanswered_tokens -= unanswered_tokens


class OutputProcessor:
    """The attempts that have been taken on and are not over, in the order of submission."""

    def __init__(self, intake: RequestLimits) -> None:
        self._intake = intake
        self._sequences: dict[Attempt, RunningRequest] = {}
        self._broken: list[Attempt] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def take_on(self, attempt: Attempt, now_s: float) -> int | None:
        """Take on ``attempt``: the most tokens of its answer; None if it has been refused."""
        prompt_tokens = attempt.request.prompt.tokens
        refusal = self._intake.refusal(prompt_tokens)
        if refusal is not None:
            attempt.end(Status.REJECTED, now_s, *refusal)
            return None
        return self._intake.take(prompt_tokens)

    def turn_away(self, attempt: Attempt, now_s: float) -> bool:
        """Refuse ``attempt`` before anybody has read its prompt, if there is no room for any."""
        refusal = self._intake.overflow()
        if refusal is not None:
            attempt.end(Status.REJECTED, now_s, *refusal)
        return refusal is not None

    def add(self, sequence: RunningRequest) -> None:
        """It is in the engine."""
        self._sequences[sequence.attempt] = sequence

    def sequence(self, attempt: Attempt) -> RunningRequest:
        """What the engine knows ``attempt`` as."""
        return self._sequences[attempt]

    def remove(self, attempt: Attempt) -> RunningRequest:
        """``attempt`` is over, with or without a first token."""
        sequence = self._sequences.pop(attempt)
        unanswered = attempt.first_token_s is None
        self._intake.leave(sequence.prompt_tokens if unanswered else 0)
        return sequence

    def answer(self, sequence: RunningRequest, now_s: float) -> None:
        """The step that completed its prefill gives ``sequence`` a token."""
        attempt = sequence.attempt
        if not sequence.cancelled and attempt.first_token_s is None:
            self._intake.answer(sequence.prompt_tokens)
            attempt.first_token_s = now_s
            attempt.listener.first_token(attempt)

    def complete(self, sequence: RunningRequest, now_s: float) -> None:
        """``sequence`` has its last token."""
        attempt = sequence.attempt
        self.remove(attempt)
        attempt.emitted_tokens = sequence.output_tokens
        reason = Reason.LENGTH if sequence.truncated else None
        attempt.end(Status.COMPLETED, now_s, HttpStatus.OK, reason)

    def fail(self, sequence: RunningRequest, now_s: float) -> None:
        """``sequence`` has broken off for want of KV."""
        attempt = sequence.attempt
        self.remove(attempt)
        attempt.emitted_tokens = sequence.emitted
        attempt.end(Status.FAILED, now_s, HttpStatus.SERVER_ERROR, Reason.CONTEXT_EXCEEDED)

    def lose(self, inside: Collection[RunningRequest]) -> list[RunningRequest]:
        """The engine has ended with ``inside`` in it; returns those of them who are clients.

        Others have ended by themselves at this instant, and are about to be told.
        """
        lost = [sequence for sequence in self._sequences.values() if sequence in inside]
        self._broken = [sequence.attempt for sequence in lost]
        for attempt in self._broken:
            self.remove(attempt)
        return lost

    def hang_up(self, now_s: float) -> None:
        """Tell who has been lost, except a client that leaves meanwhile."""
        broken, self._broken = self._broken, []
        for attempt in broken:
            if attempt.status == Status.IN_FLIGHT:
                attempt.break_off(now_s, Reason.CONNECTION_LOST)
