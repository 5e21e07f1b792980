"""Who a pod works for: attempts from their submission to their end, and what they are told."""

from collections.abc import Collection

from sim.core.request import Attempt, HttpStatus, Reason, Status
from sim.engine.batch import Sequence
from sim.engine.intake import Intake


class Clients:
    """The attempts that have been taken on and are not over, in the order of submission."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._sequences: dict[Attempt, Sequence] = {}
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

    def add(self, sequence: Sequence) -> None:
        """It is in the engine."""
        self._sequences[sequence.attempt] = sequence

    def sequence(self, attempt: Attempt) -> Sequence:
        """What the engine knows ``attempt`` as."""
        return self._sequences[attempt]

    def remove(self, attempt: Attempt) -> Sequence:
        """``attempt`` is over, with or without a first token."""
        sequence = self._sequences.pop(attempt)
        unanswered = attempt.first_token_s is None
        self._intake.leave(sequence.prompt_tokens if unanswered else 0)
        return sequence

    def answer(self, sequence: Sequence, now_s: float) -> None:
        """The step that completed its prefill gives ``sequence`` a token."""
        attempt = sequence.attempt
        if not sequence.cancelled and attempt.first_token_s is None:
            self._intake.answer(sequence.prompt_tokens)
            attempt.first_token_s = now_s
            attempt.listener.first_token(attempt)

    def complete(self, sequence: Sequence, now_s: float) -> None:
        """``sequence`` has its last token."""
        attempt = sequence.attempt
        self.remove(attempt)
        attempt.emitted_tokens = sequence.output_tokens
        reason = Reason.LENGTH if sequence.truncated else None
        attempt.end(Status.COMPLETED, now_s, HttpStatus.OK, reason)

    def fail(self, sequence: Sequence, now_s: float) -> None:
        """``sequence`` has broken off for want of KV."""
        attempt = sequence.attempt
        self.remove(attempt)
        attempt.emitted_tokens = sequence.emitted
        attempt.end(Status.FAILED, now_s, HttpStatus.SERVER_ERROR, Reason.CONTEXT_EXCEEDED)

    def lose(self, inside: Collection[Sequence]) -> list[Sequence]:
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
