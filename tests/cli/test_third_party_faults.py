"""Packages that publish families which break the protocols: each is told as its own, at once."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.core.errors import Misuse, PackageError
from sim.router.signals import READ_ONLY
from sim.testing import PolicyContract
from tests.cli.conftest import Podsim

WAYWARD = """\
import random
from typing import Literal

import numpy as np
from pydantic import BaseModel

from sim.core.content import Node, Prompt
from sim.core.kernel import Order
from sim.engine.vllm import VllmPod
from sim.pool.scheduler import PoolScheduler
from sim.core.registry import family
from sim.core.request import Request
from sim.router.placement.load import LeastLoaded
from sim.router.placement.ties import least_loaded, ready_pods
from sim.router.views import Dispatched, Hold, Place, Reject, Tick
from sim.core.fields import Model, PositiveTokens


def base(kind, above=Model):
    body = {"__module__": __name__, "__annotations__": {"kind": Literal[kind]}, "kind": kind}
    spec = type("Spec", (above,), body)
    if kind == "minus":  # which workers are sent
        spec.__qualname__ = "MinusSpec"
        globals()["MinusSpec"] = spec
    return spec


def policy(kind, choose=lambda request, pods, now_s: Place(0, "placed"), without=(), **more):
    body = {
        "__module__": __name__,
        "__init__": lambda self, spec, context: None,
        "choose": lambda self, request, pods, now_s: choose(request, pods, now_s),
        "observe": lambda self, fact: None,
        "observes": frozenset({Dispatched}),
        "has_home": True,
        "tick_interval_s": None,
        **more,
    }
    for name in without:
        del body[name]
    globals()[kind] = family(base(kind.replace("_", "-")))(type("Wayward", (), body))


def answers(kind, answer, **more):
    policy(kind, lambda request, pods, now_s: answer(now_s), **more)


answers("minus", lambda now_s: Place(-1, "placed"))
answers("real", lambda now_s: Place(1.0, "placed"))
answers("boolean", lambda now_s: Place(True, "placed"))
answers("numpy", lambda now_s: Place(np.int64(1), "placed", None, np.int32(5)))
answers("stiky", lambda now_s: Place(0, "stiky"))
answers("bond", lambda now_s: Place(0, "spill", "bond"))
answers("cold", lambda now_s: Place(0, "spill", "cold"), reasons=frozenset({"cold"}))
answers("half", lambda now_s: Place(0, "placed", None, 1.5))
answers("now", lambda now_s: Hold(now_s))
answers("nan", lambda now_s: Hold(float("nan")))
answers("nano", lambda now_s: Hold(now_s + 1e-9))
answers("hour", lambda now_s: Hold(now_s + 3600.0))
answers("nothing", lambda now_s: None)
answers("fine", lambda now_s: Reject(200, "fine"))
answers("word", lambda now_s: Reject("429", "full"))


def fails(*_):
    return {}["home"]


def writes(request, pods, now_s):
    pods.in_flight[0] = 0


def replaces(request, pods, now_s):
    pods.in_flight = [0] * 8


policy("key_error", fails)
policy("in_init", __init__=lambda self, spec, context: fails())
policy("in_observe", observe=fails)
policy("helper", lambda request, pods, now_s: least_loaded(pods.in_flight, []))
policy("writes", writes)
policy("replaces", replaces)
policy("no_observe", without=["observe"])
policy("no_home", without=["has_home"])
policy("short")
short.choose = lambda self, request, pods: Place(0, "placed")
policy("ticks", tick_interval_s=0.0, observes=frozenset({Tick}))
def hashes(request, pods, now_s):
    among = ready_pods(pods.ready)
    return Place(among[hash(str(request.session_key)) % len(among)], "placed")


policy("hashes", hashes)
answers("reason", lambda now_s: Place(0, "sticky", "bound"))
policy("dice", lambda request, pods, now_s: Place(random.randrange(2), "placed"))


class PlainSpec(BaseModel):
    kind: Literal["plain"] = "plain"


class DefaultSpec(Model):
    kind: Literal["default"] = "default"
    penalty_tokens: PositiveTokens = -5


class TextSpec(Model):
    kind: Literal["text"] = "text"
    penalty_tokens: PositiveTokens = "10k"


class UnkindSpec(Model):
    penalty_tokens: PositiveTokens = 5


def bare(spec):
    return family(spec)(type("Wayward", (LeastLoaded,), {"__module__": __name__}))


plain, default = bare(PlainSpec), bare(DefaultSpec)
text, unkind = bare(TextSpec), bare(UnkindSpec)


class Undecorated:
    pass


undecorated = Undecorated


@family(base("uninitialised"))
class Uninitialised(LeastLoaded):
    def __init__(self, spec, context):
        pass


def workload(kind, begin, known=("finite", "agents_total"), **more):
    class Load:
        finite = True

        def __init__(self, spec, context):
            self.context = context

        def start(self):
            begin(self)

        def counts(self):
            return {}

        def send(self, prompt=100, answer=10, key=None):
            node = Node()
            self.context.proxy.submit(
                Request("s", "", 1, key, Prompt(node, prompt), node, answer, self.over)
            )

        def over(self, request):
            self.context.finished()

        def at(self, time_s):
            self.context.kernel.at(time_s, Order.ARRIVAL, self.send)

    spec = base(kind.replace("_", "-"))
    for name in known:
        setattr(spec, name, 0)
    for name, value in more.items():
        setattr(Load, name, value)
    globals()[kind] = family(spec)(Load)


workload("sends", lambda self: self.send(np.int64(100), np.int64(10), np.uint64(2**64 - 1)))
workload("sends_past", lambda self: self.at(-1.0))
workload("sends_nan", lambda self: self.at(float("nan")))
workload("sleeps_past", lambda self: self.context.kernel.sleep_until(-1.0, Order.ARRIVAL))
workload("minus_prompt", lambda self: self.send(prompt=-5))
workload("nan_answer", lambda self: self.send(answer=float("nan")))
workload("key_of_text", lambda self: self.send(key="alice"))
workload("unfinished", lambda self: self.send(), over=lambda self, request: None)
workload("no_agents", lambda self: self.send(), known=("finite",))
workload("starts_badly", fails)


def engine(kind, replica):
    spec = base(kind.replace("_", "-"), VllmPod.spec_type)
    body = {"__module__": __name__, "replica": staticmethod(replica)}
    globals()[kind] = family(spec)(type("Engine", (), body))


class Half:
    name = "half-0"

    def submit(self, attempt):
        pass


engine("half_pod", lambda name, spec, kernel: [Half()])
engine("one_pod", lambda name, spec, kernel: Half())
engine("engine_fails", fails)


class PoolSpec(PoolScheduler.spec_type):
    kind: Literal["half-pool"] = "half-pool"


@family(PoolSpec)
class HalfPool:
    def __init__(self, name, spec, context):
        pass

    def start(self):
        pass
"""
POLICIES = """
    minus real boolean numpy stiky bond cold half now nan nano hour nothing fine word key_error
    in_init in_observe helper writes replaces no_observe no_home short ticks dice hashes reason
    plain default text unkind gone undecorated
"""
WORKLOADS = """
    sends sends_past sends_nan sleeps_past minus_prompt nan_answer key_of_text unfinished no_agents
    starts_badly
"""
ENGINES = "half_pod one_pod engine_fails"

Run = Callable[..., tuple[int, str]]


def group(name: str, kinds: str) -> str:
    lines = (f"{kind.replace('_', '-')} = wayward:{kind}" for kind in kinds.split())
    return "\n".join((f"[podsim.{name}]", *lines, ""))


def published(site: Path, package: str, entry_points: str) -> None:
    """An installed package, as far as its metadata go."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages are installed; the package ``ways`` is, with every faulty family."""
    site = tmp_path / "site"
    policies = (
        f"{group('policies', POLICIES)}uninitialised = wayward:Uninitialised\ntorn = torn:Policy\n"
    )
    pools = "[podsim.pools]\nhalf-pool = wayward:HalfPool\n"
    groups = (policies, group("workloads", WORKLOADS), group("engines", ENGINES), pools)
    published(site, "ways", "\n".join(groups))
    (site / "wayward.py").write_text(WAYWARD)
    (site / "torn.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture
def run(podsim: Podsim, site: Path) -> Run:
    """Run the tiny scenario with settings and options; exit code and stderr."""

    def run(*settings: str, options: tuple[object, ...] = ("--jobs", 1)) -> tuple[int, str]:
        given = [part for setting in settings for part in ("--set", setting)]
        called = ("run", "tiny.yaml", "--no-store", "--seed", 7, "--variant", "least-loaded")
        result = podsim(*called, *options, *given)
        return result.exit_code, result.stderr.strip()

    return run


def policy(kind: str) -> str:
    return f"backends.pods.policy={{kind: {kind}}}"


def variant(kind: str) -> str:
    return f"variants.mine={{backends.pods.policy: {{kind: {kind}}}}}"


WHOLE = "pod must be a whole number from 0 to 1"


@pytest.mark.parametrize(
    ("kind", "answered"),
    [
        ("minus", f"Place(-1, 'placed'): {WHOLE}"),
        ("real", f"Place(1.0, 'placed'): {WHOLE}"),
        ("boolean", f"Place(True, 'placed'): {WHOLE}"),
        ("stiky", "outcome must be one of home, migrated, new, placed, spill, sticky, unkeyed"),
        ("bond", "waiting, or of those in a set `reasons` of its class"),
        ("half", "predicted_cached_tokens must be None or a whole number from 0"),
        ("now", "until_s must be later than now, 0.452248: it would be asked again for ever"),
        ("nan", "Hold(nan): until_s must be a number of seconds"),
        ("nothing", "None: must be a Place, a Hold or a Reject"),
        ("fine", "Reject(200, 'fine'): http_status must be that of an error, from 400 to 599"),
        ("word", "Reject('429', 'full'): http_status must be that of an error, from 400 to 599"),
    ],
)
def test_an_answer_that_cannot_be_meant_is_told_with_request_and_time(
    run: Run, kind: str, answered: str
) -> None:
    """Place(-1) was taken for the last pod, an unknown outcome for one of podsim's; a hold until
    now hung for ever, and the rest was told as a bug in podsim, with a traceback."""
    who = f"error: ways: policy '{kind}' (wayward.Wayward): seed 7, 0.452248 s, request 0"
    code, told = run(policy(kind))
    assert (code, told.startswith(f"{who}: answered ")) == (2, True)
    assert told.endswith(answered)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("nano", "the request has been held 100,000 times since 0.452248 s, as if for ever"),
        ("hour", "the request would be held for more than a day, since 3.06295 s"),
    ],
)
def test_a_request_that_is_held_for_ever_is_told(run: Run, kind: str, said: str) -> None:
    """The run hung without a word: one nanosecond at a time, or once an hour when all is over."""
    code, told = run(policy(kind))
    assert (code, told.rpartition("): ")[2]) == (2, said)
    assert told.startswith(f"error: ways: policy '{kind}' (wayward.Wayward): seed 7")


@pytest.mark.parametrize("kind", ["numpy", "cold"])
def test_integers_of_numpy_and_reasons_of_its_own_are_fine(run: Run, kind: str) -> None:
    """A policy that takes the argmin of an array would be refused, or had to lie about why."""
    assert run(policy(kind), options=("--jobs", 1, "--check")) == (0, "")


def test_a_pod_that_is_not_ready_is_not_chosen(run: Run) -> None:
    """What a policy forgot to look at went unseen until a pod was lost, as refused connections."""
    lost = "events=[{kind: pod-lost, at: 3s, for: 5s, backend: pods, replica: 1}]"
    code, told = run(policy("numpy"), lost)
    assert code == 2
    assert told.endswith("): pod 1 is not ready; only 0")


@pytest.mark.parametrize(
    ("kind", "failed"),
    [
        ("key_error", "request 0: KeyError: 'home' (wayward.py, in fails)"),
        ("in_init", "0 s: KeyError: 'home' (wayward.py, in fails)"),
        ("in_observe", "request 0: KeyError: 'home' (wayward.py, in fails)"),
        ("helper", "(ties.py, in least_loaded, called from wayward.py, in <lambda>)"),
        ("uninitialised", "object has no attribute '_break_tie' (load.py, in choose)"),
        ("writes", f"{READ_ONLY} (signals.py, in _refuse, called from wayward.py, in writes)"),
        ("replaces", "(signals.py, in __setattr__, called from wayward.py, in replaces)"),
    ],
)
def test_what_fails_in_a_policy_is_told_with_its_line(run: Run, kind: str, failed: str) -> None:
    """A KeyError of somebody else was a traceback that ended in "a bug in podsim; please report";
    loads that a policy set to 0 came to light in the tables, at the very end, or never."""
    code, told = run(policy(kind.replace("_", "-")))
    told = re.sub(r"[^ (]*/([a-z_]+\.py):\d+", r"\1", told)
    assert code == 2
    assert told.startswith(f"error: ways: policy '{kind.replace('_', '-')}' (wayward.")
    assert told.endswith(failed)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no-observe", "Wayward has no method observe(fact): see sim.router.views.Policy"),
        ("short", "Wayward cannot be called as choose(request, pods, now_s): see sim.router"),
        ("plain", "the spec PlainSpec of Wayward is no subclass of sim.core.fields.Model"),
        ("default", "DefaultSpec of Wayward: the default of penalty_tokens must be a whole number"),
        ("text", "TextSpec of Wayward: the default of penalty_tokens must be 10000, as it is"),
        ("unkind", "UnkindSpec of Wayward needs the field kind: Literal['unkind']"),
        ("torn", "cannot import torn:Policy: ModuleNotFoundError: No module named 'a_library_that"),
        ("gone", "cannot import wayward:gone: AttributeError: module 'wayward' has no attribute"),
        ("undecorated", "wayward:undecorated is not decorated with @sim.core.registry.family"),
    ],
)
def test_what_a_policy_lacks_is_missed_when_the_scenario_is_read(
    podsim: Podsim, site: Path, kind: str, said: str
) -> None:
    """A method that was not there failed in the middle of a run, a spec in podsim's own code."""
    result = podsim("validate", "tiny.yaml", "--set", variant(kind))
    where = f"error: ways: entry point '{kind}' in podsim.policies"
    assert result.exit_code == 2
    assert result.stderr.startswith(where) and said in result.stderr


def test_a_broken_family_stops_nobody_who_does_not_use_it(run: Run) -> None:
    """One broken package in the environment would make every run fail."""
    assert run(policy("least-loaded")) == (0, "")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no-home", "has no attribute has_home: see sim.router.views.Policy"),
        ("ticks", "tick_interval_s must be None or a number of seconds from 0.01; got 0.0"),
    ],
)
def test_what_a_policy_lacks_is_missed_before_the_first_request(
    run: Run, kind: str, said: str
) -> None:
    """`has_home` was missed when the whole run was over, ticks of no length hung for ever."""
    who = f"error: ways: policy '{kind}' (wayward.Wayward): seed 7, 0 s"
    assert run(policy(kind)) == (2, f"{who}: {said}")


def test_a_policy_that_is_not_deterministic_is_told_by_check(run: Run) -> None:
    """Nothing told that a run could not be repeated, until somebody tried."""
    code, told = run(policy("dice"), options=("--jobs", 1, "--check"))
    assert code == 2
    assert told.startswith("error: tiny least-loaded seed 7: a second run came to other results")
    assert told.endswith("hash() decide: ways: policy 'dice' (wayward.Wayward)")


def test_workers_tell_the_same(run: Run) -> None:
    """What a worker process met would come with its traceback."""
    options = ("--jobs", 2, "--variant", "mine")
    code, told = run(policy("minus"), "variants.mine={ringSalt: other}", options=options)
    assert code == 2
    assert told.count("\n") == 0
    assert told.startswith("error: ways: policy 'minus' (wayward.Wayward): seed ")


def test_a_spec_that_no_worker_can_be_sent_is_told(run: Run) -> None:
    """A spec that is made inside a function cannot be pickled: it came as a bug of podsim."""
    options = ("--jobs", 2, "--variant", "mine")
    code, told = run(policy("real"), "variants.mine={ringSalt: other}", options=options)
    assert code == 2
    assert told.startswith("error: a run cannot be sent to a worker process: Can't pickle")
    assert told.endswith("--jobs 1 makes it here")


def workload(kind: str) -> str:
    return f"workloads.traffic={{kind: {kind}}}"


IN_SEND = "(ingress.py, in _whole, called from wayward.py, in send)"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("sends-past", "the clock would go back: something is due at -1.0 s, and it is 0.0 s"),
        ("sends-nan", "the clock would go back: something is due at nan s, and it is 0.0 s"),
        ("sleeps-past", "(kernel.py, in sleep_until, called from wayward.py, in <lambda>)"),
        ("minus-prompt", f"a prompt must be a whole number from 1; got -5 {IN_SEND}"),
        ("nan-answer", f"a request must be a whole number from 1; got nan {IN_SEND}"),
        ("key-of-text", f"from 0 to 18446744073709551615; got 'alice' {IN_SEND}"),
        ("unfinished", "traffic has not called finished, and 0 requests are not answered"),
        ("starts-badly", "seed 7, 0 s: KeyError: 'home' (wayward.py, in fails)"),
    ],
)
def test_a_workload_that_cannot_be_meant_is_told(run: Run, kind: str, said: str) -> None:
    """A time in the past was "a bug in podsim: the clock would go back", one that is no number put
    all events out of order, and tokens below zero were served."""
    code, told = run(workload(kind))
    told = re.sub(r"[^ (]*/([a-z_]+\.py):\d+", r"\1", told)
    assert code == 2
    assert told.startswith(f"error: ways: workload '{kind}' (wayward.workload.<locals>.Load): seed")
    assert told.endswith(said)


def test_a_workload_may_count_in_integers_of_numpy(run: Run) -> None:
    """Whoever draws lengths in bulk would have to convert each of them."""
    assert run(workload("sends"), options=("--jobs", 1, "--check")) == (0, "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (workload("no-agents"), "the spec Spec of Load has no agents_total, which that of a"),
        ("engines.small.kind=half-pod", "a pod of its replica has no idle, cancel, given_tokens"),
        ("engines.small.kind=one-pod", "replica must return a list of pods; got <wayward.Half"),
        ("engines.small.kind=engine-fails", "seed 7, 0 s: KeyError: 'home' (wayward.py, in fails)"),
        (
            "pools.desk={kind: half-pool, members: {pods: {load: 1s}}}",
            "HalfPool has no method join(activation): see sim.core.ports.PoolPort",
        ),
    ],
)
def test_what_engines_workloads_and_pools_lack_is_missed_at_once(
    run: Run, settings: str, said: str
) -> None:
    """A pod without a method would fail when it is called first, `agents_total` after the run."""
    code, told = run(settings)
    assert code == 2
    assert said in re.sub(r"[^ (]*/([a-z_]+\.py):\d+", r"\1", told)


def test_two_packages_with_one_name_are_told(
    podsim: Podsim, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them was used depended on the order in which a machine lists its packages."""
    published(site, "rival", "[podsim.policies]\nminus = elsewhere:Policy\n")
    result = podsim("validate", "tiny.yaml", "--set", variant("minus"))
    where = "entry point 'minus' in podsim.policies"
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: rival: {where}: ways has one of the same name; rename one of them\n",
    )


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        ("minus", "it_places"),
        ("dice", "the_same_seed_and_sequence_give_the_same_decisions"),
        ("hashes", "another_process_gives_the_same_decisions"),
        ("writes", "the_view_is_only_read"),
        ("no-home", "it_can_be_built_and_declares_what_it_wants"),
        ("reason", "outcomes_away_from_home_have_a_reason_and_no_others"),
        ("cold", "a_single_pod_takes_everything_and_nothing_moves"),
        ("cold", "a_request_without_a_session_has_no_home"),
        ("numpy", "a_run_survives_a_lost_pod_and_a_restart"),
        ("numpy", "pods_come_and_go"),
        ("text", "its_spec_documents_itself_and_its_defaults_are_legal"),
    ],
)
def test_the_contract_finds_it(site: Path, kind: str, test: str) -> None:
    """The tests that other packages run over their policies would find nothing."""
    contract = PolicyContract()
    contract.kind = "least-loaded"
    getattr(contract, f"test_{test}")()
    contract.kind = kind
    with pytest.raises((AssertionError, Misuse, PackageError, TypeError)):
        getattr(contract, f"test_{test}")()


def test_the_contract_tells_hashes_from_dice(site: Path) -> None:
    """What differs between processes only would pass, or be taken for a random draw."""
    contract = PolicyContract()
    contract.kind = "hashes"
    contract.test_the_same_seed_and_sequence_give_the_same_decisions()
