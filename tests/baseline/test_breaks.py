"""Code that is broken on purpose turns the check red, and a line says what got worse, and how much.

The scenarios and baselines are those of podsim itself, cut down to the variant that leans on what
is broken; the scenario stays what it is, since another one would not be comparable.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML

from sim.baseline.files import store, stored
from sim.core.stats import Sample
from sim.engine.steptime import Span, StepCost
from sim.pool.decision import ActivationVerdict, Decision
from sim.pool.swaps import ReclaimClock
from sim.router.placement.ring import BoundedRing
from sim.router.placement.table import SessionTable
from tests.baseline.conftest import BASELINES, SCENARIOS, call

ROOT = Path(__file__).parents[2]
NUMBER = r"-?[\d,]+(?:\.\d+)?"
SIGNED = r"[+-][\d,]+(?:\.\d+)?"
LINE = (
    rf"    (\S+) is worse: {NUMBER} → {NUMBER}, {SIGNED} % \[{SIGNED}, {SIGNED}\], "
    rf"\d seeds(?: \(.*\))?; margin {NUMBER} %"
)


def cut(folder: Path, scenario: str, variant: str) -> None:
    """Put one variant of a shipped scenario, and its part of the baseline, into ``folder``."""
    yaml = YAML()
    document = yaml.load((ROOT / SCENARIOS / f"{scenario}.yaml").read_text("utf-8"))
    document["variants"] = {variant: document["variants"][variant]}
    (folder / SCENARIOS).mkdir(parents=True)
    with (folder / SCENARIOS / f"{scenario}.yaml").open("w", encoding="utf-8") as file:
        yaml.dump(document, file)
    kept = stored(ROOT / BASELINES / f"{scenario}.json")
    assert kept is not None
    store(kept.part([variant]), folder / BASELINES / f"{scenario}.json")


def after(cls: type, change: Callable[[object], None]) -> Callable[..., None]:
    """The constructor of ``cls``, followed by ``change``."""
    made = cls.__init__

    def init(self: object, *arguments: object) -> None:
        made(self, *arguments)
        change(self)

    return init


def bound_of_one(patch: pytest.MonkeyPatch) -> None:
    """The ring computes its bound with 1.0 times the mean, whatever maxLoadPercent says."""

    def change(ring: object) -> None:
        ring._percent = 100

    patch.setattr(BoundedRing, "__init__", after(BoundedRing, change))


def no_cooldown(patch: pytest.MonkeyPatch) -> None:
    """A session that has just moved may be moved again at once (R9)."""

    def change(table: object) -> None:
        table._cooldown_s = 0.0

    patch.setattr(SessionTable, "__init__", after(SessionTable, change))


def spill_without_waiting(patch: pytest.MonkeyPatch) -> None:
    """A gap moves sessions although nobody waits at their pod (R3)."""
    relief = SessionTable._relief

    def hasty(self, own, pods, now_s):
        waiting = [1] * len(pods.waiting)
        seen = {name: getattr(pods, name) for name in ("ready", "in_flight", "kv_usage")}
        view = SimpleNamespace(**seen, waiting=waiting, metrics_age_s=pods.metrics_age_s)
        return relief(self, own, view, now_s)

    patch.setattr(SessionTable, "_relief", hasty)


def waits_where_it_should_pass(patch: pytest.MonkeyPatch) -> None:
    """IfIdle waits for a busy pool as Wait does."""
    verdict = Decision.verdict

    def patient(self, activation, now_s):
        found = verdict(self, activation, now_s)
        return ActivationVerdict.WAIT if found is ActivationVerdict.SKIP else found

    patch.setattr(Decision, "verdict", patient)


def slower_steps(patch: pytest.MonkeyPatch) -> None:
    """Every step of an engine takes 4 % longer than the data sheet says."""
    fixed_s = StepCost.fixed_s
    patch.setattr(StepCost, "fixed_s", lambda *arguments: 1.04 * fixed_s(*arguments))


@pytest.mark.parametrize(
    ("scenario", "variant", "broken", "metrics"),
    [
        ("ring", "bounded", bound_of_one, {"ttft_s.p95", "prompt_cache_hit_ratio", "spill_ratio"}),
        (
            *("session-table", "tool-calls", no_cooldown),
            {"ttft_s.p95", "prompt_cache_hit_ratio", "spill_ratio"},
        ),
        (
            *("session-table", "calm", spill_without_waiting),
            {"ttft_s.p95", "prompt_cache_hit_ratio", "spill_ratio"},
        ),
        ("pools", "if-idle", waits_where_it_should_pass, {"by_workload.chat.ttft_s.p95"}),
        ("engines", "every-block", slower_steps, {"stream_tokens_per_s.p50"}),
    ],
    ids=[
        *("ring-bound-1.0", "cooldown-0", "spill-without-waiting"),
        *("if-idle-waits", "slower-steps"),
    ],
)
def test_a_broken_policy_is_found_and_named(
    tmp_path, monkeypatch, scenario, variant, broken, metrics
):
    """A policy could be broken with every test green, or nobody be told what it costs."""
    cut(tmp_path, scenario, variant)
    monkeypatch.chdir(tmp_path)
    broken(monkeypatch)
    checked = call("check", "--no-changelog")
    print(checked.stdout)
    assert checked.exit_code == 1
    lines = [line for line in checked.stdout.splitlines() if " is worse: " in line]
    found = [re.fullmatch(LINE, line) for line in lines]
    assert all(found)
    assert {match.group(1) for match in found} >= metrics
    assert f"  {variant}: worse in " in checked.stdout
    assert f"podsim baseline update {scenario}" in checked.stdout


def test_a_rule_that_decides_nothing_is_seen_to_be_broken(tmp_path, monkeypatch):
    """A pool that hardly ever reclaimed was told as inconclusive, and not a word of reclaims."""
    made = ReclaimClock.__init__

    def patient(self, kernel, after_s, *others):
        made(self, kernel, 3 * after_s, *others)

    cut(tmp_path, "pools", "reclaim")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ReclaimClock, "__init__", patient)
    checked = call("check", "--no-changelog")
    (line,) = [line for line in checked.stdout.splitlines() if "decides nothing" in line]
    assert line.startswith("    decides nothing: pool.card.reclaims changed -94.0 %")


def test_the_last_bit_of_a_time_is_no_regression(kept, monkeypatch):
    """Another order of summation would turn the check red, or go by without a word."""
    end_s = Span.end_s
    monkeypatch.setattr(Span, "end_s", lambda *given: math.nextafter(end_s(*given), math.inf))
    checked = kept("check")
    assert checked.exit_code == 0
    lines = checked.stdout.splitlines()
    assert lines[0].startswith("several: same: ")
    assert lines[0].endswith("; 0 of 6 pairs of runs identical")
    assert lines[1:3] == ["  round-robin: same", "  least-loaded: same"]
    note = (
        "  note: the baseline is out of date; podsim baseline update several keeps today's figures"
    )
    assert lines[3] == note
    figures = Path(BASELINES, "several.json").read_text("utf-8").splitlines()
    assert "several.json changes round-robin, least-loaded" in kept("update").stdout
    updated = Path(BASELINES, "several.json").read_text("utf-8").splitlines()
    moved = [line for line, old in zip(updated, figures, strict=True) if line != old]
    assert [line.split(":")[0].strip() for line in moved] == ['"digests"'] * 2


def test_a_fault_in_the_figures_alone_is_found(kept, monkeypatch):
    """The tables would be the same to the bit, and a wrong percentile would pass as identical."""
    percentiles = Sample.percentiles

    def inflated(self, *percents):
        return [value and value * 1.1 for value in percentiles(self, *percents)]

    monkeypatch.setattr(Sample, "percentiles", inflated)
    checked = kept("check")
    assert checked.exit_code == 1
    assert "ttft_s.p95 is worse: " in checked.stdout
