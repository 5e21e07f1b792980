"""What a deliberate fault is, and the parts of the suite that may catch one."""

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
LIVES = "tests/engine/test_lives.py"
IDLE = "tests/engine/test_idle.py"
PROCESSES = "tests/cluster/test_processes.py"


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
