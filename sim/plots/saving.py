"""Figures as bytes: the same figure, the same bytes, in every process."""

import io
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
