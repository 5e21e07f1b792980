"""The figures of real runs: which there are, whether they show what the summary says."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from sim import plots
from sim.plots import FIGURES
from sim.plots.catalogue import CATALOGUE, MOST_PANELS, Material, telling
from sim.plots.frames import within
from sim.results.store import Origin, write
from sim.results.stored import StoredRun, stored_runs
from tests.plots.tables import check_readable, line, words
from tests.results.builders import mixed_run, pooled_run

OF_FLEET = [name for name in FIGURES if name != "pool-timeline"]
OF_CARD = [name for name in FIGURES if name not in ("spills-by-reason", "session-map")]


def names(kinds):
    return [kind.name for kind in kinds]


def test_every_figure_is_listed_with_what_it_shows():
    """``podsim plot --list`` would lack a figure, or name one that there is not."""
    assert list(CATALOGUE) == list(FIGURES)


def test_only_figures_that_say_something_are_drawn(of_fleet, of_card):
    """A report would have an empty pool timeline, or lack the one that matters."""
    assert names(telling(of_fleet)) == OF_FLEET
    assert names(telling(of_card)) == OF_CARD


def test_figures_are_readable(of_fleet, of_card):
    """Words would be cut off or lie on each other, on paper or on a phone."""
    for material, widths_in in ((of_fleet, (4.0, 7.0)), (of_card, (6.0,))):
        for width_in in widths_in:
            for kind in telling(material):
                check_readable(kind.draw(material, width_in))


@pytest.mark.parametrize("run", [mixed_run, pooled_run])
def test_runs_of_a_few_requests_make_readable_figures(run, tmp_path):
    """A run of every fate, or of every state of a pool, would end in a warning."""
    write(run(), tmp_path, Origin("a" * 64, {}, variant_hash="", variants=("",)))
    material = Material(stored_runs(tmp_path))
    kinds = telling(material)
    assert len(kinds) >= 4
    for kind in kinds:
        check_readable(kind.draw(material, 6.0))


def test_the_ttft_curves_meet_the_summary(fleet):
    """The figure and the table beside it would disagree about a percentile."""
    window_s = (60.0, 240.0)
    ax = plots.ttft_cdf(fleet.requests, window_s=window_s)
    for variant in ("least-loaded", "bounded-ring", "session-table"):
        ttft_s, share = line(ax, variant)
        for figure, level in (("p50", 0.5), ("p95", 0.95)):
            stated = fleet.comparison[f"ttft_s.{figure}"][variant]["mean"]
            assert ttft_s[share == level] == pytest.approx([stated], rel=1e-12)


def test_the_bars_of_spills_meet_the_summary(fleet):
    """The figure and the table beside it would disagree about the spills."""
    ax = plots.spills_by_reason(fleet.placements, window_s=(60.0, 240.0))
    rows = [label.get_text() for label in ax.get_yticklabels()]
    stacked = np.zeros(len(rows))
    for stack in ax.containers:
        if hasattr(stack, "patches"):
            stacked += [bar.get_width() for bar in stack.patches]
    means = fleet.comparison["spill_ratio"]
    assert stacked.tolist() == pytest.approx([means[row]["mean"] or 0.0 for row in rows])
    assert stacked.max() > 0.0


def test_a_hit_rate_over_all_time_meets_the_summary(fleet):
    """The curve would be of another of the three hit rates."""
    run = fleet.runs[0]
    admitted = within(run.requests, "arrival_s", (60.0, 240.0))["request_id"]
    mine = run.placements[run.placements["request_id"].isin(admitted)]
    _, shares = line(plots.hit_rate_over_time(mine.assign(scheduled_s=0.0)), "base")
    assert shares.tolist() == [pytest.approx(run.summary["prompt_cache_hit_ratio"])]


@pytest.mark.parametrize(("variant", "steady"), [("session-table", True), ("least-loaded", False)])
def test_the_session_map_counts_the_moves_of_the_table(fleet, variant, steady):
    """A policy that scatters sessions would look like one that keeps them."""
    requests = fleet.requests
    rows = requests[(requests["variant"] == variant) & (requests["seed"] == 1)]
    before = rows.groupby("session_id")["pod"].shift()
    moves = int((before.notna() & (before != rows["pod"])).sum())
    ax = plots.session_map(requests, variant=variant)
    ticks = sum(len(one.get_xdata()) for one in ax.lines if one.get_marker() == "|")
    assert ticks == moves
    assert (moves < 5) == steady


def test_panels_show_the_first_run_of_each_variant_on_one_scale(of_fleet):
    """Panels of other scales, or of other seeds, would invite the wrong comparison."""
    figure = CATALOGUE["load-over-time"].draw(of_fleet, 6.0)
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in figure.axes}) == 1
    assert [ax.get_xlabel() for ax in figure.axes] == ["", "", "simulated time, s"]
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["least-loaded", "bounded-ring", "session-table"]
    assert "seed 1 of 2" in words(figure.axes[0])


@dataclass(frozen=True)
class Called(StoredRun):
    """The same run as if it were of another variant, and its window another."""

    name: str = ""
    window_end_s: float = 240.0

    @property
    def variant(self):
        return self.name

    @property
    def facts(self):
        return replace(super().facts, variant=self.name, window_end_s=self.window_end_s)


def test_more_variants_than_panels_are_said_to_be_missing(of_fleet):
    """A reader would look for a variant that was left out in silence."""
    run = of_fleet.runs[0]
    runs = [Called(run.path, run.manifest, f"variant-{at}") for at in range(MOST_PANELS + 1)]
    figure = CATALOGUE["kv-usage-over-time"].draw(Material(tuple(runs)), 6.0)
    assert len(figure.axes) == MOST_PANELS
    assert f"{MOST_PANELS} of {MOST_PANELS + 1} variants" in words(figure.axes[0])
    check_readable(figure)


def test_variants_of_different_windows_keep_their_own(fleet, of_fleet):
    """The window of the first variant would cut the requests of the others."""
    run = of_fleet.runs[0]
    material = Material((run, Called(run.path, run.manifest, "short", 120.0)))
    assert material.window_s is None
    whole, cut = (
        within(fleet.runs[0].requests, "arrival_s", (60.0, end_s)) for end_s in (240, 120)
    )
    sizes = material.requests.groupby("variant", sort=False).size().tolist()
    assert sizes == [len(whole), len(cut)]
    assert 0 < len(cut) < len(whole)


def test_frames_of_a_material_are_those_of_the_runs(fleet, of_fleet):
    """Figures of stored runs would differ from those of a notebook."""
    for name in ("requests", "placements"):
        mine, theirs = getattr(of_fleet, name), getattr(fleet, name)
        pd.testing.assert_frame_equal(mine[theirs.columns], theirs)
    assert of_fleet.comparison == fleet.comparison


def test_a_bare_figure_leaves_its_words_to_the_page(of_fleet):
    """A page with headings of its own would say everything twice."""
    figure = CATALOGUE["load-over-time"].draw(of_fleet, 3.6, bare=True)
    assert figure.notes[0] == "means over 2 s"
    assert "means over" not in words(figure.axes[0])
    check_readable(figure)


def test_figures_are_resolved_on_first_use():
    """``from sim.plots import x`` would fail for a name that is documented, or list others."""
    assert all(callable(getattr(plots, name)) for name in plots.__all__)
    assert dir(plots) == plots.__all__
    with pytest.raises(AttributeError, match="no attribute 'ttft'"):
        _ = plots.ttft
