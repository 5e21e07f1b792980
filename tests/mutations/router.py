"""Faults in rules, deadlines, quarantine and budgets, and in clients that try again."""

from tests.mutations.fault import Fault

ROUTES = "tests/router/test_routes.py"
ANSWERS = "tests/router/test_answers.py"
FALL_THROUGH = "tests/router/test_fall_through.py"
ROUTER_LIVES = "tests/router/test_lives.py"
HOLDS = "tests/router/test_holds.py"
BUDGETS = "tests/router/test_budgets.py"
CLIENTS = "tests/workload/test_clients.py"

FAULTS = (
    Fault(
        "one-capability",
        "sim/scenario/matching.py",
        "any(wanted <= set(backends[name].capabilities)",
        "all(wanted <= set(backends[name].capabilities)",
        "a rule needs the capabilities of all its backends",
        (f"{ROUTES}::test_one_backend_with_the_capabilities_is_enough",),
    ),
    Fault(
        "remembered-model",
        "sim/router/routes.py",
        "key = request.model, request.headers",
        "key = request.model, ()",
        "requests for one model take one rule, whatever their headers",
        (f"{ROUTES}::test_equal_models_with_other_headers_are_told_apart",),
    ),
    Fault(
        "any-busy",
        "sim/router/trip.py",
        "self.all_busy = self.all_busy and error",
        "self.all_busy = error",
        "an outage before a busy pool is forgotten",
        (f"{ANSWERS}::test_a_busy_pool_is_named_only_if_all_backends_were_busy",),
    ),
    Fault(
        "deadline-goes-on",
        "sim/router/deadlines.py",
        "due_s = attempt.dispatch_s + timeout_s",
        "due_s = attempt.request.sent_s + timeout_s",
        "what the first backend has used up is missing for the second",
        (f"{FALL_THROUGH}::test_each_backend_has_a_deadline_of_its_own",),
    ),
    Fault(
        "late-token",
        "sim/router/deadlines.py",
        "self._kernel.at_instant(due_s",
        "self._kernel.at(due_s",
        "a first token at the deadline is late if its time is a sum of floats",
        (f"{FALL_THROUGH}::test_a_first_token_at_the_very_deadline_is_in_time",),
    ),
    Fault(
        "second-answer",
        "sim/router/proxy.py",
        "if attempt.first_token_s is not None:",
        "if attempt.first_token_s is None and forgotten:",
        "a client that has seen tokens gets another answer behind them",
        (f"{FALL_THROUGH}::test_a_broken_connection_leads_on_only_before_the_first_token",),
    ),
    Fault(
        "timeouts-quarantined",
        "sim/router/proxy.py",
        "if attempt.end_reason != Reason.TIMEOUT:",
        "if attempt.end_reason != Reason.LENGTH:",
        "a busy pod is avoided like a broken one",
        (f"{FALL_THROUGH}::test_a_timeout_is_no_reason_for_quarantine",),
    ),
    Fault(
        "nobody-sound",
        "sim/router/availability.py",
        "sound if any(sound) else self._up",
        "sound",
        "a quarantine of all pods is an outage",
        (f"{FALL_THROUGH}::test_when_all_are_in_quarantine_it_does_not_count",),
    ),
    Fault(
        "negative-count",
        "sim/router/proxy.py",
        "if trip.epoch == self._epoch:\n            trip.upstream.ended(attempt)",
        "if True:\n            trip.upstream.ended(attempt)",
        "what a restart has made uncounted is subtracted when it ends",
        (f"{ROUTER_LIVES}::test_c12_counts_of_a_restarted_proxy_never_go_below_zero",),
    ),
    Fault(
        "same-draws",
        "sim/cluster/wiring.py",
        'proxy=f"{PROXY_NAME}/{life}" if life else PROXY_NAME,',
        "proxy=PROXY_NAME,",
        "after a restart every tie is broken as it was before",
        (f"{ROUTER_LIVES}::test_c12_a_restart_places_each_live_session_anew_once",),
    ),
    Fault(
        "lost-hold",
        "sim/router/trip.py",
        "        if attempt is None:\n            self.held_until(now_s)",
        "        if attempt is not None:\n            self.held_until(now_s)",
        "a wait for a backend that does not serve in the end is not counted",
        (f"{HOLDS}::test_a_pod_that_dies_while_a_request_is_held_leads_to_the_next_backend",),
    ),
    Fault(
        "prepaid",
        "sim/router/proxy.py",
        "if status == Status.COMPLETED and trip.epoch == self._epoch:",
        "if trip.epoch == self._epoch:",
        "prompts of answers that broke off are charged",
        (f"{BUDGETS}::test_what_breaks_off_or_is_refused_is_not_charged",),
    ),
    Fault(
        "old-timer",
        "sim/workload/errand.py",
        "and request.tries == number and not self._waits:",
        "and not self._waits:",
        "the timeout of a try ends the next one",
        (f"{CLIENTS}::test_the_timeout_of_a_try_does_not_end_the_next_one",),
    ),
    Fault(
        "stale-view",
        "sim/core/request.py",
        "            self._view = None\n        self.status",
        "            self._view = self._view\n        self.status",
        "a policy sees the model of the try before",
        (f"{CLIENTS}::test_after_a_timeout_the_next_model_is_asked",),
    ),
    Fault(
        "unheard-leave",
        "sim/router/door.py",
        "if request.end_s is None:\n            client_closed",
        "if request.end_s is not None:\n            client_closed",
        "who leaves between two tries is never over",
        (f"{CLIENTS}::test_a_user_who_leaves_between_two_tries_ends_there",),
    ),
)
