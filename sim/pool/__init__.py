"""Model pools: several models that take turns on the same GPUs.

The proxy and the machine are two sides, as in LLMKube's router and controller: ``scheduler``
decides which attempt is granted, held or skipped and which swap starts, by what the proxy
knows (``observed_state``; ``decision``: what follows for an attempt, ``fair``: another
decision; ``swaps``: swaps and the reclaim of the default member). ``slot`` carries it out with
processes and a clock, and knows no requests. ``spec`` has the settings.
"""
