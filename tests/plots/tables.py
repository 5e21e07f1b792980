"""Tables as runs give them, written down by hand; and what can be read off a drawn figure."""

import re
from io import StringIO
from itertools import chain, combinations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.text import Text

from sim.plots import as_bytes
from sim.plots.style import styled


def requests(ttft_s, *, variant="", seed=1, arrival_s=0.0, status=None, **columns):
    """One request per entry of ``ttft_s``; None is one without a first token, in flight."""
    arrivals = np.broadcast_to(np.asarray(arrival_s, dtype=float), len(ttft_s))
    firsts = [np.nan if one is None else at + one for at, one in zip(arrivals, ttft_s)]
    stati = status or ["in_flight" if one is None else "completed" for one in ttft_s]
    frame = pd.DataFrame({"variant": variant, "seed": seed, "status": stati})
    return frame.assign(arrival_s=arrivals, first_token_s=firsts, **columns)


def placements(rows, *, variant="", seed=1):
    """Request, time, prompt tokens, cached ones (None: never admitted), outcome, reason."""
    names = ["request_id", "dispatch_s", "prompt_tokens", "cached_tokens", "outcome", "reason"]
    frame = pd.DataFrame(rows, columns=names).astype({"cached_tokens": "Int64"})
    frame["scheduled_s"] = frame["dispatch_s"].where(frame["cached_tokens"].notna())
    return frame.assign(variant=variant, seed=seed, proxy="proxy-0")


def polls(values, *, gauge="in_flight", period_s=1.0, variant="", seed=1):
    """A pods table: ``values[pod][poll]`` of one gauge, the others 0."""
    rows = [
        {"time_s": at * period_s, "pod": f"qwen-{pod}", gauge: value}
        for at in range(max(map(len, values), default=0))
        for pod, series in enumerate(values)
        for value in series[at : at + 1]
    ]
    names = ["time_s", "pod", "in_flight", "waiting", "running", "kv_usage"]
    frame = pd.DataFrame(rows, columns=names)
    numbers = frame[["in_flight", "waiting", "running", "kv_usage"]].astype(float).fillna(0.0)
    return frame.assign(**numbers, variant=variant, seed=seed)


def line(ax: Axes, label: str):
    """The x and y data of the line that the legend calls ``label``."""
    found = [one for one in ax.lines if one.get_label() == label]
    assert len(found) == 1, label
    return np.asarray(found[0].get_xdata(), float), np.asarray(found[0].get_ydata(), float)


def words(ax: Axes) -> str:
    """Everything that is written on the figure, in one line."""
    found = [text.get_text() for text in ax.get_figure(root=True).findobj(Text)]
    return " ".join(" ".join(found).split())


def legend_of(ax: Axes) -> list[str]:
    """What the legend names."""
    return [text.get_text() for legend in ax.figure.legends for text in legend.get_texts()]


@styled()
def check_readable(figure: Figure) -> None:
    """All words lie inside the figure, tick labels do not overlap, nothing is drawn at NaN."""
    figure.set_dpi(72.0)  # as in an SVG, so that what is written now has its place
    drawn = re.sub(rb'base64,[^"]*', b"", as_bytes(figure))
    assert b"nan" not in drawn.lower()
    renderer = RendererSVG(figure.bbox.width, figure.bbox.height, StringIO())
    page = figure.bbox.padded(1.0)
    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    ticks = [label for axis in axes for tick in axis.get_major_ticks() for label in _both(tick)]
    rows = [_ticks_in_view(axis) for axis in axes]
    others = [text for text in figure.findobj(Text) if text not in ticks]
    for text in chain(others, *rows):
        if text.get_visible() and text.get_text():
            box = text.get_window_extent(renderer)
            assert page.x0 <= box.x0 and box.x1 <= page.x1, f"{text.get_text()!r} is cut off"
            assert page.y0 <= box.y0 and box.y1 <= page.y1, f"{text.get_text()!r} is cut off"
    for labels in rows:
        boxes = [label.get_window_extent(renderer).padded(-1.0) for label in labels]
        for (one, a), (other, b) in combinations(zip(labels, boxes), 2):
            assert not a.overlaps(b), f"{one.get_text()!r} on {other.get_text()!r}"


def _both(tick):
    return tick.label1, tick.label2


def _ticks_in_view(axis) -> list[Text]:
    low, high = sorted(axis.get_view_interval())
    return [
        tick.label1
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text()
    ]
