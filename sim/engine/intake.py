"""What a pod takes on: limits on lengths and on how much may be there at once."""

from sim.core.request import HttpStatus, Reason


class Intake:
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
