"""What may come over a pool of any kind, as rules of a state machine."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.pool.harness import Desk

MEMBERS = "abc"
steps_s = st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.0, 1.1, 2.2, 5.0, 20.0])
members = st.sampled_from(MEMBERS)
loads = st.tuples(st.sampled_from([0.0, 0.3, 1.1, 6.0]), st.sampled_from([0.0, 0.1, 2.2]))


def sometimes(strategy: st.SearchStrategy[Any], otherwise: Any) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(otherwise), st.just(otherwise), strategy)


class Whatever(RuleBasedStateMachine):
    """Everything happens at the present instant, and takes effect when time goes on.

    A machine of a kind of pool sets up ``desk`` and ``since_restart``, how many
    clients there were at the last restart, and asks.
    """

    desk: Desk
    since_restart = 0

    @property
    def now_s(self) -> float:
        return self.desk.kernel.now_s

    @rule(member=members, service_s=st.sampled_from([0.1, 2.2]))
    def ask_past_the_router(self, member: str, service_s: float) -> None:
        self.desk.direct(self.now_s, member, service_s)

    @rule(member=members)
    def lose(self, member: str) -> None:
        self.desk.lose(self.now_s, member)

    @rule(member=members, after_s=st.sampled_from([0.1, 0.3, 2.0]))
    def fail_the_next_load(self, member: str, after_s: float) -> None:
        self.desk.pool.fail_loads(member, after_s, 1)

    @rule()
    def restart(self) -> None:
        self.desk.pool.restart()
        self.since_restart = len(self.desk.clients)

    @rule(step_s=steps_s)
    def go_on(self, step_s: float) -> None:
        self.desk.run(self.now_s + step_s)

    @rule()
    def go_on_to_the_next_event(self) -> None:
        next_s = self.desk.kernel.next_s()
        if next_s < 1e6:
            self.desk.run(next_s + 1e-7)
