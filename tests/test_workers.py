"""Worker processes: what comes back from them, and that none of them outlives its use."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from sim.core.errors import ScenarioError, UserError, WorkerError
from sim.execution.workers import run_all, started

PATIENCE_S = 300.0
"""So long is only waited for what never comes."""
SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from sim.execution.workers import run_all
from tests.test_workers import busy
if __name__ == "__main__":
    calls = [partial(busy, Path(sys.argv[1], str(index))) for index in range(2)]
    try:
        run_all(calls, 2, print, print)
    except KeyboardInterrupt:
        print("interrupted")
"""


def square(number: int, tell: Callable[[object], None]) -> int:
    tell(f"squaring {number}")
    time.sleep(0.02 * (3 - number))  # the later calls are the first to finish
    return number * number


def raises(
    kind: type[Exception], arguments: tuple[object, ...], tell: Callable[[object], None]
) -> None:
    raise kind(*arguments)


def dies(tell: Callable[[object], None]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def busy(sign: Path, tell: Callable[[object], None]) -> None:
    """Compute for longer than any test waits; ``sign`` says that it has begun."""
    sign.touch()
    deadline_s = time.monotonic() + 2 * PATIENCE_S
    while time.monotonic() < deadline_s:
        pass


class Deaf:
    """An object that computes for long when nobody needs it any more."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __del__(self) -> None:
        busy(self.sign, nothing)


def busy_where_nothing_can_be_raised(sign: Path, tell: Callable[[object], None]) -> None:
    Deaf(sign)
    busy(sign, tell)


class Torn:
    def __del__(self) -> None:
        raise ValueError("mine")


def complains_where_nothing_can_be_raised(tell: Callable[[object], None]) -> None:
    Torn()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def nothing(*_: object) -> None:
    pass


class HeadstrongError(Exception):
    """Cannot be rebuilt from its ``args``, as many a library's error cannot."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def test_results_come_in_the_order_of_the_calls_and_notes_with_their_index() -> None:
    """Results would be mixed up between runs, or progress would be told of the wrong one."""
    notes, done = [], []
    calls = [partial(square, number) for number in range(4)]
    found = run_all(calls, 3, lambda *heard: notes.append(heard), lambda *heard: done.append(heard))
    assert found == [0, 1, 4, 9]
    assert sorted(notes) == [(number, f"squaring {number}") for number in range(4)]
    assert sorted(done) == [(number, number * number) for number in range(4)]


@pytest.mark.parametrize(
    ("kind", "arguments"), [(UserError, ("no such trace",)), (ScenarioError, ([],))]
)
def test_an_exception_comes_back_with_its_traceback(
    kind: type[Exception], arguments: tuple[object, ...]
) -> None:
    """A user's mistake would look like a bug, or a bug could not be found."""
    with pytest.raises(kind) as caught:
        run_all([partial(raises, kind, arguments)] * 2, 2, nothing, nothing)
    assert caught.value.args == arguments
    assert "in raises" in caught.value.__notes__[0]


def test_an_exception_that_cannot_travel_is_told_in_words() -> None:
    """A third-party policy's own error would come back as an error of ours about pickling."""
    with pytest.raises(RuntimeError, match=r"in raises(.|\n)*HeadstrongError: ab"):
        run_all([partial(raises, HeadstrongError, ("a", "b"))], 1, nothing, nothing)


def test_a_killed_worker_is_told_from_a_bug() -> None:
    """For want of memory the kernel kills: the user would be asked to report a bug."""
    with pytest.raises(WorkerError, match=r"killed by SIGKILL \(out of memory\?\)"):
        run_all([dies, partial(square, 2)], 2, nothing, nothing)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own whose two workers compute and compute."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    root = Path(__file__).parents[1]
    child = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: all((tmp_path / str(index)).exists() for index in range(2)))
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_ctrl_c_ends_busy_workers_at_once(script: subprocess.Popen[str]) -> None:
    """The terminal would come back when the runs in flight are over, minutes later."""
    os.killpg(script.pid, signal.SIGINT)
    # The output ends when the last process that could write to it is gone.
    assert script.communicate(timeout=PATIENCE_S) == ("interrupted\n", "")
    assert script.returncode == 0


def test_a_killed_parent_leaves_no_worker(script: subprocess.Popen[str]) -> None:
    """Workers that nobody waits for would compute on, with all their memory."""
    script.kill()
    assert script.communicate(timeout=PATIENCE_S)[0] == ""


def test_a_worker_leaves_wherever_it_is_told_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Told to leave in the callback of a weak reference, as every import has one, a worker wrote
    `Exception ignored in` and a traceback to the terminal and worked on, until it was killed.
    """
    sign = tmp_path / "sign"
    with started(1) as (worker,):
        worker.give(0, partial(busy_where_nothing_can_be_raised, sign))
        wait_for(sign.exists)
        worker.process.terminate()
        worker.process.join(PATIENCE_S)
        assert worker.process.exitcode == 0
    assert capfd.readouterr().err == ""


def test_what_cannot_be_raised_otherwise_is_still_told(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A policy's own mistake in a `__del__` would never be heard of."""
    assert run_all([complains_where_nothing_can_be_raised], 1, nothing, nothing) == [None]
    assert "ValueError: mine" in capfd.readouterr().err
