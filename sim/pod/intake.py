"""What a pod takes on: limits on lengths and on how much may be there at once."""

from sim.pod.spec import Vllm, kv_blocks
from sim.request import HttpStatus, Reason


class Intake:
    """The checks of the API server, which counts until clients are served or gone."""

    def __init__(self, engine: Vllm) -> None:
        pod_tokens = (kv_blocks(engine) - engine.state_blocks) * engine.block_size
        model_tokens = engine.max_model_len or pod_tokens + 1
        self._longest_prompt = min(model_tokens, pod_tokens)
        # The last token of a sequence is never fed back: it needs no KV.
        self._longest_sequence = min(model_tokens, pod_tokens + 1)
        self._most_requests = engine.max_num_queued_reqs
        self._most_tokens = engine.max_num_queued_tokens
        self._requests = 0
        self._unanswered_tokens = 0  # of the prompts of those without a first token

    def refusal(self, prompt_tokens: int) -> tuple[int, str] | None:
        """HTTP status and reason why a request is refused now; None when it is not.

        A prompt that can never be served is told so first.
        """
        if prompt_tokens > self._longest_prompt:
            return HttpStatus.BAD_REQUEST, Reason.PROMPT_TOO_LONG
        requests, tokens = self._most_requests, self._most_tokens
        if requests is not None and self._requests >= requests:
            return HttpStatus.UNAVAILABLE, Reason.QUEUE_FULL
        if tokens is not None and self._unanswered_tokens >= tokens:
            return HttpStatus.UNAVAILABLE, Reason.QUEUE_FULL
        return None

    def output_limit(self, prompt_tokens: int) -> int:
        """Most tokens with which such a prompt can be answered, at least one.

        The answer ends with ``length`` where it would exceed the model limit,
        or where its next token would need more blocks than the whole pod has.
        """
        return max(1, self._longest_sequence - prompt_tokens)

    def take(self, prompt_tokens: int) -> None:
        """A request is there."""
        self._requests += 1
        self._unanswered_tokens += prompt_tokens

    def answer(self, prompt_tokens: int) -> None:
        """It has its first token."""
        self._unanswered_tokens -= prompt_tokens

    def leave(self, unanswered_tokens: int) -> None:
        """It is over; its prompt counts here if it never had a token."""
        self._requests -= 1
        self._unanswered_tokens -= unanswered_tokens
