"""What every policy keeps to, and what this one is for."""

from my_policy import MyPolicy

from sim.testing import PolicyContract, keys, pods, router


class TestContract(PolicyContract):
    """podsim's own tests of policies: determinism, readiness, outcomes, restarts ..."""

    kind = "my-policy"


def test_a_session_stays_until_its_pod_is_much_busier() -> None:
    """Its cache would be lost at every request."""
    driven = router(MyPolicy, pods(4), slack=2)
    (session,) = keys(1)
    home = driven.send(session).pod
    assert [driven.send(session).outcome for _ in range(2)] == ["sticky", "sticky"]
    moved = driven.send(session)
    assert (moved.outcome, moved.reason) == ("spill", "bound")
    assert moved.pod != home
