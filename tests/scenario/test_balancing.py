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


@pytest.mark.parametrize(
    "balancing",
    [
        "{mode: LoadAware, sessionAffinity: {}, maxLoadPercent: 125}",
        "{mode: LoadAware, maxLoadPercent: 125}",
        "{mode: RoundRobin, maxLoadPercent: 125}",
    ],
)
def test_the_load_bound_is_ignored_with_a_warning(loaded: Loaded, balancing: str) -> None:
    """R18: manifests of 0.10.7 carry 125; refused they could not be pasted, silent they mislead."""
    (warning,) = loaded(with_balancing(balancing)).warnings
    mode = "RoundRobin" if "RoundRobin" in balancing else "LoadAware"
    column = with_balancing(balancing).split("\n")[8].index("maxLoadPercent") + 1
    assert warning == (
        f"f.yaml:9:{column}: backends.pods.balancing.maxLoadPercent: "
        f"ignored: mode {mode} has no load bound"
    )


def test_the_load_bound_of_a_table_is_ignored_with_a_warning_in_either_form(loaded: Loaded) -> None:
    """R18: a bound that does nothing would be tuned in vain."""
    table = GOOD.replace("least-loaded", "session-table, maxLoadPercent: 125")
    assert loaded(table).warnings == (
        "f.yaml:9:35: backends.pods.policy.maxLoadPercent: "
        "ignored: the session table has no load bound",
    )
    assert loaded(GOOD.replace("least-loaded", "bounded-ring, maxLoadPercent: 125")).warnings == ()


@pytest.mark.parametrize(
    ("balancing", "expected"),
    [
        (
            "{mode: RoundRobin, sessionAffinity: {headers: [x-a]}}",
            "9:35: backends.pods.balancing.sessionAffinity: needs mode: LoadAware; "
            "RoundRobin keeps no sessions",
        ),
        (
            "{mode: Random}",
            "9:23: backends.pods.balancing.mode: must be 'LoadAware' or 'RoundRobin'; got 'Random'",
        ),
        ("{}", "9:16: backends.pods.balancing: missing key 'mode'"),
        ("LoadAware", "9:16: backends.pods.balancing: must be a mapping; got 'LoadAware'"),
        (
            "{mode: LoadAware, maxLoadPercent: 50}",
            "9:50: backends.pods.balancing.maxLoadPercent: must be a whole number such as 100, "
            "from 100 to 100k; got 50",
        ),
        (
            "{mode: LoadAware, sessionAffinity: true}",
            "9:51: backends.pods.balancing.sessionAffinity: must be a mapping such as "
            "{headers: [x-session-affinity]}",
        ),
        (
            "{mode: LoadAware, sessionAffinity: {idleTimout: 1h}}",
            "9:52: backends.pods.balancing.sessionAffinity.idleTimout: unknown key 'idleTimout'; "
            "did you mean 'idleTimeout'?",
        ),
        (
            "{mode: LoadAware, sessionAffinity: {idleTimeout: 25h}}",
            "9:65: backends.pods.balancing.sessionAffinity.idleTimeout: must be a duration such "
            "as 30m, from 1m to 1d; got '25h'",
        ),
        (
            "{mode: LoadAware, sessionAffinity: {kind: random}}",
            "9:52: backends.pods.balancing.sessionAffinity.kind: unknown key 'kind'; known: "
            "headers, idleTimeout, maxSessions",
        ),
    ],
)
def test_a_wrong_manifest_is_refused_where_it_is_wrong(
    faults: Lines, balancing: str, expected: str
) -> None:
    """R17: affinity with round robin would be simulated as something no router does."""
    assert faults(with_balancing(balancing)) == [f"f.yaml:{expected}"]


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
