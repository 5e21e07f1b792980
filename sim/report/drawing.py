"""A drawn figure as SVG that stands inside a page: small, the same each time, at peace with others.

Matplotlib writes a document of its own: with metadata, a style sheet that would
hold for the whole page, and ids that other figures have too. Here its styles
become attributes, which the page's rules on content allow, and its ids are told
apart by the name of the figure.
"""

import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree

from matplotlib.figure import Figure
from matplotlib.text import Text

from sim.plots.saving import as_bytes

SVG: Final = "http://www.w3.org/2000/svg"
LINK: Final = "{http://www.w3.org/1999/xlink}href"
MATHS: Final = "$\\mathdefault{"
"""How Matplotlib's own labels of logarithmic axes begin."""
DENSE: Final = 4_000
"""Vertices or markers of one layer above which it is drawn as a picture."""
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER: Final = re.compile(r"(-?\d+\.\d{2})\d+")
_FONT: Final = re.compile(r"(?:(?P<weight>bold|[1-9]00) )?(?P<size>[\d.]+)px .*")


def svg(figure: Figure, name: str, label: str) -> str:
    """The figure as an ``svg`` element that says ``label`` to those who do not see it.

    ``name`` is the start of every id in it; it has to differ between the figures of a page.
    """
    _simplify(figure)
    root = ElementTree.fromstring(as_bytes(figure))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _adapt(element, name)
    for size in ("width", "height"):  # the page decides; the view box keeps the shape
        del root.attrib[size]
    root.attrib |= {"role": "img", "aria-label": label, "stroke-linejoin": "round"}
    ElementTree.indent(root, space="")
    return ElementTree.tostring(root, encoding="unicode")


def _simplify(figure: Figure) -> None:
    """What would take megabytes as lines becomes a picture; the axes and all text stay lines."""
    for axes in figure.axes:
        for line in axes.lines:
            line.set_rasterized(len(line.get_xdata(orig=False)) > DENSE)  # type: ignore[arg-type]
        for collection in axes.collections:
            parts = max(len(collection.get_offsets()), len(collection.get_paths()))  # type: ignore[arg-type]
            vertices = sum(len(path) for path in collection.get_paths())
            collection.set_rasterized(max(parts, vertices) > DENSE)
        crowded = len(axes.patches) > DENSE
        for patch in axes.patches:
            patch.set_rasterized(crowded)
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels()  # makes them
    for text in figure.findobj(Text):
        if isinstance(text, Text) and not text.get_text().startswith(MATHS):
            text.set_parse_math(False)  # a name with two dollar signs is a name


def _adapt(element: ElementTree.Element, name: str) -> None:
    """Ids of its own, attributes instead of styles, the page's font, numbers of two decimals."""
    element.tag = element.tag.removeprefix(f"{{{SVG}}}")
    attributes: dict[str, str] = {}
    for key, value in element.attrib.items():
        if key == "style":
            attributes |= dict(_presentation(value))
        elif key == "id":
            attributes[key] = f"{name}-{value}"
        elif key == LINK:
            attributes["href"] = f"#{name}-{value[1:]}" if value.startswith("#") else value
        elif key in ("d", "points", "transform", "x", "y"):
            attributes[key] = _LONG_NUMBER.sub(r"\1", " ".join(value.split()))
        else:
            attributes[key] = value
    element.attrib.clear()
    element.attrib.update(
        (key, _REFERENCE.sub(rf"url(#{name}-\1)", value)) for key, value in attributes.items()
    )


def _presentation(style: str) -> Iterator[tuple[str, str]]:
    """The declarations of a style as attributes of SVG."""
    for declaration in filter(None, (part.strip() for part in style.split(";"))):
        key, _, value = declaration.partition(":")
        found = _FONT.fullmatch(value.strip()) if key == "font" else None
        if found:
            yield "font-size", found["size"]
            if found["weight"]:
                yield "font-weight", found["weight"]
        elif key not in ("font", "font-family"):  # the page's own, which every machine has
            yield key.strip(), value.strip()
