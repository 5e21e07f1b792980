"""Faults between clients, rules, pools and incidents, which whole runs must show."""

from tests.mutations.fault import Fault

CASES = "tests/cluster/test_pool_cases.py"
ANSWERS = "tests/cluster/test_pool_answers.py"
INSTANTS = "tests/cluster/test_pool_instants.py"
FAILURES = "tests/cluster/test_pool_failures.py"
SCRIPT = "tests/workload/test_script.py"

FAULTS = (
    Fault(
        "granted-for-ever",
        "sim/router/proxy.py",
        "if trip.activation is not None:",
        "if trip.activation is not None and trip.failed:",
        "a member whose requests have ended counts as busy",
        (f"{CASES}::test_c44_b_the_other_member_is_busy",),
    ),
    Fault(
        "broken-for-ever",
        "sim/router/proxy.py",
        "self._let_go(trip)  # whom the pool grants",
        "pass  # whom the pool grants",
        "a member whose requests have failed counts as busy",
        (f"{FAILURES}::test_a_member_whose_requests_have_failed_is_idle",),
    ),
    Fault(
        "fail-closed-first",
        "sim/router/answers.py",
        "if trip.error == PoolError.HOLD_BUDGET:",
        "if trip.error == PoolError.HOLD_BUDGET and not trip.route.fail_closed:",
        "a rule that fails closed hides that a pool was not ready in time",
        (f"{ANSWERS}::test_a_hold_that_ends",),
    ),
    Fault(
        "last-one-busy",
        "sim/router/answers.py",
        "if trip.all_busy and",
        "if trip.error == PoolError.INCUMBENT_BUSY and",
        "a busy pool hides that the backend before it is broken",
        (f"{ANSWERS}::test_a_busy_pool_and_a_broken_backend",),
    ),
    Fault(
        "unmended-for-all",
        "sim/router/answers.py",
        "if trip.error == PoolError.SWAP_DEADLINE and side.swap_deadline_status == MENDED:",
        "if trip.error == PoolError.SWAP_DEADLINE:",
        "an abandoned swap is answered as since the fix when the time before it is asked for",
        (f"{ANSWERS}::test_a_swap_deadline_before_and_after_the_fix",),
    ),
    Fault(
        "hasty-arrivals",
        "sim/workload/client.py",
        "if kernel.postponed(Order.ARRIVAL, again):",
        "if kernel.postponed(Order.WINDOW, again):",
        "a request overtakes the end of a step at its instant",
        (f"{INSTANTS}::test_the_last_request_ends_when_another_member_is_asked_for",),
    ),
    Fault(
        "hasty-clients",
        "sim/workload/client.py",
        "kernel.at_instant(kernel.now_s + waits_s, Order.CLIENT_TIMEOUT, leave)",
        "kernel.at(kernel.now_s + waits_s, Order.CLIENT_TIMEOUT, leave)",
        "a client leaves at the instant of its last token",
        (f"{INSTANTS}::test_a_client_leaves_when_its_answer_is_complete",),
    ),
    Fault(
        "hasty-faults",
        "sim/cluster/incidents.py",
        "self._kernel.at_instant(event.at, Order.FAULT",
        "self._kernel.at(event.at, Order.FAULT",
        "a fault breaks a response that is complete at its instant",
        (f"{INSTANTS}::test_a_pod_is_lost_when_its_last_request_ends",),
    ),
    Fault(
        "order-of-sums",
        "sim/workload/script_rows.py",
        "heads.sort(key=lambda head: instant(head[0]))",
        "heads.sort(key=lambda head: head[0])",
        "of two turns of one instant the one of the smaller float goes first",
        (f"{SCRIPT}::test_turns_of_one_instant_go_in_their_order_however_it_was_added_up",),
    ),
    Fault(
        "instants-as-floats",
        "sim/workload/script.py",
        "arrivals.append((instant(head.row.arrival), head.index, head))",
        "arrivals.append((head.row.arrival, head.index, head))",
        "of two rows of one instant the one of the smaller float goes first",
        (f"{INSTANTS}::test_idle_and_if_idle_at_one_instant_go_in_the_order_of_the_input",),
    ),
    Fault(
        "late-before-early",
        "sim/workload/agenda.py",
        "heapify(self._due)",
        "self._due.reverse()",
        "what is due is not handed out in order of time",
        (f"{SCRIPT}::test_rows_of_one_instant_go_in_their_order",),
    ),
    Fault(
        "looked-for-all-orders",
        "sim/core/kernel.py",
        "if self._looked == (self.now_s, order):",
        "if self._looked[0] == self.now_s:",
        "what one timer need not wait for no other one waits for",
        ("tests/test_kernel.py::test_each_order_looks_for_what_is_due_before_it",),
    ),
    Fault(
        "priorities-of-the-gone",
        "sim/pool/fair.py",
        '        """Priorities do."""\n        return True',
        '        """Priorities do."""\n        return super().heeds_others',
        "those whom one of a higher priority kept out are not looked at when it leaves",
        ("tests/pool/test_fair.py::test_others_are_served_when_one_of_a_higher_priority_leaves",),
    ),
)
