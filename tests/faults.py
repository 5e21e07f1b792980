"""Deliberate faults of one line in engine and cache, each of which the suite must catch.

``python -m tests.mutations`` puts them in one by one. A fault says what would be
wrong with it, and the smallest part of the suite that should notice.
"""

from dataclasses import dataclass

CASES = "tests/engine/test_oracle_cases.py"
RULES = "tests/engine/test_engine_rules.py"
OPTIONS = "tests/engine/test_scheduler_options.py"
ASYNC = "tests/engine/test_async_scheduling.py"
STORE = "tests/engine/test_extents_equal_blocks.py"
TIMES = "tests/engine/test_steptime.py"
SPANS = "tests/engine/test_span_equals_step.py"
DECIMAL = f"{SPANS}::test_decimal_times_agree_to_a_nanosecond"
BINARY = f"{SPANS}::test_binary_times_agree_bit_for_bit"
LOCKSTEP = "tests/engine/test_lockstep.py"


@dataclass(frozen=True)
class Fault:
    """``old``, which occurs once in ``file``, becomes ``new``; ``tests`` should then fail.

    What surrounds the change in ``old`` is there to make it the only one.
    """

    name: str
    file: str
    old: str
    new: str
    meaning: str
    tests: tuple[str, ...]


SCHEDULER = (
    Fault(
        "running-budget",
        "sim/pod/scheduler.py",
        "budget -= chunk\n",
        "budget -= 0\n",
        "prompts in prefill cost nothing of the budget: steps grow beyond it",
        (DECIMAL,),
    ),
    Fault(
        "decode-budget",
        "sim/pod/scheduler.py",
        "budget = self._budget - self.batch.decoders\n        chunks",
        "budget = self._budget\n        chunks",
        "decodes cost nothing of the budget: chunks beside them are too long",
        (f"{CASES}::test_c39_decodes_slow_down_beside_a_long_prompt",),
    ),
    Fault(
        "admit-after-preemption",
        "sim/pod/scheduler.py",
        "if not step.preempted and self.waiting:",
        "if self.waiting:",
        "a step that preempts admits whoever waits",
        (f"{RULES}::test_a_step_that_preempts_admits_nobody",),
    ),
    Fault(
        "batch-cap",
        "sim/pod/scheduler.py",
        "len(self.running) >= self._cap:\n                self._stuck",
        "len(self.running) > self._cap:\n                self._stuck",
        "one more sequence runs than maxNumSeqs",
        (f"{CASES}::test_c41_the_batch_cap_holds",),
    ),
    Fault(
        "queue-order",
        "sim/pod/waiting.py",
        "return self.popleft()",
        "return self.pop()",
        "the last that came is served first",
        (f"{CASES}::test_c35_time_to_first_token_contains_the_queue",),
    ),
    Fault(
        "preempted-last",
        "sim/pod/waiting.py",
        "self.appendleft(sequence)",
        "self.append(sequence)",
        "a preempted request goes behind those who wait",
        (DECIMAL,),
    ),
    Fault(
        "victim",
        "sim/pod/waiting.py",
        "return next(reversed(running))",
        "return next(iter(running))",
        "the first admitted is preempted",
        (f"{OPTIONS}::test_the_least_urgent_is_preempted",),
    ),
    Fault(
        "priority-victim",
        "sim/pod/waiting.py",
        "return max(running, key=urgency)",
        "return min(running, key=urgency)",
        "the most urgent is preempted",
        (f"{OPTIONS}::test_the_least_urgent_is_preempted",),
    ),
    Fault(
        "priority-ties",
        "sim/pod/waiting.py",
        "return sequence.priority, sequence.arrival",
        "return sequence.priority, -sequence.arrival",
        "among equally urgent ones the last that came is served first",
        (f"{OPTIONS}::test_the_urgent_go_first_and_equals_in_turn",),
    ),
    Fault(
        "decodes-first",
        "sim/pod/scheduler.py",
        "(short and self._decodes_behind_a_prompt())",
        "(short and False)",
        "a decode goes before the prompt of an earlier admission when the budget is short",
        (f"{RULES}::test_a_prompt_goes_before_decodes_of_later_admissions",),
    ),
    Fault(
        "refund-tokens",
        "sim/pod/scheduler.py",
        "budget += refund[0]",
        "budget += 0",
        "tokens of a sequence that is thrown out of the step are lost to the others",
        (f"{OPTIONS}::test_who_was_served_and_is_preempted_leaves_its_token_to_others",),
    ),
    Fault(
        "refund-blocks",
        "sim/pod/scheduler.py",
        "promised -= refund[1]",
        "promised -= 0",
        "blocks promised to a sequence that is thrown out of the step are lost to the others",
        (f"{OPTIONS}::test_who_was_served_and_is_preempted_leaves_its_block_to_others",),
    ),
    Fault(
        "threshold-alone",
        "sim/pod/scheduler.py",
        "len(self.running) + len(self.waiting) > 1",
        "len(self.running) + len(self.waiting) > 0",
        "longPrefillTokenThreshold slows a request that is alone",
        (f"{OPTIONS}::test_a_single_request_computes_as_much_as_the_budget_allows",),
    ),
    Fault(
        "forgets-tokens",
        "sim/pod/scheduler.py",
        "sequence.target = sequence.prompt_tokens + sequence.emitted",
        "sequence.target = sequence.prompt_tokens",
        "what a preempted sequence had produced is not computed again",
        (f"{CASES}::test_c29_preemption_ends",),
    ),
    Fault(
        "recomputed-tokens",
        "sim/pod/scheduler.py",
        "sequence.high_water = sequence.target",
        "sequence.high_water = sequence.prompt_tokens",
        "recomputed tokens leave out those of the answer",
        (f"{CASES}::test_c29_preemption_ends", DECIMAL),
    ),
    Fault(
        "readmission-hits",
        "sim/pod/scheduler.py",
        "if sequence.attempt.preemptions == 0:",
        "if sequence.attempt.preemptions >= 0:",
        "what a preempted request finds again counts as cached",
        (f"{CASES}::test_c79_whole_prompt_or_first_chunk",),
    ),
    Fault(
        "pairs-of-a-chunk",
        "sim/pod/scheduler.py",
        "chunk * (start + chunk / 2)",
        "chunk * chunk / 2",
        "a chunk does not attend to what is before it",
        (DECIMAL,),
    ),
    Fault(
        "writer-may-let-in",
        "sim/pod/scheduler.py",
        "if written or self._gate.may_need_less:",
        "if self._gate.may_need_less:",
        "a span runs past the step at which an answer in the making lets the next request in",
        (f"{RULES}::test_an_answer_in_the_making_lets_its_own_next_turn_in",),
    ),
    Fault(
        "state-may-go",
        "sim/pod/scheduler.py",
        "if written or self._gate.may_need_less:",
        "if written:",
        "a span runs past the step at which the loss of a state lets the next request in",
        (f"{LOCKSTEP}::test_a_client_that_comes_back_to_another_rank_agrees",),
    ),
    Fault(
        "state-leak",
        "sim/pod/scheduler.py",
        "self.store.give_back(self._state_blocks)",
        "self.store.give_back(0)",
        "the states of those who leave are never free again",
        (DECIMAL,),
    ),
    Fault(
        "all-ends-overrun",
        "sim/pod/scheduler.py",
        "overrun = self._ahead if wanted < limit else 0",
        "overrun = self._ahead",
        "with async scheduling an end at the model limit is noticed late",
        (f"{ASYNC}::test_an_end_at_the_model_limit_is_foreseen",),
    ),
    Fault(
        "text-ahead-of-time",
        "sim/pod/scheduler.py",
        "unknown=self._ahead",
        "unknown=0",
        "with async scheduling a block is found before its last token is sampled",
        (DECIMAL, BINARY),
    ),
)

GATE_AND_INTAKE = (
    Fault(
        "first-chunk-gate",
        "sim/pod/gate.py",
        "tokens = sequence.target if self._reserve_full_prompt else sequence.computed + chunk",
        "tokens = sequence.computed + chunk",
        "a prompt is admitted when its first chunk fits",
        (f"{CASES}::test_c79_whole_prompt_or_first_chunk",),
    ),
    Fault(
        "idle-hits",
        "sim/pod/gate.py",
        "- hit + idle + self._state_blocks",
        "- hit + self._state_blocks",
        "hits count as blocks that are there twice: cached, and free",
        (DECIMAL,),
    ),
    Fault(
        "watermark-rounding",
        "sim/pod/gate.py",
        "int(engine.watermark * store.capacity)",
        "round(engine.watermark * store.capacity)",
        "the watermark is rounded to the nearest block",
        (f"{OPTIONS}::test_the_watermark_stays_free_beside_what_runs",),
    ),
    Fault(
        "watermark-of-an-idle-pod",
        "sim/pod/gate.py",
        "if beside_others:",
        "if not beside_others or beside_others:",
        "an idle pod keeps its watermark free: a large prompt waits for ever",
        (f"{OPTIONS}::test_the_watermark_stays_free_beside_what_runs",),
    ),
    Fault(
        "last-token",
        "sim/pod/gate.py",
        "limit = (sequence.target - 1) // self._block_size",
        "limit = sequence.target // self._block_size",
        "a prompt that is cached whole computes nothing",
        (f"{CASES}::test_c21_a_full_hit_still_computes_the_last_block",),
    ),
    Fault(
        "chunk-ends",
        "sim/pod/gate.py",
        "end = stop if end >= stop else end - end % self._block_size",
        "end = stop if end >= stop else end",
        "with prompt-tail a chunk ends within a block",
        (DECIMAL,),
    ),
    Fault(
        "state-at-the-branch",
        "sim/pod/gate.py",
        "sorted({shared, limit} - {0, hit})",
        "sorted({limit} - {0, hit})",
        "with prompt-tail no state is kept where a prompt leaves what is cached",
        (DECIMAL,),
    ),
    Fault(
        "hit-without-state",
        "sim/pod/gate.py",
        "return self._store.lookup(route, hit)",
        "return self._store.lookup(route, shared)",
        "with prompt-tail blocks behind the last state are hits",
        (DECIMAL,),
    ),
    Fault(
        "last-token-without-slot",
        "sim/pod/intake.py",
        "self._longest_sequence = min(model_tokens, pod_tokens + 1)",
        "self._longest_sequence = min(model_tokens, pod_tokens)",
        "an answer that fills the pod ends a token early",
        (f"{RULES}::test_what_outgrows_the_pod_leaves_it_empty",),
    ),
    Fault(
        "output-limit",
        "sim/pod/intake.py",
        "return max(1, self._longest_sequence - prompt_tokens)",
        "return max(1, self._longest_sequence)",
        "prompt and answer together exceed the model limit",
        (f"{RULES}::test_the_model_limit_cuts_the_answer_off",),
    ),
    Fault(
        "queued-tokens",
        "sim/pod/intake.py",
        "self._unanswered_tokens >= tokens",
        "self._unanswered_tokens + prompt_tokens > tokens",
        "maxNumQueuedTokens counts the newcomer too",
        (f"{OPTIONS}::test_prompts_in_prefill_are_counted_whole",),
    ),
    Fault(
        "queued-by-ghosts",
        "sim/pod/pod.py",
        "sequence.prompt_tokens if attempt.first_token_s is None else 0",
        "0",
        "prompts of clients that have left count as queued for ever",
        (DECIMAL, BINARY),
    ),
)

REPORTS = (
    Fault(
        "lost-token",
        "sim/pod/pod.py",
        "steps * self._giving - self._lost",
        "steps * self._giving",
        "a token that comes after its client has left is counted as given",
        (f"{ASYNC}::test_a_client_that_leaves_costs_one_more_decode", DECIMAL),
    ),
    Fault(
        "cancelled-within-a-span",
        "sim/pod/pod.py",
        "emitted += self._lockstep.steps_done(self._kernel.now_s)",
        "emitted += 0",
        "who leaves during a span has had none of its tokens",
        (f"{CASES}::test_c78_clients_that_leave_free_what_they_hold",),
    ),
    Fault(
        "freed-during-the-step",
        "sim/pod/pod.py",
        "if self._lockstep.steps == 0:",
        "if self._lockstep.steps >= 0:",
        "who leaves frees its place and its blocks within the step that uses them",
        (f"{CASES}::test_c78_clients_that_leave_free_what_they_hold", DECIMAL),
    ),
    Fault(
        "release-order",
        "sim/pod/pod.py",
        "key=lambda sequence: sequence.admission",
        "key=lambda sequence: -sequence.admission",
        "of requests that end together the last admitted is evicted first",
        (RULES,),
    ),
    Fault(
        "waiting-within-a-span",
        "sim/pod/pod.py",
        "waiting, running = gauges.scheduled, len(scheduler.running)",
        "waiting, running = gauges.waiting, len(scheduler.running)",
        "during a span the published queue is that of before it",
        (DECIMAL,),
    ),
    Fault(
        "waiting-ghosts",
        "sim/pod/gauges.py",
        "self.waiting = self.scheduled - self._left",
        "self.waiting = self.scheduled",
        "who left the queue during a step is still published as waiting",
        (f"{CASES}::test_c78_clients_that_leave_free_what_they_hold",),
    ),
    Fault(
        "waiting-unseen",
        "sim/pod/gauges.py",
        "if sequence.arrival < self._arrivals:",
        "if sequence.arrival <= self._arrivals:",
        "who came and went within a step is taken off a queue in which it was never counted",
        (f"{RULES}::test_a_client_that_leaves_before_it_was_looked_at_never_runs", BINARY),
    ),
    Fault(
        "resumed-token",
        "sim/pod/pod.py",
        "self._batch.decoders - resumed + len(scheduler.finishing)",
        "self._batch.decoders + len(scheduler.finishing)",
        "with async scheduling those who sit a step out are counted as given a token",
        (DECIMAL,),
    ),
)

CACHE = (
    Fault(
        "head-first",
        "sim/extents.py",
        "for piece in reversed(pieces):",
        "for piece in pieces:",
        "of a request's blocks the first is evicted first",
        (STORE,),
    ),
    Fault(
        "holds-head-first",
        "sim/extents.py",
        "for hold in reversed(holding.holds):",
        "for hold in holding.holds:",
        "of a request's nodes the first is evicted first",
        (STORE,),
    ),
    Fault(
        "most-recent-first",
        "sim/extents.py",
        "self._queue.append(piece)\n                    self.held -=",
        "self._queue.prepend(piece)\n                    self.held -=",
        "what was used last is evicted first",
        (STORE,),
    ),
    Fault(
        "no-copies",
        "sim/extents.py",
        "if cached > at:",
        "if cached > stop:",
        "a block that is computed although an equal one is cached takes no room of its own",
        (STORE,),
    ),
    Fault(
        "newest-copy",
        "sim/pieces.py",
        "in self.copies.values():",
        "in reversed(self.copies.values()):",
        "the newest copy serves hits, not the oldest",
        (STORE,),
    ),
    Fault(
        "unhashed-last",
        "sim/extents.py",
        "if not self._unhashed_first:",
        "if self._unhashed_first or not self._unhashed_first:",
        "evictUnhashedFirst does nothing",
        (STORE,),
    ),
    Fault(
        "held-hits",
        "sim/pieces.py",
        "if not piece.holders:\n                    idle +=",
        "if piece.holders < 2:\n                    idle +=",
        "hits that somebody holds are taken for idle ones",
        (STORE,),
    ),
    Fault(
        "state-not-used",
        "sim/extents.py",
        "self._queue.remove(piece)\n        self._queue.append(piece)",
        "self._queue.remove(piece)\n        self._queue.prepend(piece)",
        "a state that is read is evicted next",
        (STORE,),
    ),
    Fault(
        "first-state",
        "sim/extents.py",
        "blocks = max((at for at in state.checkpoints",
        "blocks = min((at for at in state.checkpoints",
        "the first state of a path is found, not the last",
        (STORE,),
    ),
    Fault(
        "shorter-answer-first",
        "sim/pod/answers.py",
        "key=lambda writer: (-writer.computed, writer.admission)",
        "key=lambda writer: (writer.computed, writer.admission)",
        "of two equal answers the one that is behind has the original blocks",
        (DECIMAL, BINARY, SPANS),
    ),
)

TIME = (
    Fault(
        "span-sum",
        "sim/pod/steptime.py",
        "(steps * (steps - 1) / 2)",
        "(steps * (steps + 1) / 2)",
        "a span reads one token more per step than its steps do",
        (f"{TIMES}::test_a_span_lasts_as_long_as_its_steps",),
    ),
    Fault(
        "step-at-its-end",
        "sim/pod/steptime.py",
        "while self.end_s(steps + 1) <= until_s:",
        "while self.end_s(steps + 1) < until_s:",
        "a step that ends now has not ended",
        (f"{TIMES}::test_the_step_number_at_a_boundary_is_exact",),
    ),
    Fault(
        "half-open-window",
        "sim/pod/steptime.py",
        "while steps and self.end_s(steps) >= until_s:",
        "while steps and self.end_s(steps) > until_s + 0:",
        "a step that ends at the end of an interval counts in it",
        (BINARY,),
    ),
    Fault(
        "unit-of-attention",
        "sim/pod/steptime.py",
        "coefficients.d / 1e11",
        "coefficients.d / 1e10",
        "attention of prompts costs ten times as much",
        (f"{TIMES}::test_a_step_with_prefill_costs_what_the_formula_says",),
    ),
    Fault(
        "mixed-step",
        "sim/pod/steptime.py",
        "self._prefilling_context * context",
        "self._prefilling_context * decoders",
        "decodes beside a prefill do not pay for their context",
        (f"{TIMES}::test_a_step_with_prefill_costs_what_the_formula_says",),
    ),
    Fault(
        "beyond-the-curve",
        "sim/pod/steptime.py",
        "min(bisect_right(self._tokens, tokens), len(self._slopes)) - 1",
        "min(bisect_right(self._tokens, tokens), len(self._slopes) - 1) - 1",
        "beyond the last points a curve goes on from those before them",
        (f"{TIMES}::test_a_step_with_prefill_costs_what_the_formula_says",),
    ),
    Fault(
        "overtaken-late",
        "sim/pod/steptime.py",
        "int(ahead_s / gain_s) + 1)",
        "int(ahead_s / gain_s) + 2)",
        "a joint span goes on past the step at which another rank becomes the slowest",
        (LOCKSTEP,),
    ),
    Fault(
        "fastest-rank",
        "sim/pod/lockstep.py",
        "self._wake_at(start_s + max(lasting_s))",
        "self._wake_at(start_s + min(lasting_s))",
        "a step is over when the fastest rank is done",
        (f"{LOCKSTEP}::test_a_step_lasts_as_long_as_the_slower_rank_s",),
    ),
    Fault(
        "longest-span",
        "sim/pod/lockstep.py",
        "steps = min(ahead)",
        "steps = max(ahead)",
        "a joint span goes on past the first end of another rank",
        (LOCKSTEP,),
    ),
    Fault(
        "too-late",
        "sim/pod/lockstep.py",
        "too_late = self._kernel.phase > Order.PLANNING",
        "too_late = False",
        "who comes because a client has left is in a step that was planned before",
        (f"{SPANS}::test_a_client_that_comes_back_agrees",),
    ),
    Fault(
        "no-tolerance",
        "sim/pod/lockstep.py",
        "now_s - boundary_s > BOUNDARY_TOLERANCE_S",
        "now_s - boundary_s > 0.0",
        "who comes half a nanosecond after a boundary waits for a whole step",
        (f"{RULES}::test_an_arrival_within_a_nanosecond_is_at_the_boundary",),
    ),
    Fault(
        "departure-does-not-cut",
        "sim/pod/lockstep.py",
        "self._span.steps_until(self._kernel.now_s) + 1)",
        "self._span.steps_until(self._kernel.now_s) + 2)",
        "who leaves during a span holds its place for a step too long",
        (f"{CASES}::test_c78_clients_that_leave_free_what_they_hold",),
    ),
    Fault(
        "blocks-within",
        "sim/pod/batch.py",
        "if free < 0:",
        "if free < -1:",
        "a span takes a block more than there are",
        (DECIMAL,),
    ),
    Fault(
        "block-boundary",
        "sim/pod/batch.py",
        "self._needing[(self.steps - sequence.computed) % self.block_size] += 1",
        "self._needing[(self.steps - sequence.computed + 1) % self.block_size] += 1",
        "a sequence takes its next block a step late",
        (f"{CASES}::test_c24_running_blocks_are_safe_and_block_the_queue",),
    ),
    Fault(
        "end-of-an-answer",
        "sim/pod/batch.py",
        "sequence.ends_at = self.steps + to_go",
        "sequence.ends_at = self.steps + to_go + 1",
        "every answer takes a step too many",
        (f"{CASES}::test_c36_the_first_token_comes_at_the_end_of_the_last_chunk",),
    ),
    Fault(
        "context-of-an-answer",
        "sim/pod/batch.py",
        "self.context_tokens += steps * self.decoders",
        "self.context_tokens += steps",
        "only one sequence of a batch grows by its answer",
        (DECIMAL,),
    ),
)

FAULTS = SCHEDULER + GATE_AND_INTAKE + REPORTS + CACHE + TIME
