"""The rules of a model pool once more, slow and obvious, for whole seconds and fake pods.

Written from the rules, without a heap or callbacks: time goes on second by
second; of what is due the first thing in the order of one instant is done, and then everything is
looked at again.
"""

from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Ask:
    """A scripted request; ``leaves_s`` is when its client does."""

    at_s: int
    rule: str
    if_idle: bool
    service_s: int
    leaves_s: int | None


@dataclass(frozen=True)
class Script:
    """What happens to a pool from outside."""

    asks: tuple[Ask, ...]
    directs: tuple[tuple[int, str, int], ...]  # (at, member, service)
    losses: tuple[tuple[int, str], ...]
    restarts: tuple[int, ...]
    failures: tuple[tuple[str, int], ...]  # (member, after)


@dataclass(eq=False)
class Trip:
    """A request on its way through its rule."""

    number: int
    ask: Ask
    log: list[tuple[str, str, float]] = field(default_factory=list)
    outcome: str = ""
    end_s: float = -1
    state: str = ""  # held, granted
    joined_s: int = 0
    hold_s: float = inf
    flies_to: str = ""

    @property
    def member(self) -> str:
        """The one of its present attempt, whose grant is in the log already."""
        return self.ask.rule[len(self.log) - (self.state == "granted")]


Outside: TypeAlias = tuple[int, str, Any]
"""(time, kind, what): an arrival, a fault or the leaving of a client."""


@dataclass(eq=False)
class Work:
    """A job in a pod."""

    member: str
    end_s: int
    trip: Trip | None


@dataclass(eq=False)
class Move:
    """A swap; ``row`` is [start, from, to, end, result]."""

    target: str
    row: list[Any]
    incumbent: str | None
    requesters: bool
    bound_s: float = inf


class Reference:
    """Runs a script against options as written in a scenario, all of them given."""

    def __init__(
        self, times: dict[str, tuple[int, int]], options: dict[str, Any], script: Script
    ) -> None:
        self.times, self.options, self.script = times, options, script
        self.trips = [Trip(number, ask) for number, ask in enumerate(script.asks)]
        self.rows: list[list[Any]] = []
        self.now = 0
        # the machine
        self.ready: str | None = None
        self.jobs: list[Work] = []
        self.ended: list[tuple[Trip, str]] = []
        self.phase = ""  # of the slot: drain, load
        self.goal: str | None = None  # what the slot is on its way to
        self.unload_end: int | None = None
        self.phase_start = 0
        self.load_end = 0
        self.load_ok = True
        self.seen_at: int | None = None  # the poll that sees the end of the load
        self.next_probe: int | None = None
        self.ready_already = False  # the slot was asked for what is there
        self.failures = {name: [] for name in times}
        for name, after in script.failures:
            self.failures[name].append(after)
        # the proxy
        self.believed: str | None = None
        self.checked = 0
        self.swap: Move | None = None
        self.spare: Move | None = None
        self.swap_end: float = -inf
        self.idle_since: int | None = None
        self.sample: tuple[str, int] | None = None
        self.sampled_at = -1
        self.waking = False
        self.waiting: list[Trip] = []
        self.flying: list[Trip] = []

    def run(self, until: int) -> None:
        start = self.options["initial"] or self.options["default"]
        if start not in (None, "cold"):
            self.ready = self.believed = start
        elif self.options["default"]:
            self.spare = self.begin(self.options["default"], None)
        pending = self.outside()
        self.watch_idleness()
        for self.now in range(until):
            while self.do_the_first_thing(pending):
                self.watch_idleness()

    def outside(self) -> list[Outside]:
        """What the script says, as the test harness schedules it: requests, then the rest."""
        script, pending = self.script, []
        for trip in self.trips:
            pending.append((trip.ask.at_s, "arrival", trip))
            if trip.ask.leaves_s is not None:
                pending.append((trip.ask.leaves_s, "leave", trip))
        pending += [(at, "arrival", (member, service)) for at, member, service in script.directs]
        pending += [(at, "fault", member) for at, member in script.losses]
        pending += [(at, "fault", None) for at in script.restarts]
        return pending

    def do_the_first_thing(self, pending: list[Outside]) -> bool:
        """One thing of this instant, in the order of one instant."""
        return (
            self.end_a_job()
            or self.end_unload_or_load()
            or self.take(pending, "fault")
            or self.release()
            or self.probe()
            or self.see_readiness()
            or self.reach_bound("swap-first")
            or self.end_a_hold()
            or self.reach_bound("hold-first")
            or self.reclaim()
            or self.take(pending, "arrival")
            or self.take(pending, "leave")
        )

    # -- things that are due ----------------------------------------------------------------

    def end_a_job(self) -> bool:
        job = next((job for job in self.jobs if job.end_s == self.now), None)
        if job is None:
            return False
        self.jobs.remove(job)
        if job.trip is not None:
            self.ended.append((job.trip, "ok"))
        return True

    def end_unload_or_load(self) -> bool:
        if self.unload_end == self.now:
            self.unload_end = None
            if self.goal is not None:
                self.load()
            return True
        if self.phase == "load" and self.seen_at is None and self.load_end == self.now:
            self.end_load(self.load_ok)
            return True
        return False

    def end_load(self, ready: bool) -> None:
        """The process is ready or gone; the proxy sees it at a poll."""
        poll = self.options["readyPollInterval"]
        if ready:
            self.ready = self.goal
        if poll == 0:
            self.settled()
        else:
            polls = max(1, ceil((self.now - self.phase_start) / poll))
            self.seen_at = self.phase_start + polls * poll

    def take(self, pending: list[Outside], what: str) -> bool:
        item = next((each for each in pending if each[:2] == (self.now, what)), None)
        if item is None:
            return False
        pending.remove(item)
        if what == "leave":
            self.client_leaves(item[2])
        elif what == "fault":
            if item[2] is None:
                self.restart()
            else:
                self.lose(item[2])
        elif isinstance(item[2], Trip):
            self.go_on(item[2])
            self.wake()
        elif self.ready == item[2][0]:
            self.jobs.append(Work(item[2][0], self.now + item[2][1], None))
        return True

    def release(self) -> bool:
        """What the end of a response means to the proxy."""
        if not self.ended:
            return False
        self.answer(*self.ended.pop(0))
        return True

    def probe(self) -> bool:
        if self.phase != "drain":
            return False
        interval = self.options["idleProbeInterval"]
        if interval == 0:
            due = self.next_probe == self.now or not self.jobs
        else:
            due = self.next_probe == self.now
        if not due:
            return False
        if self.jobs and self.options["idleProbe"] == "exact":
            self.next_probe = self.now + interval if interval else None
        else:
            self.drained()
        return True

    def see_readiness(self) -> bool:
        if self.ready_already or (self.phase == "load" and self.seen_at == self.now):
            self.settled()
            return True
        return False

    def reach_bound(self, tie_order: str) -> bool:
        if self.options["compat"]["tieOrder"] != tie_order:
            return False
        if self.swap is None or self.swap.bound_s != self.now:
            return False
        self.give_up("deadline", "swap_deadline_exceeded")
        return True

    def end_a_hold(self) -> bool:
        trip = next((trip for trip in self.waiting if trip.hold_s == self.now), None)
        if trip is None:
            return False
        self.waiting.remove(trip)
        self.somebody_left(trip.member)
        self.refuse(trip, "hold_budget_exceeded")
        self.wake()
        return True

    def reclaim(self) -> bool:
        options = self.options
        if options["swapPolicy"] != "reclaim":
            return False
        after, poll = options["reclaimAfter"], options["reclaimPoll"]
        if poll == 0:
            if self.idle_since is None or self.now - self.idle_since < after:
                return False
            self.start_swap(options["default"], requesters=False)
            return True
        if self.now % poll or self.sampled_at == self.now:
            return False
        self.sampled_at = self.now
        idle = self.nobody_needs()
        if idle is None:
            self.sample = None
        elif self.sample is None or self.sample[0] != idle:
            self.sample = (idle, self.now)
        elif self.now - self.sample[1] >= after:
            self.sample = None
            self.start_swap(options["default"], requesters=False)
        return True

    def nobody_needs(self) -> str | None:
        member = self.believed
        if member is None or member == self.options["default"] or self.ready != member:
            return None
        if self.waiting or self.swap or self.spare or self.jobs or self.in_flight(member):
            return None
        return member

    def watch_idleness(self) -> None:
        if self.nobody_needs() is None:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = self.now

    # -- clients ----------------------------------------------------------------------------

    def go_on(self, trip: Trip) -> None:
        """The next attempt of its rule joins, or that was the last; others are woken later."""
        tried = len(trip.log)
        trip.state = ""
        if tried == len(trip.ask.rule):
            self.finish(trip, trip.log[-1][1])
            return
        if self.now - self.checked > self.options["beliefRecheck"] and self.swap is None:
            self.check_belief()
            self.wake()
        member = trip.ask.rule[tried]
        most, held = self.options["maxInFlight"], self.options["maxHeld"]
        if held is not None:
            there = sum(each.member == member for each in self.waiting) + self.in_flight(member)
            if there >= most + held:
                trip.log.append((member, "pool_queue_full", self.now))
                self.go_on(trip)
                return
        trip.state = "held"
        trip.joined_s = self.now
        budget = self.options["swapBudget"]
        trip.hold_s = self.now + (120 if budget is None else budget)
        self.waiting.append(trip)

    def refuse(self, trip: Trip, error: str) -> None:
        trip.log.append((trip.member, error, self.now))
        self.go_on(trip)

    def finish(self, trip: Trip, outcome: str) -> None:
        trip.outcome, trip.end_s, trip.state = outcome, self.now, ""

    def client_leaves(self, trip: Trip) -> None:
        if trip.outcome:
            return
        member, state = trip.member, trip.state
        self.finish(trip, "gone")
        if state == "held":
            self.waiting.remove(trip)
            self.somebody_left(member)
        else:
            self.jobs = [job for job in self.jobs if job.trip is not trip]
            self.land(trip)
        self.wake()

    def answer(self, trip: Trip, result: str) -> None:
        """Its pod has ended it: ok, broken, or refused by nobody who listens."""
        if trip.outcome:
            return
        self.land(trip)
        self.wake()
        if result == "refused" and self.options["recheckOnError"] and self.swap is None:
            self.check_belief()
            self.wake()
        if result == "ok" or len(trip.log) == len(trip.ask.rule):
            self.finish(trip, "served" if result == "ok" else result)
        else:
            self.go_on(trip)
            self.wake()

    def land(self, trip: Trip) -> None:
        if trip in self.flying:
            self.flying.remove(trip)

    def in_flight(self, member: str) -> int:
        return sum(trip.flies_to == member for trip in self.flying)

    # -- the decision -----------------------------------------------------------------------

    def wake(self, first: str | None = None) -> None:
        """Until nothing follows for anybody: the oldest for whom something does."""
        if self.waking:
            return
        self.waking = True
        while True:
            waiting = [trip for trip in self.waiting if trip.member == first]
            waiting += [trip for trip in self.waiting if trip.member != first]
            for trip in waiting:
                what = self.what_follows(trip)
                if what:
                    self.do(trip, what)
                    break
            else:
                break
        self.waking = False

    def what_follows(self, trip: Trip) -> str:
        options = self.options
        oldest = self.waiting[0] is trip or options["order"] == "coalesce"
        if self.swap is not None:
            return ""
        if self.believed == trip.member:
            full = options["maxInFlight"] is not None and (
                self.in_flight(trip.member) >= options["maxInFlight"]
            )
            due = options["maxWait"] is not None and any(
                self.now - max(other.joined_s, self.swap_end) >= options["maxWait"]
                for other in self.waiting
                if other.member != self.believed
            )
            return "grant" if oldest and not full and not due else ""
        if self.believed is None or self.in_flight(self.believed) == 0:
            return "swap" if oldest and trip.hold_s > self.now else ""
        return "skip" if trip.ask.if_idle else ""

    def do(self, trip: Trip, what: str) -> None:
        if what == "swap":
            self.start_swap(trip.member, requesters=True)
        elif what == "skip":
            self.waiting.remove(trip)
            self.refuse(trip, "incumbent_busy")
        else:
            self.drop_spare()
            member = trip.member
            self.waiting.remove(trip)
            trip.log.append((member, "granted", self.now))
            trip.state, trip.flies_to = "granted", member
            self.flying.append(trip)
            if self.ready == member:
                self.jobs.append(Work(member, self.now + trip.ask.service_s, trip))
            else:
                self.answer(trip, "refused")

    # -- swaps ------------------------------------------------------------------------------

    def begin(self, target: str, incumbent: str | None) -> Move:
        row = [self.now, incumbent, target, None, None]
        self.rows.append(row)
        self.to(target)
        return Move(target, row, incumbent, requesters=False)

    def start_swap(self, target: str, requesters: bool) -> None:
        if self.spare is not None and self.spare.target == target:
            self.swap, self.spare = self.spare, None
        else:
            self.drop_spare()
            self.swap = self.begin(target, self.believed)
        self.swap.requesters = requesters
        budget = self.options["swapBudget"]
        self.swap.bound_s = self.now + (240 if budget is None else budget)

    def drop_spare(self) -> None:
        if self.spare is not None:
            self.spare.row[3:] = [self.now, "cancelled"]
            self.spare = None
            self.stop_moving()

    def settled(self) -> None:
        """The slot has come to its goal, or not."""
        reached = self.ready == self.goal
        if not reached:
            self.give_up("error", "swap_failed")
            return
        target = self.goal
        self.end_move("completed")
        self.wake(target if self.options["grantTargetWaitersFirst"] else None)

    def end_move(self, result: str) -> Move:
        move = self.swap or self.spare
        assert move is not None
        completed = result == "completed"
        if completed:
            self.phase, self.goal, self.seen_at, self.ready_already = "", None, None, False
        else:
            self.stop_moving()
        move.row[3:] = [self.now, result]
        self.swap = self.spare = None
        self.swap_end = self.now
        self.check_belief()
        return move

    def give_up(self, result: str, error: str | None) -> None:
        move = self.swap or self.spare
        assert move is not None
        told = [trip for trip in self.waiting if trip.member == move.target] if error else []
        if self.options["swapErrorTo"] == "first":
            told = told[:1]
        for trip in told:
            self.waiting.remove(trip)
        self.end_move(result)
        self.wake()
        cold = self.believed is None and self.swap is None
        if self.options["reloadIncumbent"] and cold and move.incumbent is not None:
            self.spare = self.begin(move.incumbent, None)
        for trip in told:
            self.refuse(trip, error or "")
            self.wake()

    def somebody_left(self, member: str) -> None:
        swap = self.swap
        others = any(trip.member == member for trip in self.waiting)
        if swap is not None and swap.target == member and swap.requesters and not others:
            self.give_up("cancelled", None)
        else:
            self.wake()

    def check_belief(self) -> None:
        unseen = self.phase == "load"
        self.believed = None if unseen else self.ready
        self.checked = self.now

    def restart(self) -> None:
        held, self.waiting, self.flying = self.waiting, [], []
        if self.swap is not None:
            self.swap, self.spare = None, self.swap
            self.spare.bound_s = inf
        self.check_belief()
        for trip in held:
            self.refuse(trip, "proxy_restart")
            self.wake()

    # -- the machine ------------------------------------------------------------------------

    def to(self, target: str) -> None:
        self.goal, self.phase_start = target, self.now
        if self.unload_end is not None:
            return
        if self.ready == target:
            self.ready_already = True
        elif self.ready is None:
            self.load()
        else:
            self.phase, self.next_probe = "drain", self.now

    def drained(self) -> None:
        incumbent, self.ready, self.phase = self.ready, None, ""
        if incumbent is None:
            self.load()
            return
        self.unload_end = self.now + self.times[incumbent][1]
        self.cut_off()

    def cut_off(self) -> None:
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            if job.trip is not None:
                self.ended.append((job.trip, "broken"))

    def load(self) -> None:
        assert self.goal is not None and self.ready is None
        self.phase, self.phase_start, self.seen_at = "load", self.now, None
        lasts = self.times[self.goal][0]
        self.load_ok = not self.failures[self.goal]
        if not self.load_ok:
            lasts = self.failures[self.goal].pop(0)
        self.load_end = self.now + lasts

    def stop_moving(self) -> None:
        """A draining incumbent stays, an unload goes on, a load is given up."""
        if self.phase == "load":
            self.ready = None
        self.phase, self.goal, self.seen_at, self.ready_already = "", None, None, False
        if self.ready is None:
            self.cut_off()

    def lose(self, member: str) -> None:
        if self.ready == member:
            self.ready = None
            self.cut_off()
            if self.phase == "drain" and self.ready is None:
                self.drained()
        elif self.phase == "load" and self.goal == member and self.seen_at is None:
            self.end_load(ready=False)
