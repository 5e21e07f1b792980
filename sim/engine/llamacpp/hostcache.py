"""llama-server's prompt cache: whole contexts of slots, kept in host memory.

Source: ``server_prompt_cache`` of ggml-org/llama.cpp (tools/server,
ggml-org/llama.cpp#16391).
"""

from sim.core.content import Prompt

LEAST_KEPT = 0.25
"""Share of a saved context that a prompt must reuse to get it: large ones are not spent on less."""


class HostCache:
    """Contexts by age. What it holds is copied: it takes no KV cells of the pod."""

    def __init__(self, capacity_tokens: float) -> None:
        self.tokens = 0
        self._capacity_tokens = capacity_tokens
        self._contexts: list[Prompt] = []  # oldest first

    def __len__(self) -> int:
        return len(self._contexts)

    def save(self, context: Prompt) -> None:
        """Keep ``context``, unless a kept one says all of it; those that it continues go."""
        shared = [saved.common_prefix(context) for saved in self._contexts]
        if context.tokens == 0 or context.tokens in shared:
            return
        pairs = zip(self._contexts, shared, strict=True)
        self._contexts = [saved for saved, common in pairs if common < saved.tokens]
        self._contexts.append(context)
        self.tokens = sum(saved.tokens for saved in self._contexts)

    def take(self, context: Prompt, prompt: Prompt) -> Prompt:
        """The best context to serve ``prompt`` from; a saved one leaves the cache.

        A saved one must share more tokens than ``context`` and than the best so
        far, and waste a smaller share of itself.
        """
        best_index: int | None = None
        best_common = context.common_prefix(prompt)
        best_kept = best_common / context.tokens if context.tokens else -1.0
        for index, saved in enumerate(self._contexts):
            common = saved.common_prefix(prompt)
            kept = common / saved.tokens
            if kept >= LEAST_KEPT and kept > best_kept and common > best_common:
                best_index, best_common, best_kept = index, common, kept
        if best_index is None:
            return context
        best = self._contexts.pop(best_index)
        self.tokens -= best.tokens
        return best

    def cached_prefix_tokens(self, prompt: Prompt) -> int:
        """Most leading tokens of ``prompt`` in one context that would be used for it."""
        common = [(saved.common_prefix(prompt), saved.tokens) for saved in self._contexts]
        return max((same for same, of in common if same >= LEAST_KEPT * of), default=0)

    def trim(self) -> None:
        """Drop the oldest contexts while there is too much; one always stays."""
        while len(self._contexts) > 1 and self.tokens > self._capacity_tokens:
            self.tokens -= self._contexts.pop(0).tokens
