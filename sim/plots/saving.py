"""Figures as bytes: the same figure, the same bytes, in every process."""

import io
import re
from html import escape
from typing import Any, Final, Literal

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

Format = Literal["svg", "png", "pdf"]
DPI: Final = 200
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.hashsalt": "podsim",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
_NO_DATE: Final[dict[Format, dict[str, str | None]]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def as_bytes(figure: Figure, form: Format = "svg") -> bytes:
    """A figure as the content of a file."""
    canvas = {"svg": FigureCanvasSVG, "png": FigureCanvasAgg, "pdf": FigureCanvasPdf}[form](figure)
    file = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        canvas.print_figure(file, format=form, dpi=DPI, metadata=_NO_DATE[form])
    return file.getvalue()


class Drawing(Figure):
    """A figure that a notebook shows, though pyplot does not know it."""

    def _repr_svg_(self) -> str:
        return as_bytes(self).decode()


def inline_svg(figure: Figure, name: str, about: str) -> str:
    """A figure as an ``svg`` element for a page, as wide as its container.

    Every id in it begins with ``name``, so that several figures can share a
    page; ``about`` is what a screen reader says.
    """
    text = as_bytes(figure).decode()
    text = text[text.index("<svg") :]
    for element in ("metadata", "style"):  # a rule for * would hold for the whole page
        text = re.sub(rf"<{element}\b.*?</{element}>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    opening, rest = text.split(">", 1)
    opening = re.sub(r' (?:width|height)="[^"]*"', "", opening)
    label = escape(about, quote=True)
    style = "width:100%;height:auto;stroke-linejoin:round;stroke-linecap:butt"
    return f'{opening} role="img" aria-label="{label}" style="{style}">{rest}'.strip()
