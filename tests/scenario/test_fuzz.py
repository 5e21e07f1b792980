"""Whatever a file says, the answer is a scenario or a list of faults, never a traceback."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.core.errors import ScenarioError
from sim.core.registry import Registry
from sim.scenario.load import load_text
from tests.scenario.conftest import GOOD

VALUES = [
    *("0", "-1", "1e309", ".nan", "'5'", "5", "null", "yes", "true", "[]", "{}", "[1, 2]", "&a x"),
    *("*a", "!t x", "{a: 1}", "75k", "1h", "- x", "x: y", "|", "'", '"', "{", "]", "#", "<<: *a"),
    *("kind: random", "variants: {a: {backends.pods: 1}}", "\t", "? x", "%", "@", "\x07", "é"),
    "\ud800",
]  # fmt: skip


def accept_or_refuse(text: str, registry: Registry, *arguments: str) -> None:
    try:
        load_text(text, "f.yaml", arguments, registry=registry)
    except ScenarioError as error:
        assert error.faults
        assert all(fault.message for fault in error.faults)
        for line in str(error).split("\n"):
            assert line.startswith(("f.yaml", "--set "))


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet="ab:{}[]&*!,-?|>'\"%@# \n\t~.01<", max_size=80))
@example(text="&a [*a]")
@example(text="{<<: [{<<: {}}]}")
@example(text="? {a: b}\n: [c]")
@example(text="? &k {a: *k}\n: c")
def test_random_text_is_refused_in_words(text: str, registry: Registry) -> None:
    """A stray character in a file would end in a traceback."""
    accept_or_refuse(text, registry)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_good_file_with_pieces_replaced_is_accepted_or_refused(
    seed: int, registry: Registry
) -> None:
    """A value of the wrong kind at some path would end in a traceback."""
    draw = random.Random(seed)
    lines = GOOD.split("\n")
    for _ in range(draw.randint(1, 3)):
        index = draw.randrange(len(lines))
        start = draw.randrange(len(lines[index]) + 1)
        end = draw.randrange(start, min(len(lines[index]), start + 30) + 1)
        lines[index] = lines[index][:start] + draw.choice(VALUES) + lines[index][end:]
    accept_or_refuse("\n".join(lines), registry)


PATHS = [
    *("name", "window", "window.measure", "engines", "engines.small", "engines.small.stepTime"),
    *("backends", "backends.pods", "backends.pods.policy", "backends.pods.policy.kind", "router"),
    *("backends.pods.balancing", "backends.pods.balancing.sessionAffinity", "router.rules"),
    "seeds",
    *("router.rules.0", "router.rules.0.backends.0", "workloads", "workloads.load", "variants.a"),
    *("workloads.load.arrivals", "workloads.load.promptTokens", "slo", "variants", "variant", ""),
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(path=st.sampled_from(PATHS), value=st.sampled_from(VALUES))
def test_any_value_at_any_path_is_accepted_or_refused(
    path: str, value: str, registry: Registry
) -> None:
    """A block of the wrong kind would end in a traceback."""
    accept_or_refuse(GOOD, registry, f"{path}={value}")
