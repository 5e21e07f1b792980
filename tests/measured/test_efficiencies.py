"""The efficiencies of matrix products are medians of measured GEMM kernels, not chosen.

Both files of data/ are of AIConfigurator's performance database (NOTICE), for
vLLM. ``gemm_utilisation.csv`` has, for rows of 2,048 to 16,384, what kernels
reach of the data sheet: medians over large shapes, whose list was not kept.
``gemm_latencies_ms.csv`` has the kernels themselves of 48 shapes (n, k), from
which the same follows within 0.02, not to the digit.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import cast

import pytest

from sim.hardware.catalog import gpus
from sim.hardware.gpu import Arithmetic
from sim.hardware.step_times import Efficiencies

DATA = Path(__file__).parent / "data"
ROWS = ("2048", "4096", "8192", "16384")

Reached = Mapping[tuple[Arithmetic, str], float]
"""What a GPU reaches of its data sheet, by arithmetic and name."""


def read(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / name).read_text("utf-8").splitlines()))


def by_gpu(values: Iterable[tuple[Arithmetic, str, float]]) -> Reached:
    """The median of each GPU."""
    found = defaultdict(list)
    for arithmetic, gpu, value in values:
        found[arithmetic, gpu].append(value)
    return {key: median(several) for key, several in found.items()}


def over_gpus(reached: Reached, arithmetic: Arithmetic) -> float:
    """The median over GPUs: one set for all of them."""
    return median(value for (its, _), value in reached.items() if its == arithmetic)


@pytest.fixture(scope="module")
def utilisation() -> Reached:
    return by_gpu(
        (cast(Arithmetic, line["arithmetic"]), line["gpu"], float(line[rows]))
        for line in read("gemm_utilisation.csv")
        for rows in ROWS
        if line[rows]
    )


@pytest.fixture(scope="module")
def computed() -> Reached:
    """From the latencies of single kernels and the catalogue's peaks."""
    values = []
    for line in read("gemm_latencies_ms.csv"):
        arithmetic = cast(Arithmetic, line["arithmetic"])
        peak_per_s = gpus()[line["gpu"]].teraflops[arithmetic] * 1e12
        for rows in filter(line.get, ROWS):
            operations = 2 * int(rows) * int(line["n"]) * int(line["k"])
            reached_per_s = operations / (float(line[rows]) / 1e3)
            values.append((arithmetic, line["gpu"], reached_per_s / peak_per_s))
    return by_gpu(values)


@pytest.mark.parametrize("arithmetic", ["bf16", "fp8", "fp4"])
def test_the_one_set_is_the_medians_over_gpus(utilisation: Reached, arithmetic: Arithmetic) -> None:
    """A constant would be from nowhere, or fitted to what podsim is compared with."""
    constant = Efficiencies().products[arithmetic]
    assert constant == round(over_gpus(utilisation, arithmetic), 2)


@pytest.mark.parametrize("arithmetic", ["bf16", "fp8", "fp4"])
def test_the_kernels_themselves_come_to_the_same(
    utilisation: Reached, computed: Reached, arithmetic: Arithmetic
) -> None:
    """Medians would be of other kernels, or against other peaks than the catalogue's.

    The kernels here are of narrow shapes, too, some of which reach less.
    """
    assert over_gpus(computed, arithmetic) == pytest.approx(
        Efficiencies().products[arithmetic], abs=0.02
    )
    assert computed.keys() == utilisation.keys()
    for key, value in computed.items():
        assert value == pytest.approx(utilisation[key], abs=0.025), key


def test_b200_is_below_the_one_set_in_all_formats(utilisation: Reached) -> None:
    """The architecture would explain short TTFTs on B200 by what is not so.

    The median of fp4 is of two GPUs, 0.43 on B200 and 0.63 on RTX PRO 6000.
    """
    products = Efficiencies().products
    b200 = {arithmetic: utilisation[arithmetic, "b200"] for arithmetic in products}
    assert b200 == {
        "bf16": pytest.approx(0.69, abs=0.005),
        "fp8": pytest.approx(0.47, abs=0.005),
        "fp4": pytest.approx(0.43, abs=0.005),
    }
    assert all(b200[arithmetic] < products[arithmetic] for arithmetic in products)
