"""Step times from the kernel tables of a machine: what each layer takes, measured in vLLM.

A step is the sum of its kernels: the dense ones of all layers by the tokens
computed, attention by what is prefilled and decoded, the output head and the
sampler by the sequences. The dense ones become the curve over the tokens; what
is left is fitted by the linear terms, relative to the whole step, over those
points of the tables that the engine can meet. Nothing here knows a recording.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from sim.core.stats import Floats
from sim.engine.spec import Vllm
from sim.hardware.architecture import BF16_BYTES, Architecture
from sim.hardware.engine import Curve, Prefilling, StepTime
from sim.results.arrow import Mask

ONCE_PER_STEP: Final = ("embedding", "final_layernorm")
TWICE_PER_LAYER: Final = ("layernorm",)

UNTABLED_MS_PER_100_SEQUENCES: Final = 2.0
"""20 µs that each decoding sequence adds to a step, on every machine, beside its kernels.

The tables are of even batches, kernel by kernel, without the host. A real
batch is uneven, and its attention waits for the longest context; the host
schedules, samples and answers each sequence. Both grow with the batch, and
neither is a time per step: what one sequence alone takes in the recordings is
what the tables say, within 1 %. Fits of whole engines find 0 to 50 µs (engine
semantics, section 2); of these, 20 is the one number that was chosen with the
recordings in sight.
"""

ROUTING_US_PER_LAYER: Final = 55.0
"""What a layer of experts takes beside exchange and experts: gate, choice, sorting, summing.

Its kernels are in none of the tables. A layer costs 110 to 140 µs of such
things with experts and 55 µs without (fits to sums over layers of kernel tables); the
exchange, which that includes, has tables here, so it is the lower difference.
"""


class Attention(NamedTuple):
    """Attention of one layer: one prompt chunk behind a prefix, beside equal decodes."""

    chunk_tokens: Floats
    prefix_tokens: Floats
    decoders: Floats
    decoder_tokens: Floats
    time_us: Floats

    def where(self, mask: Mask) -> "Attention":
        """The rows of ``mask``."""
        return Attention(*(column[mask] for column in self))


class KernelSweep(NamedTuple):
    """Times of one kernel by tokens, sequences or bytes."""

    at: Floats
    time_us: Floats


class ExpertTimes(NamedTuple):
    """What exchanging tokens and the experts themselves take, in one layer of one rank.

    ``by_tokens``: at so many tokens the time by the experts that they touch.
    ``exchange``: the collectives before and behind, by the bytes of one rank.
    """

    by_tokens: dict[int, KernelSweep]
    exchange: tuple[KernelSweep, ...]


@dataclass(frozen=True)
class KernelTables:
    """The kernels of one model on one machine, by name: µs each time that they run."""

    attention: Attention
    dense: dict[str, KernelSweep]
    per_sequence: dict[str, KernelSweep]
    experts: ExpertTimes | None = None


def read_tables(folder: Path, name: str, collectives: str = "") -> KernelTables:
    """The files ``kernels.<name>.*.csv.gz`` of ``folder``.

    With the name of ``collectives.<name>.csv.gz`` those of experts that ranks share.
    """
    keys = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
    rows = list(_rows(folder / f"kernels.{name}.attention.csv.gz"))
    columns = (np.array([float(row[key]) for row in rows]) for key in keys)
    experts = None
    if collectives:
        touched = _sweeps(
            _rows(folder / f"kernels.{name}.moe.csv.gz"), "tokens", "activated_experts"
        )
        exchange = _sweeps(
            _rows(folder / f"collectives.{collectives}.csv.gz"), "collective", "bytes"
        )
        by_tokens = {int(tokens): sweep for tokens, sweep in touched.items()}
        experts = ExpertTimes(by_tokens, tuple(exchange.values()))
    return KernelTables(
        Attention(*columns),
        _sweeps(_rows(folder / f"kernels.{name}.dense.csv.gz"), "layer", "tokens"),
        _sweeps(_rows(folder / f"kernels.{name}.per_sequence.csv.gz"), "layer", "sequences"),
        experts,
    )


def fit(tables: KernelTables, model: Architecture, engine: Vllm) -> StepTime:
    """The step time of ``model`` on the machine of ``tables``.

    ``engine`` says which batches can be, by its budget, its most sequences, its
    KV capacity, and how many ranks share the experts. Least squares with
    coefficients that are not negative.
    """
    from scipy.optimize import nnls

    layers = model.layers
    curve = _by_tokens(tables, model, engine.data_parallel if engine.enable_expert_parallel else 1)
    rows = tables.attention.where(_possible(tables.attention, engine))
    chunk, decoders = rows.chunk_tokens, rows.decoders
    context = decoders * rows.decoder_tokens
    pairs = chunk * (rows.prefix_tokens + chunk / 2.0)
    prefills = (chunk > 0).astype(np.float64)
    terms = np.column_stack(
        [
            np.ones_like(chunk),
            context / 1e5,
            pairs / 1e8,
            decoders / 1e2,
            prefills,
            prefills * context / 1e5,
            prefills * decoders / 1e2,
        ]
    )
    rest_ms = layers * rows.time_us / 1e3
    rest_ms += _total_us(tables.per_sequence.values(), np.maximum(decoders, 1.0)) / 1e3
    step_ms = rest_ms + np.interp(chunk + decoders, curve.tokens, curve.ms)
    scale = terms.max(axis=0)
    found, _ = nnls(terms / scale / step_ms[:, None], rest_ms / step_ms)
    a, c, d, f, more, more_context, more_decoders = (_rounded(value) for value in found / scale)
    return StepTime(
        a=a,
        c=c,
        d=d,
        f=f + UNTABLED_MS_PER_100_SEQUENCES,
        computed=curve,
        prefilling=Prefilling(a=more, c=more_context, f=more_decoders),
    )


def _possible(attention: Attention, engine: Vllm) -> Mask:
    """The batches that the engine can meet; the last token of a sequence needs no KV."""
    held = attention.decoders * attention.decoder_tokens
    held = held + attention.chunk_tokens + attention.prefix_tokens
    computed = attention.decoders + attention.chunk_tokens
    possible: Mask = attention.decoders <= engine.max_num_seqs
    possible &= computed <= engine.max_num_batched_tokens
    possible &= held <= engine.kv_tokens()
    return possible


def _by_tokens(tables: KernelTables, model: Architecture, ranks: int) -> Curve:
    """What depends on the tokens computed and on nothing else: dense kernels and experts."""
    layers = model.layers
    times = dict.fromkeys(tables.dense, layers)
    times |= {name: 1 for name in ONCE_PER_STEP if name in tables.dense}
    times |= {name: 2 * layers for name in TWICE_PER_LAYER if name in tables.dense}
    tokens = next(iter(tables.dense.values())).at
    total_us = np.zeros_like(tokens)
    for name, sweep in tables.dense.items():
        total_us += times[name] * np.interp(tokens, *sweep)
    if tables.experts is not None:
        total_us += layers * _experts_us(tables.experts, model, ranks, tokens)
    return Curve(
        tokens=tuple(int(at) for at in tokens), ms=tuple(_rounded(us / 1e3) for us in total_us)
    )


def _experts_us(experts: ExpertTimes, model: Architecture, ranks: int, tokens: Floats) -> Floats:
    """One layer of experts on a rank when each of ``ranks`` computes so many ``tokens``.

    A rank has its share of the experts and gets, for it, as many tokens as it
    sends. Tokens choose independently: T of them leave an expert untouched
    with the probability (1 - k/E)^T.
    """
    assert model.experts is not None
    missed = 1.0 - model.experts.per_token / model.experts.count
    share = model.experts.count / ranks
    rows = sorted(experts.by_tokens.items())
    compute_us = [
        np.interp(share * (1.0 - missed ** (ranks * count)), *sweep) for count, sweep in rows
    ]
    bytes_sent = tokens * model.hidden * BF16_BYTES
    own_us: Floats = np.interp(tokens, [float(count) for count, _ in rows], compute_us)
    return ROUTING_US_PER_LAYER + own_us + _total_us(experts.exchange, bytes_sent)


def _total_us(sweeps: Iterable[KernelSweep], at: Floats) -> Floats:
    total_us: Floats = np.sum([np.interp(at, *sweep) for sweep in sweeps], axis=0)
    return total_us


def _rounded(ms: float) -> float:
    """To six digits, the same on every machine; what is next to nothing is nothing."""
    return float(f"{ms:.6g}") if ms >= 1e-6 else 0.0


def _rows(path: Path) -> Iterable[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _sweeps(rows: Iterable[dict[str, str]], name: str, axis: str) -> dict[str, KernelSweep]:
    """A sweep along ``axis`` for each value of the column ``name``, in the order of the rows."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        found[row[name]].append((float(row[axis]), float(row["time_us"])))
    return {key: KernelSweep(*np.array(sorted(points)).T) for key, points in found.items()}
