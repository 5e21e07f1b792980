"""The slow llama-server: one step at a time, contexts as lists of token ids, obviously right.

It is the reference for ``kind: llamacpp`` and shares no code with it; jobs,
traces and the cost of a step are those of ``tests.oracle``. One step: give
slots to those who wait, fill the batch, let the time pass, take effect.
Events at one instant: end of a step, arrivals, planning, cancellations.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from operator import attrgetter, itemgetter

from tests.oracle import (
    BOUNDARY_TOLERANCE_S,
    FollowUp,
    Job,
    JobTrace,
    Published,
    StepTime,
    StepTrace,
    Trace,
)


@dataclass(frozen=True)
class SlotSettings:
    """One pod; ``cache_ram`` is the room of the host cache in tokens."""

    step_time: StepTime
    ctx_size: int
    parallel: int = 4
    kv_unified: bool = False
    kv_unified_per_slot: int | None = None
    batch_size: int = 2048
    ubatch_size: int = 512
    slot_prompt_similarity: float = 0.1
    cache_prompt: bool = True
    cache_ram: int = 0
    cache_idle_slots: bool = True

    @property
    def slot_tokens(self) -> int:
        share = self.ctx_size if self.kv_unified else self.ctx_size // self.parallel
        return min(share, self.kv_unified_per_slot or share)


@dataclass
class SlotTrace(Trace):
    """A whole run; ``failures`` are when a batch fitted nowhere, with what is published then."""

    failures: list[tuple[float, Published]]

    def __post_init__(self) -> None:
        ends = [(step.end_s, 0, step.published) for step in self.steps]
        failures = [(failed_s, 1, published) for failed_s, published in self.failures]
        self._published = sorted([*ends, *failures], key=itemgetter(0, 1))

    def published_at(self, time_s: float) -> Published:
        """As of ``Trace``; a failure comes after the polls of its instant."""
        told = bisect_right(self._published, (time_s, 0), key=itemgetter(0, 1))
        return self._published[told - 1][2] if told else Published()


def simulate(
    settings: SlotSettings, jobs: Iterable[Job], follow_up: FollowUp | None = None
) -> SlotTrace:
    """Run ``jobs`` (in input order at equal times) and whatever follows up to the last end."""
    return _Server(settings, list(jobs), follow_up).run()


def common(left: list[int], right: list[int]) -> int:
    """Length of the longest common prefix."""
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return length


class HostCache:
    """Saved contexts, oldest first."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.saved: list[list[int]] = []

    def save(self, context: list[int]) -> None:
        if not context or any(saved[: len(context)] == context for saved in self.saved):
            return
        self.saved = [saved for saved in self.saved if context[: len(saved)] != saved]
        self.saved.append(list(context))

    def swap(self, context: list[int], prompt: list[int]) -> list[int]:
        """The best saved context for ``prompt``, taken out; ``context`` if none is better."""
        best = context
        kept = common(context, prompt) / len(context) if context else -1.0
        said = common(context, prompt) / len(prompt)
        for saved in self.saved:
            shared = common(saved, prompt)
            if shared / len(saved) < 0.25:
                continue
            if shared / len(saved) > kept and shared / len(prompt) > said:
                best, kept, said = saved, shared / len(saved), shared / len(prompt)
        if best is not context:
            self.saved.remove(best)
        return best

    def trim(self) -> None:
        while len(self.saved) > 1 and sum(map(len, self.saved)) > self.room:
            del self.saved[0]


@dataclass(eq=False)
class _Task:
    """A job inside the server. ``known`` is its prompt and what it has produced."""

    number: int
    job: Job
    known: list[int]
    trace: JobTrace = field(default_factory=JobTrace)
    leaving: bool = False


@dataclass(eq=False)
class _Slot:
    """``context`` is what its KV says; ``chunk`` tokens of its task are in the present batch."""

    number: int
    context: list[int] = field(default_factory=list)
    task: _Task | None = None
    last_used: int = -1
    chunk: int = 0

    @property
    def generating(self) -> bool:
        return self.task is not None and self.task.trace.emitted_tokens > 0

    @property
    def prompting(self) -> bool:
        return self.task is not None and not self.generating


class _Server:
    def __init__(self, settings: SlotSettings, jobs: list[Job], follow_up: FollowUp | None) -> None:
        self.settings = settings
        self.follow_up = follow_up
        self.tasks = [_Task(number, job, list(job.prompt)) for number, job in enumerate(jobs)]
        self.arrivals = [(task.job.arrival_s, task.number, task) for task in self.tasks]
        heapify(self.arrivals)
        self.deferred: deque[_Task] = deque()
        self.slots = [_Slot(number) for number in range(settings.parallel)]
        self.host = HostCache(settings.cache_ram)
        self.releases = 0
        self.steps: list[StepTrace] = []
        self.failures: list[tuple[float, Published]] = []

    def run(self) -> SlotTrace:
        now_s = 0.0
        while True:
            if not self.deferred and not any(slot.task for slot in self.slots):
                if not self.arrivals:
                    break
                now_s = max(now_s, self.arrivals[0][0])
            self._take_arrivals(now_s)
            self._fill_batch(now_s)
            if any(slot.chunk for slot in self.slots):
                now_s = self._pass_step(now_s)
        traces = [task.trace for task in self.tasks]
        return SlotTrace(traces, self.steps, self.failures)

    # Arrivals and departures

    def _take_arrivals(self, now_s: float) -> None:
        while self.arrivals and self.arrivals[0][0] <= now_s + BOUNDARY_TOLERANCE_S:
            _, _, task = heappop(self.arrivals)
            arrival_s, cancel_s = task.job.arrival_s, task.job.cancel_s
            if len(task.known) >= self.settings.slot_tokens:
                task.trace.http_status = 400
                self._end(task, "rejected", arrival_s, "prompt_too_long")
            elif cancel_s is not None and cancel_s < now_s:
                self._end(task, "cancelled", cancel_s)  # came and went during the step
            else:
                self.deferred.append(task)

    def _end(self, task: _Task, status: str, end_s: float, reason: str | None = None) -> None:
        task.trace.status = status
        task.trace.end_s = end_s
        task.trace.end_reason = reason
        following = self.follow_up(task.number, end_s) if self.follow_up else None
        if following is not None:
            successor = _Task(len(self.tasks), following, list(following.prompt))
            self.tasks.append(successor)
            heappush(self.arrivals, (following.arrival_s, successor.number, successor))

    # Slots

    def _idle(self) -> list[_Slot]:
        return [slot for slot in self.slots if slot.task is None]

    def _launch(self, task: _Task, now_s: float) -> None:
        slot, loses = self._choose(task.known)
        if loses and self.settings.cache_ram:
            self.host.save(slot.context)
            slot.context = self.host.swap(slot.context, task.known)
            self.host.trim()
        reused = common(slot.context, task.known) if self.settings.cache_prompt else 0
        reused = min(reused, len(task.known) - 1)
        slot.context = slot.context[:reused]
        slot.task = task
        task.trace.scheduled_s = now_s
        task.trace.cached_tokens = reused
        if self.settings.cache_ram and self.settings.cache_idle_slots:
            for other in self._idle():
                self.host.save(other.context)
                self.host.trim()
                if self.settings.kv_unified:
                    other.context = []

    def _choose(self, prompt: list[int]) -> tuple[_Slot, bool]:
        """The idle slot that says most of the prompt, or the least recently used one."""
        best = None
        most = 0.0
        for slot in self._idle():
            said = common(slot.context, prompt) / len(prompt)
            if said > most and said > self.settings.slot_prompt_similarity:
                best, most = slot, said
        if best is not None and self.settings.slot_prompt_similarity:
            return best, common(best.context, prompt) / len(best.context) < 0.5
        oldest = min(map(attrgetter("last_used"), self._idle()))
        return [slot for slot in self._idle() if slot.last_used == oldest][-1], True

    def _release(self, slot: _Slot) -> None:
        slot.task = None
        slot.chunk = 0
        slot.last_used = self.releases
        self.releases += 1

    # The batch

    def _fill_batch(self, now_s: float) -> None:
        """A batch for which there is no KV fails all who have a slot."""
        failed: list[_Task] = []
        self._propose_batch(now_s)
        while not self._fits():
            failed += [slot.task for slot in self.slots if slot.task]
            for slot in self.slots:
                if slot.task:
                    self._release(slot)
                slot.context = []
            self._propose_batch(now_s)
        if failed:
            self.failures.append((now_s, self._published(len(self.deferred))))
        for task in failed:
            task.trace.http_status = 500
            self._end(task, "failed", now_s, "context_exceeded")

    def _propose_batch(self, now_s: float) -> None:
        """A token of each slot that generates, then prompts in slot order."""
        while self.deferred and self._idle():
            self._launch(self.deferred.popleft(), now_s)
        room = self.settings.batch_size - sum(slot.generating for slot in self.slots)
        for slot in self.slots:
            slot.chunk = int(slot.generating)
            if slot.prompting:
                slot.chunk = min(room, len(slot.task.known) - len(slot.context))
                room -= slot.chunk

    def _published(self, waiting: int) -> Published:
        running = [slot for slot in self.slots if slot.task]
        held = sum(len(slot.context) + slot.chunk for slot in running)
        return Published(waiting, len(running), held / self.settings.ctx_size)

    def _fits(self) -> bool:
        """Does the batch find KV, if need be in place of the contexts of idle slots?"""
        if not self.settings.kv_unified:
            return True
        for purged in [None, *self._idle()]:
            if purged is not None:
                purged.context = []
            used = sum(len(slot.context) + slot.chunk for slot in self.slots)
            if used <= self.settings.ctx_size:
                return True
        return False

    # The step itself

    def _pass_step(self, start_s: float) -> float:
        generating = [slot for slot in self.slots if slot.generating]
        prompting = [slot for slot in self.slots if slot.prompting]
        prefill = sum(slot.chunk for slot in prompting)
        read = sum(len(slot.task.known) for slot in generating)
        pairs = sum((slot.chunk * (len(slot.context) + slot.chunk / 2) for slot in prompting), 0.0)
        end_s = start_s + self._seconds(prefill, len(generating), read, pairs)
        queue = list(self.deferred)
        self._take_cancellations(end_s)
        for slot in self.slots:
            if slot.task:
                self._take_effect(slot, slot.task, end_s)
        published = self._published(sum(task.trace.status == "in_flight" for task in queue))
        used = sum(len(slot.context) for slot in self.slots)
        self.steps.append(
            StepTrace(
                start_s,
                end_s,
                prefill,
                len(generating),
                read,
                pairs,
                published,
                self.settings.ctx_size - used,
                0,
                bool(self.deferred or any(slot.task for slot in self.slots)),
            )
        )
        return end_s

    def _seconds(self, prefill: int, generating: int, read: int, pairs: float) -> float:
        """Forward passes, all but the last full: each costs a and the curve over its tokens."""
        costs = self.settings.step_time
        seconds = replace(costs, a=0.0, computed=None).seconds(prefill, generating, read, pairs)
        rest = prefill + generating
        while rest > 0:
            tokens = min(rest, self.settings.ubatch_size)
            seconds += costs.a / 1e3
            if costs.computed is not None:
                seconds += costs.computed.at_ms(tokens) / 1e3
            rest -= tokens
        return seconds

    def _take_cancellations(self, end_s: float) -> None:
        """Clients that leave from the start of the step (after planning) to before its end."""
        running = [slot.task for slot in self.slots if slot.task]
        for task in [*self.deferred, *running]:
            cancel_s = task.job.cancel_s
            task.leaving = cancel_s is not None and cancel_s < end_s
        for task in [task for task in self.deferred if task.leaving]:
            self.deferred.remove(task)
            self._end(task, "cancelled", task.job.cancel_s)

    def _take_effect(self, slot: _Slot, task: _Task, end_s: float) -> None:
        """The tokens of the batch are in the KV; whose are all in there gets the next one."""
        if slot.prompting:
            task.trace.computed_tokens += slot.chunk
        slot.context = task.known[: len(slot.context) + slot.chunk]
        slot.chunk = 0
        if task.leaving:
            self._release(slot)
            self._end(task, "cancelled", task.job.cancel_s)
        elif slot.context == task.known:
            self._emit(slot, task, end_s)

    def _emit(self, slot: _Slot, task: _Task, now_s: float) -> None:
        trace = task.trace
        task.known.append(task.job.output[trace.emitted_tokens])
        trace.emitted_tokens += 1
        trace.token_s.append(now_s)
        if trace.first_token_s is None:
            trace.first_token_s = now_s
        complete = trace.emitted_tokens == len(task.job.output)
        if complete or len(task.known) >= self.settings.slot_tokens:
            self._release(slot)
            trace.http_status = 200
            self._end(task, "completed", now_s, None if complete else "length")
