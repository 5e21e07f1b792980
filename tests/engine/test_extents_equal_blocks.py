"""The cache on extents is the cache block by block: same hits, same evictions, same copies."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from sim.core.content import Node, path
from sim.core.kvcache import BlockTable, KVCache
from tests.engine.harness import Call, Text, Traffic
from tests.engine.strategies import many
from tests.oracle import BlockPool, Chains

LONGEST = 24


class Request:
    """One holder in both caches: the first ``computed`` tokens of a text."""

    def __init__(self, text: int) -> None:
        self.text = text
        self.computed = 0
        self.extents = BlockTable()
        self.blocks: list[int] = []


class Caches(RuleBasedStateMachine):
    """Requests come, grow and leave, as a scheduler would let them, in both caches at once."""

    requests = Bundle("requests")

    @initialize(
        capacity=st.integers(3, 24),
        block_size=st.integers(1, 3),
        branches=st.lists(st.tuples(st.integers(0, 3), st.integers(0, LONGEST)), max_size=3),
        unhashed_first=st.booleans(),
        state_blocks=st.integers(1, 3),
    )
    def build(
        self,
        capacity: int,
        block_size: int,
        branches: list[tuple[int, int]],
        unhashed_first: bool,
        state_blocks: int,
    ) -> None:
        texts = [Text()]
        for parent, start in branches:
            texts.append(Text(parent, start) if parent < len(texts) else Text())
        self.block_size = block_size
        self.tokens = [
            Traffic(tuple(texts), ()).job(Call(0.0, text, LONGEST, 0)).prompt
            for text in range(len(texts))
        ]
        self.nodes: list[Node] = Traffic(tuple(texts), ()).nodes()
        self.store = KVCache(capacity, block_size, unhashed_first)
        self.pool = BlockPool(capacity, unhashed_first)
        self.state_blocks = state_blocks
        self.chains = Chains(block_size)

    @rule(
        target=requests, text=st.integers(0, 3), length=st.integers(1, LONGEST), share=st.booleans()
    )
    def enter(self, text: int, length: int, share: bool) -> Request:
        """A request is admitted with its cached blocks, or has none (nothing is looked up)."""
        request = Request(text % len(self.nodes))
        route = path(self.nodes[request.text], length)
        limit = (length - 1) // self.block_size if share else 0
        hit, idle = self.store.lookup(route, limit)
        hits = self.pool.lookup(self._chains(request.text, limit * self.block_size))
        assert hit == len(hits)
        assert idle == sum(block in self.pool.free for block in hits)
        self.store.acquire(request.extents, route, hit)
        self.pool.take(hits)
        request.blocks = hits
        request.computed = hit * self.block_size
        self._compute(request, length)
        return request

    @rule(request=requests, tokens=st.integers(1, 12))
    def grow(self, request: Request, tokens: int) -> None:
        """A chunk of prefill, or tokens that were generated."""
        self._compute(request, min(request.computed + tokens, LONGEST))

    @rule(request=consumes(requests))
    def leave(self, request: Request) -> None:
        self.store.release(request.extents)
        self.pool.release(request.blocks)

    @rule(text=st.integers(0, 3), length=st.integers(1, LONGEST))
    def keep_state(self, text: int, length: int) -> None:
        """What the recurrent layers know after a number of blocks, cached or not."""
        text %= len(self.nodes)
        blocks = length // self.block_size
        if blocks:
            self.store.checkpoint(path(self.nodes[text], length), blocks, self.state_blocks)
            self.pool.keep_state(self._chains(text, length)[-1], self.state_blocks)

    @rule(text=st.integers(0, 3))
    def use_state(self, text: int) -> None:
        text %= len(self.nodes)
        route = path(self.nodes[text], LONGEST)
        blocks = self.store.checkpoint_before(route, LONGEST // self.block_size)
        if blocks:
            self.store.use_checkpoint(route, blocks)
            self.pool.use_state(self._chains(text, LONGEST)[blocks - 1])

    def _compute(self, request: Request, end: int) -> None:
        """As far towards ``end`` as the free blocks go."""
        owned = len(request.blocks)
        end = min(end, (owned + len(self.pool.free)) * self.block_size)
        if end <= request.computed:
            return
        needed = -(-end // self.block_size) - owned
        full = end // self.block_size
        self.store.allocate(needed)
        request.extents.blocks += needed
        self.store.extend(request.extents, path(self.nodes[request.text], end), full)
        request.blocks += [self.pool.allocate() for _ in range(needed)]
        chains = self._chains(request.text, end)
        for position in range(request.computed // self.block_size, full):
            self.pool.seal(request.blocks[position], chains[position])
        request.computed = end

    def _chains(self, text: int, length: int) -> list[int]:
        chains: list[int] = []
        self.chains.extend(chains, self.tokens[text][:length])
        return chains

    @invariant()
    def nobody_sees_a_difference(self) -> None:
        """Free blocks, and for every text how much of it is a hit and how much of that is idle."""
        assert self.store.free == len(self.pool.free)
        for text, node in enumerate(self.nodes):
            hits = self.pool.lookup(self._chains(text, LONGEST))
            idle = sum(block in self.pool.free for block in hits)
            limit = LONGEST // self.block_size
            assert self.store.lookup(path(node, LONGEST), limit) == (len(hits), idle)

    @invariant()
    def the_same_states_are_kept(self) -> None:
        for text, node in enumerate(self.nodes):
            chains = self._chains(text, LONGEST)
            for limit in range(len(chains) + 1):
                states = [at for at in range(1, limit + 1) if self.pool.has_state(chains[at - 1])]
                at = max(states, default=0)
                assert self.store.checkpoint_before(path(node, LONGEST), limit) == at

    @invariant()
    def no_block_is_cached_without_its_parent(self) -> None:
        """What makes a leading part per node enough, and a hit beyond a gap impossible (C23)."""
        for chain in self.pool.cached_chains():
            parent = self.chains.parents[chain]
            assert parent == -1 or self.pool.is_cached(parent)


class TestCaches(Caches.TestCase):
    """If it fails, extents evict, share or copy other blocks than a block cache does."""

    settings = settings(many(200), stateful_step_count=80)
