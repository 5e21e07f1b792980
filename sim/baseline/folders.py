"""Where scenarios and baselines are, and the command that brings the baselines up to date."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SCENARIOS: Final = Path("scenarios", "regression")
BASELINES: Final = Path("results", "baselines")


@dataclass(frozen=True)
class Folders:
    """The two folders of ``podsim baseline``."""

    scenarios: Path = SCENARIOS
    baselines: Path = BASELINES

    def update(self, *names: str) -> str:
        """The command that keeps today's results of these scenarios, to be typed as it stands."""
        words = ["podsim", "baseline", "update", *names]
        for option, folder, usual in (
            ("--scenarios", self.scenarios, SCENARIOS),
            ("--baselines", self.baselines, BASELINES),
        ):
            if folder != usual:
                words += [option, str(folder)]
        return shlex.join(words)


USUAL: Final = Folders()
