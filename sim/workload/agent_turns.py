"""One session of a coding agent, drawn in bulk before it begins."""

from typing import NamedTuple

import numpy as np

from sim.workload.agent_spec import MAX_TURNS, AgentsSpec
from sim.workload.conversation import ALL
from sim.workload.distributions import Counts, Delays


class Session(NamedTuple):
    """The turns of one session, one entry each.

    ``kept_tokens`` says how much of the text so far the prompt repeats (``ALL``
    but for edits and compactions); ``think_s`` passes before the turn.
    """

    family: int
    prompt_tokens: list[int]
    kept_tokens: list[int]
    output_tokens: list[int]
    think_s: list[float]


class SessionSource:
    """Draws sessions with the parameters of a spec."""

    def __init__(self, spec: AgentsSpec) -> None:
        self._spec = spec
        ranks = np.arange(1, spec.shared_prefix.families + 1, dtype=np.float64)
        weights = np.cumsum(ranks**-spec.shared_prefix.zipf)
        self._families: Delays = weights / weights[-1]

    def draw(self, generator: np.random.Generator) -> Session:
        """A session; takes as many draws from ``generator`` as it needs."""
        spec = self._spec
        family = int(np.searchsorted(self._families, generator.random(), side="right"))
        first = spec.fresh_prompt if generator.random() < spec.fresh_share else spec.resumed_prompt
        prompts, compacted = self._prompts(generator, int(first.draw(generator, 1)[0]))
        turns = len(prompts)
        kept = self._kept(generator, prompts, compacted)
        output = spec.output.draw(generator, turns)
        think = spec.think.draw(generator, turns, spec.think_cap)
        return Session(family, prompts.tolist(), kept.tolist(), output.tolist(), think.tolist())

    def _prompts(self, generator: np.random.Generator, first: int) -> tuple[Counts, list[int]]:
        """Prompt lengths of the turns, and which of the turns are compactions."""
        spec = self._spec
        limit = spec.prompt_limit
        intended = min(int(spec.turns.draw(generator, 1)[0]), MAX_TURNS)
        grown = np.cumsum(spec.growth.draw(generator, intended))
        compacted: list[int] = []
        stretches = []
        begin = 0
        prompt = min(first, limit)
        while True:
            # Looked up in the one sum: a session may be compacted at every turn.
            base = prompt - int(grown[begin])
            end = int(np.searchsorted(grown, limit - base, side="right"))
            stretches.append(base + grown[begin:end])
            if end == intended or spec.at_context_limit == "end":
                return np.concatenate(stretches), compacted
            compacted.append(end)
            begin = end
            prompt = min(int(spec.compaction.prompt.draw(generator, 1)[0]), limit)

    def _kept(
        self, generator: np.random.Generator, prompts: Counts, compacted: list[int]
    ) -> Counts:
        """Tokens of the text so far that each prompt repeats.

        After an early edit something between the shared prefix and half of
        the prompt survives; after a compaction the shared prefix.
        """
        shared = min(self._spec.shared_prefix.tokens, int(prompts[0]))
        kept = np.full(len(prompts), ALL, np.int64)
        edited = np.flatnonzero(generator.random(len(prompts)) < self._spec.early_edit_share)
        edited = edited[edited > 0]
        room = np.maximum(prompts[edited] // 2 - shared, 0)
        kept[edited] = shared + np.rint(room * generator.random(len(edited))).astype(np.int64)
        kept[compacted] = shared
        return kept
