"""One decision at a time for those who wait at a pool."""

from collections.abc import Callable, Iterable

from sim.core.ports import Activation


class WakeLoop:
    """Calls ``act`` for one who still ``waits`` after another, never within itself.

    Whatever a grant or a refusal brings about (an answer at once, another
    attempt at this pool) waits until ``act`` has returned; then the round
    begins again with the oldest, so that nobody gets ahead of those who joined
    before.
    """

    def __init__(
        self, waits: Callable[[Activation], bool], act: Callable[[Activation], None]
    ) -> None:
        self._waits = waits
        self._act = act
        self._running = False
        self._changed = False

    def changed(self) -> None:
        """The state has changed within ``act``: what was decided before may be another thing."""
        self._changed = True

    def run(
        self, activations: Iterable[Activation], everybody: Callable[[], Iterable[Activation]]
    ) -> bool:
        """Look at ``activations``, then at ``everybody`` as long as something changes.

        Returns whether that is done; within a round it is only asked for.
        """
        self._changed = True
        if self._running:
            return False
        self._running = True
        while self._changed:
            self._changed = False
            for activation in activations:
                if self._waits(activation):
                    self._act(activation)
                if self._changed:
                    activations = everybody()
                    break
        self._running = False
        return True
