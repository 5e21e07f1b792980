"""Model pools: several models that take turns on one GPU.

The proxy and the machine are two sides, as in LLMKube's router and controller:
``activator`` decides who is granted, held or skipped and which swap starts, by
what the proxy believes (``belief``: resident, counts, who waits; ``decision``:
what follows for an attempt; ``reclaim``: when the default comes back); ``slot``
does it, with processes and a clock (``drain``, ``loading``), and knows no
requests. ``spec`` has the settings.

``drain`` and ``loading`` are of one member each and know nothing of others:
kinds of pools that keep several members ready are built on them.
"""
