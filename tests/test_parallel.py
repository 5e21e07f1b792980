"""Calls in worker processes: what comes back from them, and that none of them outlives its use."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

from sim.core.errors import ScenarioError, UserError, WorkerError
from sim.core.interrupts import interrupts_deferred
from sim.execution.parallel import Call, InProcess, Tick, no_tick, run_all, worker_processes

ROOT = Path(__file__).parents[1]
PATIENCE_S = 300.0
"""So long is only waited for what never comes."""
SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from sim.execution.parallel import no_tick, run_all
from tests.test_parallel import busy
if __name__ == "__main__":
    run_all([partial(busy, Path(sys.argv[1], str(index))) for index in range(2)], 2, no_tick)
"""


def square(number: int, tick: Tick) -> int:
    tick(float(number))
    time.sleep(0.3 * (3 - number))  # the later calls are the first to finish
    return number * number


def raises(kind: type[Exception], arguments: tuple[object, ...], _: Tick) -> None:
    raise kind(*arguments)


def dies(_: Tick) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_once(sign: Path, _: Tick) -> str:
    if not sign.exists():
        sign.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "made"


def busy(sign: Path, _: Tick) -> None:
    """Compute for longer than any test waits; ``sign`` says that it has begun."""
    sign.touch()
    deadline_s = time.monotonic() + 2 * PATIENCE_S
    while time.monotonic() < deadline_s:
        pass


def half_a_result(_: Tick) -> bytes:
    """Is killed while its result is in the pipe, which does not hold all of it."""
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return bytes(200_000_000)


class HeadstrongError(Exception):
    """Cannot be rebuilt from its ``args``, as many a library's error cannot."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def note(found: dict[int, object], index: int, outcome: object) -> bool:
    found[index] = outcome
    return False


def outcomes(calls: Sequence[Call]) -> list[object]:
    """What calls come to in two processes, of which none is left."""
    found: dict[int, object] = {}
    with worker_processes(2) as executor:
        executor.run(calls, partial(note, found))
    assert not active_children()
    return [found[index] for index in range(len(calls))]


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_the_order_of_the_calls_and_progress_with_their_index(jobs: int) -> None:
    """Results would be mixed up between runs, or progress would be told of the wrong one."""
    ticks, done = set(), []
    found = run_all(
        [partial(square, number) for number in range(4)],
        jobs,
        lambda *ended: done.append(ended),
        lambda *tick: ticks.add(tick),
    )
    assert found == [0, 1, 4, 9]
    assert {(1, 1.0), (2, 2.0)} <= ticks
    assert sorted(done) == [(number, number * number) for number in range(4)]
    assert jobs == 1 or done != sorted(done)


@pytest.mark.parametrize(
    ("kind", "arguments"), [(UserError, ("no such trace",)), (ScenarioError, ([],))]
)
def test_an_exception_comes_back_with_its_traceback(
    kind: type[Exception], arguments: tuple[object, ...]
) -> None:
    """A user's mistake would look like a bug, or a bug could not be found."""
    with pytest.raises(kind) as caught:
        run_all([partial(raises, kind, arguments)] * 2, 2, no_tick)
    assert caught.value.args == arguments
    assert "in raises" in str(caught.value.__cause__)


def test_an_exception_that_cannot_travel_is_told_in_words() -> None:
    """A third-party policy's own error would look like the end of its worker process."""
    (error, _) = outcomes([partial(raises, HeadstrongError, ("a", "b")), partial(square, 3)])
    assert isinstance(error, RuntimeError)
    assert "in raises" in str(error) and "HeadstrongError: ab" in str(error)


def test_a_killed_worker_costs_the_call_that_it_had_in_hand(tmp_path: Path) -> None:
    """For want of memory in one process all calls would end, or its neighbours fail with it."""
    calls = [partial(square, 3), dies, *[partial(square, 2)] * 4, half_a_result]
    found = outcomes(calls)
    assert str(found.pop(1)) == "a worker process was killed by SIGKILL (out of memory?)"
    assert str(found.pop()) == "a worker process was killed by SIGALRM"
    assert found == [9, 4, 4, 4, 4]
    made = run_all([partial(dies_once, tmp_path / "sign"), partial(square, 2)], 2, no_tick)
    assert made == ["made", 4]
    with pytest.raises(WorkerError, match="killed by SIGKILL"):
        run_all([dies, partial(square, 2)], 2, no_tick)


def test_a_worker_that_dies_in_idleness_costs_no_call() -> None:
    """The next call would count as failed, though no process had heard of it."""
    with worker_processes(2) as executor:
        for _ in range(2):
            found: dict[int, object] = {}
            executor.run([partial(square, 3)] * 2, partial(note, found))
            assert found == {0: 9, 1: 9}
            for child in active_children():
                child.kill()
                child.join()
            time.sleep(0.1)


def test_a_call_that_cannot_be_sent_fails_alone() -> None:
    """It would end all others, or leave a process behind that nobody knows any more."""
    (error, other) = outcomes([lambda _: None, partial(square, 3)])
    assert isinstance(error, UserError) and "--jobs 1 makes it here" in str(error)
    assert other == 9


def test_a_killed_parent_leaves_no_worker(tmp_path: Path) -> None:
    """Workers that nobody waits for would compute on, with all their memory."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as parent:
        deadline_s = time.monotonic() + PATIENCE_S
        while not all((tmp_path / str(index)).exists() for index in range(2)):
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        parent.kill()
        # The output ends when the last process that could write to it is gone.
        assert parent.communicate(timeout=PATIENCE_S)[0] == b""


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch):
    """The signals that a handler has got."""
    found: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda got, _: found.append(got)) for number in numbers]
    yield found
    for number, handler in zip(numbers, before):
        signal.signal(number, handler)


def test_signals_that_are_deferred_are_handled_at_the_end_and_the_second_at_once(
    heard: list[int],
) -> None:
    """A run would be half stored, or whoever insists not be obeyed."""
    with interrupts_deferred():
        signal.raise_signal(signal.SIGTERM)
        assert heard == []
    assert heard == [signal.SIGTERM]
    with interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGTERM, signal.SIGINT]
    assert heard == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert len(heard) == 3


@pytest.mark.parametrize("opened", [InProcess, lambda: worker_processes(1)])
def test_an_interruption_waits_until_the_end_of_a_call_is_noted(
    opened: Callable[[], object],
) -> None:
    """A finished run would be half stored, or be lost though it had ended."""
    ended = []

    def on_end(index: int, outcome: object) -> bool:
        signal.raise_signal(signal.SIGINT)
        ended.append((index, outcome))
        return False

    def run(executor) -> None:
        executor.run([partial(square, 3)] * 2, on_end)

    with pytest.raises(KeyboardInterrupt):
        if opened is InProcess:
            run(opened())
        else:
            with opened() as executor:
                run(executor)
    assert ended == [(0, 9)]
