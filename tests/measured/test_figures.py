"""Predicted beside measured: errors, bounds, and what a table says of all of them."""

import json

import pytest

from sim.validation.figures import FigureTable, MeasuredFigure, as_data


def test_an_error_is_relative_to_what_was_measured():
    """A prediction of half would look as good as one of twice."""
    assert MeasuredFigure("TPOT, ms", 11.0, 10.0).error == pytest.approx(0.1)
    assert MeasuredFigure("TPOT, ms", 5.0, 10.0).error == -0.5


@pytest.mark.parametrize("figure", [MeasuredFigure("a", 1.0, None), MeasuredFigure("a", None, 1.0)])
def test_what_is_missing_has_no_error_and_meets_no_bound(figure):
    """A figure that nobody measured, or that podsim cannot answer, would count as right."""
    assert figure.error is None
    assert figure.ok
    assert not MeasuredFigure(figure.what, figure.predicted, figure.measured, 0.1).ok


def test_nothing_measured_is_no_division_by_zero():
    """A recording without preemptions would end the comparison."""
    assert MeasuredFigure("preemptions", 3.0, 0.0).error is None


@pytest.mark.parametrize(("predicted", "ok"), [(97.0, True), (103.0, True), (96.9, False)])
def test_a_bound_holds_on_both_sides(predicted, ok):
    """An engine that is too fast would pass."""
    assert MeasuredFigure("TTFT, s", predicted, 100.0, 0.0301).ok is ok


def test_a_table_takes_the_sizes_of_its_errors():
    """Errors of both signs would cancel out."""
    figures = [MeasuredFigure("a", value, 100.0) for value in (90.0, 95.0, 105.0, 110.0, 101.0)]
    table = FigureTable("t", (*figures, MeasuredFigure("b", 1.0, None)))
    assert table.median == pytest.approx(0.05)
    assert table.p95 == pytest.approx(0.10)
    assert FigureTable("empty", (MeasuredFigure("b", 1.0, None),)).median is None


def test_a_bound_on_the_median_counts_as_one_more():
    """Closed loops, of which half may be far off, could be wrong without a word."""
    figures = (MeasuredFigure("a", 1.2, 1.0, 0.1), MeasuredFigure("b", 1.2, 1.0))
    assert FigureTable("t", figures).out_of_bounds == 1
    assert FigureTable("t", figures, median_bound=0.3).out_of_bounds == 1
    assert FigureTable("t", figures, median_bound=0.1).out_of_bounds == 2
    assert FigureTable("t", (MeasuredFigure("a", 1.0, None),), median_bound=0.1).out_of_bounds == 1


def test_bounds_are_counted_where_there_are_some():
    """A table without bounds would look as if all of its figures held."""
    figures = (MeasuredFigure("a", 1.0, 1.0, 0.1), MeasuredFigure("b", 5.0, 1.0))
    assert FigureTable("t", figures).bounded == 1
    assert FigureTable("t", figures[1:], median_bound=9.0).bounded == 0
    some, median, none = as_data(
        [
            FigureTable("t", figures),
            FigureTable("t", figures[1:], median_bound=9.0),
            FigureTable("t", figures[1:]),
        ]
    )
    assert (some["ok"], median["ok"], none["ok"]) == (True, True, None)
    assert [figure["ok"] for figure in some["figures"]] == [True, None]
    assert (some["figures_bounded"], none["figures_bounded"]) == (1, 0)


def test_json_holds_all_of_it():
    """A program would have to parse the text."""
    table = FigureTable(
        "t", (MeasuredFigure("a", 1.1, 1.0, 0.05), MeasuredFigure("b", 2.0, None)), 0.2, ("a note",)
    )
    (data,) = json.loads(json.dumps(as_data([table]), allow_nan=False))
    assert (data["table"], data["notes"], data["ok"]) == ("t", ["a note"], False)
    assert data["median_error"] == pytest.approx(0.1)
    assert data["figures"][0]["bound"] == 0.05
    assert (data["figures_bounded"], data["out_of_bounds"]) == (1, 1)
    assert data["figures"][1]["error"] is None
