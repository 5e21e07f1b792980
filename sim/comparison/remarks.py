"""Figures that are not judged: one remark for those with the same reason in the same variants."""

from collections.abc import Iterator, Sequence

from sim.comparison.pairing import called


class Remarks:
    """Collects figures by variant and reason; a new figure is missing from every variant alike."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str], list[str]] = {}

    def add(self, variant: str, reason: str, key: str) -> None:
        """That ``key`` is not judged in ``variant``, for this reason."""
        self._figures.setdefault((reason, variant), []).append(key)

    def told(self, variants: Sequence[str], scenario: str) -> Iterator[str]:
        """The remarks; ``variants`` are all that were compared, of ``scenario``."""
        sharing: dict[tuple[str, str], list[str]] = {}
        for (reason, variant), keys in self._figures.items():
            sharing.setdefault((reason, ", ".join(keys)), []).append(variant)
        for (reason, figures), names in sharing.items():
            everywhere = len(names) == len(variants) > 1
            who = (
                "all variants"
                if everywhere
                else ", ".join(called(name, scenario) for name in names)
            )
            yield f"{who}: {reason}: {figures}"
