"""Faults in how pods end, start again, and are found to be idle."""

from tests.mutations.fault import IDLE, LIVES, PROCESSES, Fault

ENDED_STEPS = (f"{PROCESSES}::test_an_engine_that_has_ended_counts_no_more",)

FAULTS = (
    Fault(
        "lost-span-tokens",
        "sim/engine/core.py",
        "self._emitted += self._given(steps)\n",
        "self._emitted += self._given(0)\n",
        "a pod that is lost forgets the tokens of the span in flight",
        ENDED_STEPS,
    ),
    Fault(
        "lost-span-steps",
        "sim/engine/lockstep.py",
        "self.finished_steps += ended",
        "self.finished_steps += 0",
        "a pod that is lost forgets the steps of the span in flight",
        ENDED_STEPS,
    ),
    Fault(
        "stale-wake-up",
        "sim/engine/lockstep.py",
        "self._plan += 1\n        self._ranks.clear()",
        "self._plan += 0\n        self._ranks.clear()",
        "the end of a step that was broken off still comes",
        ENDED_STEPS,
    ),
    Fault(
        "ghost-engine",
        "sim/engine/lockstep.py",
        "self._ranks.clear()",
        "pass",
        "an engine that has ended steps on when it was about to plan",
        (LIVES, PROCESSES),
    ),
    Fault(
        "served-and-lost",
        "sim/engine/clients.py",
        "if sequence in inside]",
        "if sequence.output_tokens]",
        "who has had the last token loses its connection because another one stops the pod",
        (f"{PROCESSES}::test_those_that_end_with_a_step_are_served_whoever_stops_the_pod",),
    ),
    Fault(
        "told-after-leaving",
        "sim/engine/clients.py",
        "if attempt.status == Status.IN_FLIGHT:",
        "if attempt.status != Status.FAILED:",
        "a client that leaves while the pod ends is told once more",
        (f"{PROCESSES}::test_a_client_that_leaves_while_others_are_told_is_not_told",),
    ),
    Fault(
        "idle-behind-the-last-token",
        "sim/engine/core.py",
        "not self._scheduler.running and self._applied is None",
        "not self._scheduler.running",
        "with async scheduling the step behind the last token is taken for idle time",
        (f"{IDLE}::test_binary_times_agree",),
    ),
    Fault(
        "idle-while-computing",
        "sim/engine/core.py",
        "return not self._clients and not self._scheduler.running and",
        "return not self._clients and",
        "a pod is idle as soon as its clients have left",
        (f"{IDLE}::test_a_client_that_left_is_computed_until_the_end_of_the_step",),
    ),
    Fault(
        "idle-front-end",
        "sim/engine/frontend.py",
        "return not self._inside and self._pod.idle",
        "return self._pod.idle",
        "a pod is idle while a request is being tokenised",
        (f"{IDLE}::test_who_is_being_tokenised_is_there",),
    ),
    Fault(
        "one-life-only",
        "sim/engine/process.py",
        "self._past += engine.totals(self._kernel.now_s)",
        "self._past = engine.totals(self._kernel.now_s)",
        "a process that starts for the third time has forgotten its first life",
        (f"{PROCESSES}::test_work_is_counted_over_all_lives",),
    ),
    Fault(
        "load-for-nothing",
        "sim/engine/process.py",
        "self._ready_s, self._loading_s = life.ready_s, life.loading_s",
        "self._ready_s, self._loading_s = life.ready_s, self._loading_s",
        "time spent loading is forgotten when the load is over",
        (f"{PROCESSES}::test_time_is_ready_loading_or_neither",),
    ),
)
