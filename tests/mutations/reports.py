"""Faults in what a pod frees, counts and publishes."""

from tests.mutations.fault import ASYNC, BINARY, CASES, DECIMAL, OPTIONS, RULES, Fault

LIMITS = "tests/cluster/test_limits.py"
TOKEN_FOR_NOBODY = (
    "test_a_token_for_a_client_that_has_left_is_not_given_when_the_run_ends_with_its_step"
)

FAULTS = (
    Fault(
        "lost-token",
        "sim/engine/core.py",
        "steps * self._giving - self._lost",
        "steps * self._giving",
        "a token that comes after its client has left is counted as given",
        (f"{ASYNC}::test_a_client_that_leaves_costs_one_more_decode", DECIMAL),
    ),
    Fault(
        "lost-token-of-the-end",
        "sim/engine/core.py",
        "lost = self._lost if steps == self._lockstep.steps else 0",
        "lost = 0 if steps == self._lockstep.steps else 0",
        "a token for nobody counts if the run ends with its step",
        (f"{LIMITS}::{TOKEN_FOR_NOBODY}",),
    ),
    Fault(
        "cancelled-within-a-span",
        "sim/engine/core.py",
        "emitted += self._lockstep.steps_done(self._kernel.now_s)",
        "emitted += 0",
        "who leaves during a span has had none of its tokens",
        (f"{CASES}::test_c78_clients_that_leave_free_what_they_hold",),
    ),
    Fault(
        "freed-during-the-step",
        "sim/engine/core.py",
        "if self._lockstep.steps == 0:",
        "if self._lockstep.steps >= 0:",
        "who leaves frees its place and its blocks within the step that uses them",
        (f"{CASES}::test_c78_clients_that_leave_free_what_they_hold", DECIMAL),
    ),
    Fault(
        "release-order",
        "sim/engine/scheduler.py",
        "key=lambda sequence: sequence.admission",
        "key=lambda sequence: -sequence.admission",
        "of requests that end together the last admitted is evicted first",
        (RULES,),
    ),
    Fault(
        "waiting-within-a-span",
        "sim/engine/pod.py",
        "waiting, running = gauges.scheduled, len(scheduler.running)",
        "waiting, running = gauges.waiting, len(scheduler.running)",
        "during a span the published queue is that of before it",
        (DECIMAL,),
    ),
    Fault(
        "usage-within-a-span",
        "sim/engine/pod.py",
        "scheduler.held + scheduler.batch.blocks_for(done)",
        "scheduler.held",
        "during a span the published KV usage is that of before it",
        (f"{CASES}::test_c24_running_blocks_are_safe_and_block_the_queue", DECIMAL),
    ),
    Fault(
        "unanswered-for-ever",
        "sim/engine/clients.py",
        "self._intake.answer(sequence.prompt_tokens)",
        "self._intake.answer(0)",
        "prompts that have their first token still count as queued",
        (f"{OPTIONS}::test_prompts_in_prefill_are_counted_whole",),
    ),
    Fault(
        "waiting-ghosts",
        "sim/engine/gauges.py",
        "self.waiting = self.scheduled - self._left",
        "self.waiting = self.scheduled",
        "who left the queue during a step is still published as waiting",
        (f"{CASES}::test_c78_clients_that_leave_free_what_they_hold",),
    ),
    Fault(
        "waiting-unseen",
        "sim/engine/gauges.py",
        "if sequence.arrival < self._arrivals:",
        "if sequence.arrival <= self._arrivals:",
        "who came and went within a step is taken off a queue in which it was never counted",
        (f"{RULES}::test_a_client_that_leaves_before_it_was_looked_at_never_runs", BINARY),
    ),
    Fault(
        "resumed-token",
        "sim/engine/core.py",
        "self._batch.decoders - resumed + len(scheduler.finishing)",
        "self._batch.decoders + len(scheduler.finishing)",
        "with async scheduling those who sit a step out are counted as given a token",
        (f"{RULES}::test_a_prompt_goes_before_decodes_of_later_admissions",),
    ),
)
