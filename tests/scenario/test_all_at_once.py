"""Faults that have nothing to do with each other are told together, whatever they are.

Slips of all kinds are put into two scenarios, every pair of them that is
independent in one load or another, and what is told must be what is told of
each alone: nothing is hidden, and nothing follows. ``LOST`` and ``BROUGHT`` list
the pairs that do depend on each other, and why.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest
from click.testing import CliRunner
from pydantic import Field, ValidationError

from sim.cli import main
from sim.core.errors import ScenarioError
from sim.core.fields import Model, Name, PositiveTokens
from sim.core.registry import Registry
from sim.core.rules import Problem, Unusable, repeated, rule
from sim.scenario.load import load_dict
from sim.scenario.salvage import Salvage
from tests.scenario.conftest import GOOD
from tests.scenario.slips import Data, Slip, apart, changed, data_of, systematic, with_slips

Lines: TypeAlias = Callable[..., list[str]]
Told: TypeAlias = frozenset[tuple[str, str]]

FLEET = """\
name: fleet
window: {warmup: 10s, measure: 1m}
seeds: [1, 2]
engines:
  given:
    kvBlocks: 100
    stepTime: {a: 10, computed: {tokens: [1, 10], ms: [1, 2]}}
    maxNumBatchedTokens: 8192
    maxNumSeqs: 64
    frontEnd: {perRequest: 1ms}
  sheet: {model: qwen3-8b, gpu: h100, tensorParallel: 2, weightDtype: fp8}
backends:
  pods: {engine: given, replicas: 2, policy: {kind: bounded-ring, maxLoadPercent: 125}}
  more: {engine: sheet, balancing: {mode: LoadAware, sessionAffinity: {idleTimeout: 30m}}}
router:
  rules:
    - {name: one, match: {headers: {x-team: a}}, backends: [pods, more], timeout: 10s}
    - {name: two, backends: [more]}
  defaultRoute: pods
  proxy: {quarantineDuration: 5s}
  policy:
    budgets: [{name: cap, scope: rule, ruleName: one, maxTokens: 1M}]
workloads:
  load:
    kind: requests
    arrivals: {kind: poisson, rate: 5}
    promptTokens: {lognormal: {median: 2k, sigma: 1}}
    outputTokens: 10
    retry: {on: [503], backoff: {initial: 1s, max: 9s}}
  rows:
    kind: script
    direct: pods
    rows:
      - {session: a, arrival: 1s, promptTokens: 10, outputTokens: 5}
      - {session: a, think: 1s, promptTokens: 20, outputTokens: 5}
events:
  - {kind: pod-lost, at: 10s, backend: pods, replica: 1}
  - {kind: backend-errors, at: 20s, backend: more}
slo: {ttft: 2s}
"""

FLEET_RULES = (
    changed(seeds=[1, 2, 1]),
    changed(window__warmup="366d"),
    changed(slo={}),
    changed(engines__given__maxNumSeqs=9000),
    changed(engines__given__stateBlocks=100),
    changed(engines__given__prefixRetention="prompt-tail"),
    changed(engines__given__stepTime__computed__tokens=[10, 1]),
    changed(engines__given__model="qwen3-8b", engines__given__enableExpertParallel=True),
    changed(engines__given__gpu="h1000"),
    changed(engines__sheet__tensorParallel=3),
    changed(engines__sheet__workspace="100GiB"),
    changed(engines__sheet__stepTime="no-such-preset"),
    changed(backends__pods__engine="givn"),
    changed(backends__more__balancing__mode="RoundRobin"),
    changed(backends__more__balancing__maxLoadPercent=7),
    changed(router__rules__0__backends=["more", "more"]),
    changed(router__rules__1__name="one"),
    changed(router__policy__budgets__0__headerKey="x-team"),
    changed(router__policy__budgets__0__ruleName="three"),
    changed(workloads__load__promptTokens__lognormal__mu=3),
    changed(workloads__load__retry__backoff__max="1ms"),
    changed(engines__given__model="m", workloads__load__model="nobody"),
    changed(workloads__load__count=10**8, workloads__load__arrivals__rate=0.001),
    changed(workloads__load__direct="pods", workloads__load__fallbackModels=["qwen3-8b"]),
    changed(workloads__rows__rows__1__turn=7),
    changed(workloads__rows__rows__0__sharedTokens=3),
    changed(workloads__rows__unit="ms"),
    changed(events__0__replica=9),
    changed(variants={"a": {"seeds": [1]}}),
)

POOLS = """\
name: pools
window: {warmup: 10m, measure: 4h}
engines:
  small: {kind: llamacpp, model: qwen3-8b, weightDtype: q4_0, gpu: rtx-4090, ctxSize: 16384}
  large: {kind: llamacpp, model: qwen3-14b, weightDtype: q4_0, gpu: rtx-4090, ubatchSize: 256}
backends:
  a: {engine: small}
  b: {engine: small}
  c: {engine: large}
  d: {engine: small}
  e: {engine: large}
  f: {engine: small}
pools:
  turns:
    members:
      a: {swap: {method: llamacpp, disk: 1GB/s}, loadFailure: {probability: 0.1}}
    initial: a
    maxInFlight: 4
  swapped:
    kind: llama-swap
    members:
      b: {swap: {method: llamacpp, disk: 3GB/s}}
      c: {load: 10s}
    groups: {one: {members: [b], swap: false}}
    initial: [b]
  memory:
    kind: ollama
    members: {d: {load: 10s}}
    memory: 23.5GiB
    initial: [d]
  just:
    kind: fair
    members: {e: {load: 10s, priority: 1}, f: {load: 1s}}
    default: e
    maxWait: 20s
router:
  rules: [{name: all, backends: [b, d]}]
  defaultRoute: a
workloads:
  coding:
    kind: agents
    agents: 5
    turns: 200
    sharedPrefix: {tokens: 4000, families: 1}
    freshPrompt: {lognormal: {median: 6000, sigma: 0.3}}
    think: {mixture: [{share: 1, delay: 5s}, {share: 2, delay: {uniform: {min: 1s, max: 2s}}}]}
    maxContext: 14000
events:
  - {kind: load-failure, at: 1m, backend: a}
"""

POOLS_RULES = (
    changed(engines__small__batchSize=100, engines__small__ubatchSize=200),
    changed(engines__small__cacheRam="1GiB", engines__small__model="mine"),
    changed(engines__large__kvPerToken=1000),
    changed(engines__large__parallel=255, engines__large__ubatchSize=100),
    changed(engines__large__stepTime="no-such-preset"),
    changed(engines__large__gpu="rtx-4091"),
    changed(backends__a__replicas=2),
    changed(backends__f__engine="smal"),
    changed(pools__turns__members__a__load="1s"),
    changed(pools__turns__members__a__swap__method="vllm-cold"),
    changed(pools__turns__members__a__swap__graphs="1s"),
    changed(pools__turns__default="nobody"),
    changed(pools__turns__order="fifo", pools__turns__wakeOrder="random"),
    changed(pools__turns__maxHeld=1, pools__turns__maxInFlight=None),
    changed(pools__swapped__groups__two={"members": ["z"]}),
    changed(pools__swapped__members__f={"load": "1s"}),
    changed(pools__swapped__initial=["c", "zz"]),
    changed(pools__memory__memory="1GiB"),
    changed(pools__memory__initial=["zz"]),
    changed(pools__just__order="fifo"),
    changed(pools__just__swapPolicy="reclaim", pools__just__minResidency="10h"),
    changed(router__rules__0__poolActivation="IfIdle"),
    changed(workloads__coding__sharedPrefix__tokens=15_000),
    changed(workloads__coding__turns=20_000),
    changed(workloads__coding__think__mixture=[]),
    changed(workloads__coding__fallbackModels=["x"], workloads__coding__direct="c"),
    changed(events__0__backend="nobody"),
)


class Base(NamedTuple):
    data: Data
    rules: tuple[Slip, ...]


BASES = {
    "fleet": Base(data_of(FLEET), FLEET_RULES),
    "pools": Base(data_of(POOLS), POOLS_RULES),
}


MOST: Final = 40
"""Slips in one load: many pairs are seen at once, and a failure can still be read."""

LOST: Final = (
    # What a slip is, where what cannot be told because of it stands, and why; {1} is the group.
    (
        r"(?:missing|wrong type|other text) (.*)\.kind",
        r"{1}(\..*)?",
        "which keys a block may have follows from its kind",
    ),
    (
        r"misspelt (events\.\d|.*\.arrivals)\.kind",
        r"{1}(\..*)?",
        "which keys a block may have follows from its kind",
    ),
    (r".* (.*)\.arrivals\.kind", r"{1}\.count", "the time of the last request is computed"),
    (r".* engines(?:\.\w+)?", r"backends\.\w+\.engine", "names are known when there are any"),
    (
        r".* backends(?:\.\w+)?",
        r"router\.(rules\.\d\.backends\.\d|defaultRoute)|events\.\d\.(backend|replica)"
        r"|workloads\.\w+\.direct|pools\.\w+\.members\.\w+",
        "names are known when there are any",
    ),
    (
        r".* (?:engines|backends)(?:\.\w+)?(?:\.kind|\.engine|\.model)?",
        r"pools\.\w+\.members\.\w(\.swap(\.method)?)?",
        "what a member loads is known when its engine is",
    ),
    (
        r".* (?:engines|backends|pools|router|workloads\.rows).*",
        r"workloads\.\w+\.(model|fallbackModels\.0)",
        "who serves which model depends on all ways to it",
    ),
    (r".* workloads(?:\.\w+(?:\.kind)?)?", "window", "whether a workload ends is its own matter"),
    (r"rule workloads\.load\.count.*", "window", "with a count the workload ends"),
    (
        r".* engines\.\w+\.(?:gpu|model|ctxSize|weightDtype)",
        r"pools\.memory\.members\.d",
        "its memory is derived from these",
    ),
    (
        r".* engines\.(\w+)\.(?:gpu|model|weightDtype|tensorParallel|stepTime)",
        r"engines\.{1}",
        "whether it fits, and how long a step takes, is derived from these",
    ),
    (r".* engines\.(\w+)\.gpu", r"engines\.{1}\.model", "without it any name will do"),
    (r".* engines\.(\w+)\.model", r"engines\.{1}\.tensorParallel", "it has these heads"),
    (r".* engines\.(\w+)\.kvBlocks", r"engines\.{1}\.stateBlocks", "the two are compared"),
    (r".* engines\.(\w+)\.ctxSize", r"engines\.{1}\.cacheRam", "with it the size is given"),
    (r"rule engines\.small.*model", r"pools\.memory\.members\.d", "weights are of a known model"),
    (
        r".* backends\.pods\.replicas|.* events\.0\.backend",
        r"events\.0\.replica",
        "there are as many pods as replicas of this backend",
    ),
    (r".* engines\.given\.maxNum\w+", r"engines\.given\.maxNum\w+", "the two are compared"),
    (
        r"rule engines\.given\.(?:model|stateBlocks).*",
        r"engines\.given\.prefixRetention",
        "it is about these states, and names the model",
    ),
    (
        r".* (pools\.\w+)(?:\.members(?:\.\w+)?)?",
        r"{1}\.(groups|initial|default)",
        "who is a member decides",
    ),
    (
        r".* pools(?:\.\w+(?:\.kind|\.members(?:\.\w+)?)?)?",
        r"backends\.a\.replicas|router\.rules\.0\.poolActivation|events\.0\.backend",
        "who is a member decides",
    ),
    (
        r".* router\.rules\.0\.backends(?:\.\d)?",
        r"router\.rules\.0\.poolActivation",
        "the rule names the members",
    ),
    (
        r".* (.*)\.(?:initial|groups)\..*",
        r"{1}\.(initial|groups)",
        "it is about these names",
    ),
    (r".* (.*)\.swap\.method", r"{1}\.swap\.graphs", "each method has its own keys"),
    (r".* (pools\..*)\.(?:swap|load)", r"{1}", "one of the two must be there"),
    (r".* (.*\.lognormal)\.(?:mu|median)", r"{1}", "one of the two must be there"),
    (r".* (.*)\.scope", r"{1}\.(headerKey|ruleName)", "each scope has its own keys"),
    (
        r".* (?:backends|backends\.more|backends\.more\.engine|engines|engines\.sheet)",
        r"router\.rules\.0\.backends",
        "its pods are counted",
    ),
    (r".* router\.rules.*", r"router\.policy", "budgets are of rules"),
    (r".* router\.policy\..*", r"router\.policy", "it names the budget and its rule"),
    (r".* router\.rules\.\d(?:\.name)?", r"router\.rules", "their names are compared"),
    (r".* (.*)\.initial", r"{1}\.max", "the two are compared"),
    (r".* (.*)\.(?:maxContext|set)", r"{1}\.sharedPrefix", "the two are compared"),
    (r".* workloads\.rows\.rows", r"workloads\.rows\.unit", "there may be no rows at all"),
    (
        r".* workloads\.rows\.rows\.\d(?:\.session|\.arrival)?",
        r"workloads\.rows\.rows\.1\.(think|turn)",
        "which turn a row is depends on the times and sessions of all",
    ),
)

BROUGHT: Final = (
    # Two slips, which are a third fault together, and why.
    (r"missing (engines|backends)\.\w+ \+ missing \1\.\w+", "nothing is left of the block"),
    (r"(misspelt|missing) engines\.\w+ \+ misspelt backends\.\w+", "one names the other"),
    (r"(misspelt|missing) backends\.\w+ \+ rule .*", "one names the other"),
    (r"rule engines\.given\.gpu \+ rule engines\.given\.model.*", "a size follows from both"),
    (r"missing .*rows\.1\.session \+ rule .*rows\.1\.turn", "a turn is one of a session"),
    (r"missing ((engines|pools)\.\w+)\.kind \+ .* \1\..*", "it is taken for the default kind"),
)


def told(data: Data, registry: Registry) -> Told:
    try:
        load_dict(data, registry=registry)
    except ScenarioError as error:
        lines = [(each.path, each.message) for each in error.faults]
        assert len(set(lines)) == len(lines), "told twice"
        # What would be right, and what was found, may well be other names beside another slip.
        return frozenset((path, re.split("[;:(]", said)[0]) for path, said in lines)
    return frozenset()


class Alone(NamedTuple):
    """A slip by itself: what is told of it and where, and where nothing can be told beside it."""

    slip: Slip
    lines: Told
    paths: frozenset[str]
    lost: frozenset[str]


def alone(base: Base, registry: Registry) -> list[Alone]:
    """The slips that are faults."""
    slips = [*systematic(base.data), *base.rules]
    found = [(slip, told(with_slips(base.data, slip), registry)) for slip in slips]
    paths = sorted({path for _, lines in found for path, _ in lines})
    return [
        Alone(slip, lines, frozenset(path for path, _ in lines), lost(slip, paths))
        for slip, lines in found
        if lines
    ]


def lost(slip: Slip, paths: Sequence[str]) -> frozenset[str]:
    patterns = [
        where.replace("{1}", re.escape(match[1]) if match.re.groups else "")
        for what, where, _ in LOST
        if (match := re.fullmatch(what, str(slip)))
    ]
    # What stands where the slip has changed the file.
    changes = [r"\.".join(re.escape(str(step)) for step in path) for path in slip.paths]
    patterns += [rf"{change}(\..*)?" for change in changes]
    either = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    return frozenset(path for path in paths if either.fullmatch(path))


def independent(one: Alone, other: Alone) -> bool:
    if not apart(one.slip, other.slip):
        return False
    if not (one.paths.isdisjoint(other.lost) and other.paths.isdisjoint(one.lost)):
        return False
    return not any(
        re.fullmatch(pattern, f"{first.slip} + {second.slip}")
        for first, second in ((one, other), (other, one))
        if first.slip.what in ("misspelt", "missing", "rule")
        for pattern, _ in BROUGHT
    )


def loads(slips: Sequence[Alone]) -> Iterator[list[Alone]]:
    """Sets of independent slips; together they have every pair that may concern each other.

    That is those within a block of the file, and those of which one is a name or
    a rule; of the others they have the most.
    """
    friends, unseen = [0] * len(slips), [0] * len(slips)  # bits of those beside each
    for index, one in enumerate(slips):
        for other in range(index):
            if independent(one, slips[other]):
                friends[index] |= 1 << other
                friends[other] |= 1 << index
                if may_concern(one.slip, slips[other].slip):
                    unseen[index] |= 1 << other
                    unseen[other] |= 1 << index
    draw = random.Random(1)
    for index in range(len(slips)):
        while unseen[index]:
            chosen, mask, common = [index], 1 << index, friends[index]
            while common and len(chosen) < MOST:
                few = draw.sample(bits := list(ones(common)), min(48, len(bits)))
                if len(chosen) == 1:
                    few = list(ones(unseen[index]))
                gains = [(unseen[each] & mask).bit_count() for each in few]
                if max(gains) == 0:
                    break
                best = few[gains.index(max(gains))]
                chosen.append(best)
                mask |= 1 << best
                common &= friends[best]
            for one in chosen:
                unseen[one] &= ~mask
            yield [slips[one] for one in chosen]


def may_concern(one: Slip, other: Slip) -> bool:
    named = ("rule", "other text")
    return one.paths[0][0] == other.paths[0][0] or one.what in named or other.what in named


def ones(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


@pytest.mark.parametrize("name", BASES)
def test_what_is_told_together_is_what_is_told_alone(name: str, registry: Registry) -> None:
    """The user would mend one fault, run again, and find the next, or look for one that is none."""
    base = BASES[name]
    assert not told(base.data, registry)
    slips = alone(base, registry)
    assert {str(each.slip) for each in slips} >= {str(rule) for rule in base.rules}
    seen: set[tuple[str, str]] = set()
    for chosen in loads(slips):
        seen.update(combinations(sorted(str(each.slip) for each in chosen), 2))
        assert_all_told(base.data, chosen, registry)
    assert len(seen) > 20_000


def assert_all_told(data: Data, chosen: list[Alone], registry: Registry) -> None:
    wanted = frozenset(line for each in chosen for line in each.lines)
    found = told(with_slips(data, *(each.slip for each in chosen)), registry)
    said = "\n".join(str(each.slip) for each in chosen)
    assert found >= wanted, f"hidden: {sorted(wanted - found)} with\n{said}"
    assert found <= wanted, f"invented: {sorted(found - wanted)} with\n{said}"


def test_faults_of_one_entry_are_told_with_its_misspelt_key(faults: Lines) -> None:
    """What contradicts itself in an entry was told once the key beside it was spelt right."""
    text = GOOD.replace(
        "{kvBlocks: 100, stepTime: {a: 10}}",
        "{kvBlocks: 100, tensorParralel: 2, maxNumSeqs: 9k, gpu: h1, stepTime: {a: 0, b: 1, x: 2}}",
    )
    assert [line.split(": ")[1] for line in faults(text)] == [
        "engines.small.tensorParralel",
        "engines.small.maxNumSeqs",
        "engines.small.gpu",
        "engines.small.stepTime",
        "engines.small.stepTime.x",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kvBlocks: 100", "kvBlock: 100", "engines.small.kvBlock"),
        ("stepTime: {a: 10}", "steptime: {a: 10}", "engines.small.steptime"),
        ("kvBlocks: 100", "kvBlocks: many, stateBlocks: 100", "engines.small.kvBlocks"),
        ("rate: 5", "rate: x", "workloads.load.arrivals.rate"),
        ("measure: 1m", "measur: 1m", "window.measur"),
        ("measure: 1m", "measure: *m", "window.measure"),
        ("engine: small", "engine: *e", "backends.pods.engine"),
        ("backends: [pods]", "backends: [pods], <<: *t", "router.rules.0"),
        ("replicas: 2", "replicas: 2\n    engine: big", "backends.pods.engine"),
        ("replicas: 2", "replicas: !!int many", "backends.pods.replicas"),
        ("kind: requests", "kind: request", "workloads.load.kind"),
        ("kind: requests", "kin: requests", "workloads.load.kin"),
        ("workloads:", "workload:", "workload"),
        ("engines:", "engine:", "engine"),
    ],
)
def test_nothing_follows_from_a_fault(faults: Lines, old: str, new: str, said: str) -> None:
    """One slip would be told as two, and the user look for one that is none."""
    assert GOOD.count(old) == 1
    (line,) = faults(GOOD.replace(old, new))
    assert line.split(": ")[1] in (said, f"{said}.<<")


def test_a_misspelt_block_is_checked_as_what_is_meant(faults: Lines) -> None:
    """All faults of a block would wait until its name is spelt right."""
    text = GOOD.replace("workloads:", "workload:").replace("outputTokens: 10", "outputTokens: 0")
    assert [line.split(": ")[:2] for line in faults(text)] == [
        ["f.yaml:13:1", "workload"],
        ["f.yaml:14:94", "workloads.load.outputTokens"],
    ]


def test_what_is_no_yaml_value_hides_no_other_fault(faults: Lines) -> None:
    """A key that stands twice would be mended before anything else is looked at."""
    text = GOOD.replace("name: good", "name: good\nname: better\nslo: {ttft: *t}")
    text = text.replace("replicas: 2", "replicas: 0").replace("warmup: 10s", "warmup: x")
    assert [line.split(": ")[:2] for line in faults(text + "---\nname: next\n")] == [
        ["f.yaml:2:1", "name"],
        ["f.yaml:3:13", "slo.ttft"],
        ["f.yaml:4:18", "window.warmup"],
        ["f.yaml:10:15", "backends.pods.replicas"],
        ["f.yaml:17:1", "a second document begins here; one file holds one scenario"],
    ]


def test_variants_that_cannot_be_read_hide_nothing(faults: Lines) -> None:
    """The whole file would be looked at once its variants are mended."""
    text = GOOD.replace("replicas: 2", "replicas: 0") + "variants: 5\n"
    assert [line.split(": ")[1] for line in faults(text, ["seeds=x"], ["some"])] == [
        "backends.pods.replicas",
        "variants",
        "seeds",
    ]


def test_an_unknown_variant_is_told_with_the_faults_of_the_file(faults: Lines) -> None:
    """Two rounds for one command line and one file."""
    text = GOOD.replace("replicas: 2", "replicas: 0") + "variants: {a: {}, b: {}}\n"
    first, second = faults(text, (), ["c"])
    assert first == "f.yaml: unknown variant 'c'; known: a, b"
    assert second.startswith("f.yaml:8:15: backends.pods.replicas: ")


def test_every_value_that_python_has_and_yaml_has_not_is_told(registry: Registry) -> None:
    """A script with two of them would be run three times."""
    data = data_of(GOOD)
    data["seeds"] = {1, 2}
    data["window"]["warmup"] = object()
    data["backends"]["pods"]["replicas"] = 0
    with pytest.raises(ScenarioError) as caught:
        load_dict(data, registry=registry)
    assert sorted(each.path for each in caught.value.faults) == [
        "backends.pods.replicas",
        "seeds",
        "window.warmup",
    ]


def test_settings_and_the_file_are_told_together_in_order(tmp_path: Path) -> None:
    """The command line would be mended first, then the file, then the command line again."""
    file = tmp_path / "f.yaml"
    text = GOOD.replace("replicas: 2", "replicas: 0").replace("rate: 5", "rat: 5")
    file.write_text(text.replace("kvBlocks: 100", "kvBlocks: 0"), encoding="utf-8")
    settings = ["engines.small.maxNumSeqs=9k", "backends.pod.replicas=2", "slo.ttft=[", "seeds"]
    options = [option for setting in settings for option in ("--set", setting)]
    result = CliRunner().invoke(main, ["validate", str(file), *options])
    assert (result.exit_code, result.stdout) == (2, "")
    told = [line.removeprefix(f"{tmp_path}/").split(": ")[:2] for line in result.stderr.split("\n")]
    assert told[:-2] == [
        ["f.yaml:4:21", "engines.small.kvBlocks"],
        ["f.yaml:8:15", "backends.pods.replicas"],
        ["f.yaml:14:52", "workloads.load.arrivals.rat"],
        [f"--set {settings[0]}", "engines.small.maxNumSeqs"],
        [f"--set {settings[1]}", "backends.pod.replicas"],
        [f"--set {settings[2]}", "slo.ttft"],
        [f"--set {settings[3]}", "must be path=value, such as backends.a.replicas=4"],
    ]


class Halves(Model):
    """A spec as another package may have it, with rules of its own."""

    whole: PositiveTokens
    half: PositiveTokens = Field(default_factory=lambda data: data["whole"] // 2)
    names: tuple[Name, ...] = ()

    @rule
    def _is_half(self) -> Iterator[Problem]:
        if 2 * self.half != self.whole:
            yield "half", "must be half of whole"

    @rule
    def _names_differ(self) -> Iterator[Problem]:
        for name in repeated(self.names):
            yield "names", f"{name} stands here twice"


@pytest.mark.parametrize(
    ("written", "broken"),
    [
        ({"whole": 4, "half": 3, "names": ("a", "a"), "other": 1}, ["half", "names"]),
        ({"whole": 4, "half": 3, "names": ("a", 5, "a")}, ["half", "names"]),
        ({"whole": 0, "half": 3, "names": ("a", "a")}, ["names"]),
        ({"whole": 0, "names": ("a", "b")}, []),
        ({"whol": 4, "half": 3}, []),
        ({"whole": 4, "names": 5}, []),
    ],
)
def test_rules_are_held_against_what_is_right_of_a_model(
    written: dict[str, object], broken: list[str]
) -> None:
    """A rule would be told of a value that has a fault itself, or not be told beside one."""
    with pytest.raises(ValidationError) as caught:
        Halves.model_validate(written)
    salvage = Salvage()
    found = salvage.model(Halves, written, caught.value)
    assert [key for _, (key, _) in salvage.broken] == broken
    assert found is not None
    if written.get("whole") == 4:
        assert found.whole == 4
    else:
        with pytest.raises(Unusable):
            found.whole  # noqa: B018
