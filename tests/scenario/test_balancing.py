"""The manifest form of a policy means what the router's documentation says (R17, R18)."""

from collections.abc import Callable

import pytest

from sim.router.placement.load import LeastLoadedSpec, RoundRobinSpec
from sim.router.placement.table import SessionTableSpec
from sim.scenario.load import ScenarioSet
from tests.scenario import conftest

Lines = Callable[..., list[str]]
Loaded = Callable[..., ScenarioSet]


GOOD = conftest.GOOD.replace("kind: requests,", "kind: requests, sessionKeys: per-request,")


def with_balancing(balancing: str) -> str:
    return GOOD.replace("    policy: {kind: least-loaded}", f"    balancing: {balancing}")


@pytest.mark.parametrize(
    ("balancing", "policy"),
    [
        ("{mode: LoadAware}", LeastLoadedSpec()),
        ("{mode: LoadAware, sessionAffinity: null}", LeastLoadedSpec()),
        ("{mode: RoundRobin}", RoundRobinSpec()),
        ("{mode: LoadAware, sessionAffinity: {}}", SessionTableSpec()),
        (
            "{mode: LoadAware, sessionAffinity: {headers: [x-a, x-b], idleTimeout: 1h30m}}",
            SessionTableSpec(headers=("x-a", "x-b"), idle_timeout=5400.0),
        ),
        (
            "{mode: LoadAware, sessionAffinity: {maxSessions: 10k}}",
            SessionTableSpec(max_sessions=10_000),
        ),
    ],
)
def test_a_manifest_means_the_policy_of_its_router(
    loaded: Loaded, balancing: str, policy: object
) -> None:
    """A pasted manifest would be simulated as another policy than the router runs."""
    found = loaded(with_balancing(balancing))
    (scenario,) = found.variants
    assert scenario.backends["pods"].policy == policy
    assert scenario.backends["pods"].balancing is None
    assert found.warnings == ()


def test_both_forms_of_one_policy_are_one_scenario(loaded: Loaded) -> None:
    """Results of a pasted manifest would be stored apart from those of the same policy."""
    own = loaded(GOOD.replace("least-loaded", "session-table, idleTimeout: 90s"))
    manifest = loaded(with_balancing("{mode: LoadAware, sessionAffinity: {idleTimeout: 90}}"))
    assert own.scenario_hash == manifest.scenario_hash


def test_one_policy_in_two_forms_is_refused(faults: Lines, loaded: Loaded) -> None:
    """Which of the two runs would be a guess."""
    text = GOOD.replace("    policy:", "    balancing: {mode: RoundRobin}\n    policy:")
    assert faults(text) == [
        "f.yaml:10:5: backends.pods.policy: stands beside balancing; give one of them "
        "(null takes the other away)"
    ]
    variants = (
        "variants:\n  a: {backends.pods.balancing: null}\n  b: {backends.pods.policy: null}\n"
    )
    first, second = loaded(text + variants).variants
    assert first.backends["pods"].policy == LeastLoadedSpec()
    assert second.backends["pods"].policy == RoundRobinSpec()
