"""Pools: several models that share the memory of the same GPUs.

What all kinds have in common: ``attempts`` (who waits, who is in flight, and
their rows), ``rounds`` (one decision at a time), and of one member each
``drain`` and ``loading``.

A model pool and a fair one have one exclusive slot. The proxy and the machine
are two sides, as in LLMKube's router and controller: ``activator`` decides who
is granted, held or skipped and which swap starts, by what the proxy believes
(``belief``: resident, counts, who waits; ``decision``: what follows for an
attempt, ``fair``: what does there; ``reclaim``: when the default comes back);
``slot`` does it, with processes and a clock, and knows no requests.

``llamaswap`` and ``ollama`` are schedulers of several members that come and go
beside each other (``runner``: one of them, ``idleness``: when it has nothing to
do, ``memory``: what they share). They start the processes themselves, so they
know who is there; they hold whoever cannot be served, without a bound, and skip
nobody. ``spec`` and the ``*_spec`` have the settings.
"""
