"""Where the time to first token of each request went, where its cache was, who sent it there.

- ``api``         ``explain`` and ``parts``, for scripts and notebooks
- ``kinds``       the parts and what each is
- ``rerun``       the run once more, watched (``watch``, ``view``), with ``prices`` of its steps
- ``breakdown``   from tables and what was watched to parts that add up
- ``explanation`` one run divided; ``story`` everything about one request, ``words`` in words
"""

from sim.explain.api import explain, parts

__all__ = ["explain", "parts"]
