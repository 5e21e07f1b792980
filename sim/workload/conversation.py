"""The text of one conversation as it grows, turn by turn."""

from typing import Final

from sim.core.content import Node, Prompt

ALL: Final = -1
"""Tokens kept by a prompt that repeats the whole text so far."""


class Conversation:
    """A text that branches off a shared one and is continued, or rewritten, by each turn.

    The text is what prompts and those answers that are sent back have said so
    far. ``node`` holds its end; ``tokens`` is its length.
    """

    __slots__ = ("_shared", "_shared_tokens", "node", "tokens")

    def __init__(self, shared: Node | None = None, shared_tokens: int = 0) -> None:
        """Begin after the first ``shared_tokens`` tokens of the text of ``shared``."""
        self._shared = shared
        self._shared_tokens = shared_tokens
        self.start_over()

    def start_over(self) -> None:
        """Drop all but the shared text, as it was before any turn edited it."""
        self.node = Node(self._shared, self._shared_tokens) if self._shared_tokens else Node()
        self.tokens = self._shared_tokens

    def ask(self, prompt_tokens: int, kept_tokens: int = ALL) -> Prompt:
        """The next prompt: the first ``kept_tokens`` of the text so far, then new tokens.

        A prompt that is shorter than what it keeps is the beginning of the text.
        """
        kept = self.tokens if kept_tokens == ALL else kept_tokens
        kept = min(kept, prompt_tokens)
        if kept < self.tokens:
            self.node = Node(self.node, kept) if kept else Node()
        self.tokens = prompt_tokens
        return Prompt(self.node, prompt_tokens)

    def answer(self, prompt: Prompt, output_tokens: int, sent_back: bool) -> Node:
        """Where the answer to ``prompt``, the last one asked, lies.

        An answer that the next prompt repeats continues the text; any other
        is a leaf of its own and the text goes on without it.
        """
        if not sent_back:
            return Node(prompt.node, prompt.tokens)
        self.tokens += output_tokens
        return self.node

    def return_to(self, prompt: Prompt, kept_tokens: int) -> None:
        """Take up an earlier prompt of the conversation after its first ``kept_tokens``."""
        self.node = Node(prompt.node, kept_tokens) if kept_tokens else Node()
        self.tokens = kept_tokens
