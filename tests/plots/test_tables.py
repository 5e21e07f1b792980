"""What figures say of a table that is not the one they need."""

import re

import pandas as pd
import pytest

from sim import plots

FIGURES = {
    "hit_rate_over_time": "the table of placements (runs.placements)",
    "kv_usage_over_time": "the table of polls (runs.pods)",
    "load_over_time": "the table of polls (runs.pods)",
    "pool_timeline": "the table of pools (runs.pools)",
    "session_map": "the table of requests (runs.requests)",
    "spills_by_reason": "the table of placements (runs.placements)",
    "sweep_lines": "the table of a sweep (sim.sweep.run(...).table)",
    "ttft_cdf": "the table of requests (runs.requests)",
}
MORE = {"pool_timeline": [pd.DataFrame()], "sweep_lines": ["x", "ttft_s.p95"]}


class Runs:
    """Stands for what ``sim.run`` returns."""


def draw(name, given):
    return getattr(plots, name)(given, *MORE.get(name, []))


@pytest.mark.parametrize(("name", "needed"), FIGURES.items())
def test_what_is_no_table_is_told_which_one_is_needed(name, needed):
    """``plots.ttft_cdf(runs)`` ended in "argument of type 'Runs' is not iterable"."""
    with pytest.raises(TypeError, match=f"^{re.escape(f'needs {needed}; got Runs')}$"):
        draw(name, Runs())


@pytest.mark.parametrize(("name", "needed"), FIGURES.items())
def test_another_table_is_told_which_one_is_needed(name, needed):
    """``plots.ttft_cdf(runs.placements)`` ended in ``KeyError: 'arrival_s'``."""
    with pytest.raises(ValueError, match=f"^{re.escape(f'needs {needed}: no column ')}"):
        draw(name, pd.DataFrame({"variant": [""], "seed": [1]}))


def test_what_is_no_comparison_is_told_so():
    """``plots.metric_by_variant(runs, ...)`` ended in "'Runs' object is not subscriptable"."""
    with pytest.raises(TypeError, match=r"^needs runs\.comparison; got Runs$"):
        plots.metric_by_variant(Runs(), "ttft_s.p95")
