"""Where the time to first token of each request went, where its cache was, who sent it there.

- ``explanation``      ``explain`` and ``parts``: one run repeated and divided
- ``kinds``            the parts and what each is
- ``instrumentation``  observes the steps of a repeated run, with ``step_costs``
- ``breakdown``        from tables and observations to parts that add up
- ``request_report``   a run, or one request, as plain data and in words
"""

from sim.explain.explanation import explain, parts

__all__ = ["explain", "parts"]
