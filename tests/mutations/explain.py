"""Faults in what a repetition of a run is told, and in how its times are divided."""

from tests.mutations.fault import Fault

WORKED = "tests/explain/test_worked_cases.py"
CACHES = "tests/explain/test_caches.py"
ANY = "tests/explain/test_add_up.py::test_of_whatever_comes"

FAULTS = (
    Fault(
        "chunk-starts",
        "sim/engine/prompts.py",
        "step.starts += (start,)",
        "step.starts += (end,)",
        "a chunk is reported to begin where it ends: its pairs cost more than the step did",
        (ANY,),
    ),
    Fault(
        "peek-is-blind-to-answers",
        "sim/engine/gate.py",
        "shared = max(shared, min(generated, limit))",
        "shared = max(shared, min(0, limit))",
        "what is being generated does not count as held",
        (f"{CACHES}::test_what_is_being_generated_is_held_before_it_is_written",),
    ),
    Fault(
        "peek-beyond-a-state",
        "sim/engine/gate.py",
        "shared = self._store.checkpoint_before(route, shared)",
        "shared = max(shared, self._store.checkpoint_before(route, shared))",
        "blocks behind the last kept state count as held, though nobody can go on from there",
        (f"{CACHES}::test_a_prompt_that_branches_off_finds_what_can_be_gone_on_from",),
    ),
    Fault(
        "readmission-unseen",
        "sim/explain/watch.py",
        "elif course.thrown_out or 0 <= start < course.next_token:",
        "elif course.thrown_out and start < 0:",
        "the work that a preemption threw away counts as prefill",
        (f"{WORKED}::test_preempted_work_is_not_prefill",),
    ),
    Fault(
        "decodes-after-others",
        "sim/explain/prices.py",
        "Share(own_s, with_decodes_s - own_s, all_s - with_decodes_s",
        "Share(own_s, all_s - with_decodes_s, with_decodes_s - own_s",
        "decodes and other prompts are taken for each other",
        (f"{WORKED}::test_decodes_come_before_other_prompts",),
    ),
    Fault(
        "arrival-at-a-boundary",
        "sim/explain/watch.py",
        "in_flight = course.ready_s > start_s + BOUNDARY_TOLERANCE_S",
        "in_flight = course.ready_s >= start_s",
        "who comes at a step boundary waits for the step that has it",
        (f"{WORKED}::test_c37_tokens_of_others_in_a_step_are_others",),
    ),
)
