"""A run's requests as a trace: replayed, they give its tables, or nothing is written."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import sim
import sim.export.trace
from sim.core.errors import UserError
from sim.core.request import think_between_s
from sim.execution.runner import run_one
from sim.export.trace import export_trace
from sim.results.result import RunResult
from sim.results.stored import StoredRun
from sim.scenario.load import load, load_text
from sim.workload.files import unpacked
from tests.export.runs import SCENARIOS, kept, small, stored

SHIPPED = [
    (
        "quickstart.yaml",
        ["window.warmup=10s", "window.measure=50s", "workloads.coding.agents=8"],
        [],
    ),
    (
        "b200-agents.yaml",
        [
            *("window.warmup=10s", "window.measure=50s", "workloads.coding.agents=6"),
            "backends.qwen.replicas=2",
        ],
        ["session-table", "ring-prompt-tail"],
    ),
    ("llamacpp-desk.yaml", ["window.warmup=10s", "window.measure=110s"], ["slots", "unified"]),
    ("pools/ping-pong.yaml", ["window.measure=40m"], ["wait", "if-idle"]),
    ("pools/assistant-and-coder.yaml", ["window.measure=4m"], ["if-idle"]),
    ("pools/llama-swap.yaml", ["window.measure=4m"], ["ollama", "llama-swap-groups"]),
    ("theory/single-server.yaml", ["workloads.customers.count=300"], ["mm1", "md1"]),
    ("theory/prefix-cache.yaml", ["window.warmup=100ms", "window.measure=200ms"], ["small"]),
    ("theory/machine-repair.yaml", ["window.warmup=20s", "window.measure=60s"], []),
]


def replayed(run: StoredRun, place: Path, arrivals: Any = "closed-loop") -> RunResult:
    """Export the requests of a run and run the scenario that came with them."""
    written = export_trace(run, place / "day.jsonl", arrivals)
    scenarios = load(written.scenario)
    (seed,) = scenarios.seeds
    return run_one(scenarios.variants[0], seed, scenarios.directory)


@pytest.mark.parametrize("arrivals", ["closed-loop", "fixed"])
@pytest.mark.parametrize(("file", "changes", "variants"), SHIPPED, ids=[one[0] for one in SHIPPED])
def test_shipped_scenarios_replay_to_the_same_tables(file, changes, variants, arrivals, tmp_path):
    """A replayed run would have other first tokens, hits or swaps than the one it came from."""
    for run in stored(file, tmp_path, changes, variants=variants):
        before, again = run.read(), replayed(run, tmp_path, arrivals)
        assert before.tables.requests.num_rows > 10
        assert again.digest == before.digest
        assert again.summary == before.summary


@pytest.mark.parametrize("keys", ["own-key", "parent-key", "skip"])
def test_recorded_sessions_and_their_sub_agents_replay(keys, tmp_path):
    """A session would not wait for its sub-agents, or they for the turn that starts them."""
    sessions = unpacked(SCENARIOS / "traces/weka_v8_sessions_rle.jsonl.gz").splitlines()
    helped = [line for line in sessions if "subagent" in line][:3]
    (tmp_path / "weka_v8_sessions_rle.jsonl.gz").write_text("\n".join(helped))
    settings = [
        *("window.warmup=10s", "window.measure=600s", "workloads.coding.agents=4"),
        f"workloads.coding.subAgents={keys}",
        *("backends.qwen.replicas=1", "workloads.coding.cap=5s"),
    ]
    source = (SCENARIOS / "traces/claude-code.yaml").read_text("utf-8")
    scenarios = load_text(source, "s.yaml", settings, tmp_path, variants=["session-table"])
    (run,) = kept(scenarios, tmp_path)
    before = run.read()
    threads = {name.count("/") for name in before.requests["session_id"]}
    assert threads == ({2} if keys == "skip" else {2, 3})
    for arrivals in ("closed-loop", "fixed"):
        again = replayed(run, tmp_path, arrivals)
        assert again.digest == before.digest
        assert again.summary == before.summary


def _c71() -> dict[str, Any]:
    rows = [
        {
            "session": f"s{session}",
            "promptTokens": 800 + 700 * turn,
            "outputTokens": 40,
            "sharedPrefix": f"group-{session % 2}",
            "sharedTokens": 600,
            **({"think": 3} if turn else {"arrival": session / 2}),
        }
        for session in range(5)
        for turn in range(4)
    ]
    policy = {"kind": "session-table"}
    backends = {"pods": {"engine": "e", "replicas": 2, "policy": policy}}
    return small(backends=backends, workloads={"w": {"kind": "script", "rows": rows}})


def test_case_71_same_requests_first_tokens_and_hits(tmp_path):
    """A trace without prefix identity has no hits, one with a short horizon loses requests."""
    (run,) = stored(_c71(), tmp_path)
    before, again = run.read(), replayed(run, tmp_path)
    assert again.summary["requests_completed"] == before.summary["requests_completed"] == 20
    assert again.requests["first_token_s"].tolist() == before.requests["first_token_s"].tolist()
    hits = again.summary["prompt_cache_hit_ratio"]
    assert hits == before.summary["prompt_cache_hit_ratio"] > 0.5
    head, *lines = map(json.loads, (tmp_path / "day.jsonl").read_text().splitlines())
    assert head["arrivals"] == "closed-loop"
    assert head["digest"] == before.digest
    waits = [line for line in lines if "think_s" in line]
    assert [line["think_s"] for line in waits] == pytest.approx([3.0] * 15)
    shown = (tmp_path / "day.jsonl.yaml").read_text()
    assert "Arrivals are closed-loop: requests that waited" in " ".join(shown.split("\n# "))


def _steps(per_token_ms: float) -> dict[str, Any]:
    """Answers of two tokens take two steps."""
    return {"engines": {"e": {"kvBlocks": 2000, "stepTime": {"a": per_token_ms}}}}


@pytest.mark.parametrize(
    ("arrivals", "expected"), [("closed-loop", [0.0, 15.0, 30.0]), ("fixed", [0.0, 7.0, 14.0])]
)
def test_case_63_on_a_slower_cluster(arrivals, expected, tmp_path):
    """Replayed timestamps would send a turn before the answer that it continues is there."""
    rows = [
        {"session": "a", "promptTokens": 16, "outputTokens": 2, "arrival": 0},
        {"session": "a", "promptTokens": 32, "outputTokens": 2, "think": 5},
        {"session": "a", "promptTokens": 48, "outputTokens": 2, "think": 5},
    ]
    scenario = small(workloads={"w": {"kind": "script", "rows": rows}}, **_steps(1000))
    (run,) = stored(scenario, tmp_path)
    assert run.read().requests["arrival_s"].tolist() == [0.0, 7.0, 14.0]
    written = export_trace(run, tmp_path / "day.jsonl", arrivals)
    slower = load(written.scenario, ["engines.e.stepTime.a=5000"])
    again = run_one(slower.variants[0], 1, slower.directory)
    assert again.requests["arrival_s"].tolist() == expected


CLIENTS = {
    "priority": 2,
    "headers": {"x-team": "a"},
    "clientTimeout": 0.5,
    "retry": {"max": 2, "on": [502, 503], "onConnectionError": True, "backoff": {"jitter": 1}},
    "fallbackModels": ["spare"],
}


def test_clients_that_try_again_and_faults_are_carried(tmp_path):
    """Retries, timeouts, priorities and incidents would be lost, and nobody would say so."""
    scenario = small(
        backends={
            "pods": {"engine": "e", "replicas": 2, "policy": {"kind": "session-table"}},
            "spare": {"engine": "e", "policy": {"kind": "least-loaded"}},
        },
        router={
            "rules": [
                {"name": "spare", "match": {"models": ["spare"]}, "backends": ["spare"]},
                {"name": "all", "backends": ["pods"]},
            ]
        },
        workloads={
            "chat": {**_agents(agents=6, sessionsPerAgent=9), **CLIENTS},
            "beside": {
                **{"kind": "requests", "arrivals": {"kind": "constant", "rate": 4}, "count": 20},
                **{"promptTokens": 100, "outputTokens": 20, "direct": "spare"},
            },
            "same-time": {
                **{"kind": "requests", "arrivals": {"kind": "constant", "rate": 8}, "count": 40},
                **{"promptTokens": 900, "outputTokens": 20, "sessionKeys": "per-request"},
            },
        },
        events=[
            {"kind": "pod-lost", "backend": "pods", "at": 1, "for": 2},
            {"kind": "backend-errors", "backend": "pods", "at": 4, "for": 1},
            {"kind": "proxy-restart", "at": 6},
        ],
        variants={"it": {}},
        ringSalt="fixed",
    )
    (run,) = stored(scenario, tmp_path, seeds=(5,))
    before = run.read()
    assert before.tables.retries.num_rows > 5
    assert {"failed", "rejected"} & set(before.requests["status"])
    assert set(before.placements["proxy"]) == {"proxy-0", "direct"}
    assert replayed(run, tmp_path).digest == before.digest
    assert replayed(run, tmp_path, "fixed").digest == before.digest


def test_the_context_that_a_model_is_to_be_loaded_with_is_carried(tmp_path):
    """Ollama would load a model again in a run and not in its repetition."""
    rows = [
        {"arrival": 10 * index, "promptTokens": 48, "outputTokens": 2, **asked}
        for index, asked in enumerate([{}, {"numCtx": 2048}, {"numCtx": 4096}, {}])
    ]
    member = {"load": 1, "memory": "5GB", "numCtx": 4096}
    scenario = small(
        backends={"pods": {"engine": "e"}},
        pools={"p": {"kind": "ollama", "memory": "8GB", "members": {"pods": member}}},
        workloads={"w": {"kind": "script", "rows": rows, "numCtx": 2048}},
    )
    (run,) = stored(scenario, tmp_path)
    before = run.read()
    assert before.requests["hold_s"].tolist() == [1.0, 0.0, 1.0, 1.0]
    assert replayed(run, tmp_path).digest == before.digest


def _agents(**keys: Any) -> dict[str, Any]:
    return {
        **{"kind": "agents", "agents": 3, "ramp": 1, "turns": 3, "freshShare": 1},
        **{"freshPrompt": {"lognormal": {"median": 900, "sigma": 0.5}}, "growth": 300},
        **{"sharedPrefix": {"tokens": 400, "families": 2, "zipf": 1}, "output": 30},
        **{"think": {"exponential": {"mean": 0.4}}, "maxContext": 1500, "earlyEditShare": 0.3},
        **keys,
    }


rates = st.sampled_from([2, 4, 10])
clients = st.fixed_dictionaries(
    {},
    optional={
        "clientTimeout": st.sampled_from([0.05, 0.25]),
        "patience": st.sampled_from([0.1, 0.5]),
        "retry": st.just({"on": [502, 503], "onConnectionError": True, "max": 1}),
        "priority": st.integers(-2, 2),
    },
)
agents = st.builds(
    lambda clients, **keys: _agents(**keys, **clients),
    clients,
    agents=st.integers(1, 4),
    sessionsPerAgent=st.integers(1, 3),
    ramp=st.sampled_from([0, 0.5]),
    think=st.sampled_from([0, 0.5, {"exponential": {"mean": 0.2}}]),
    reuseOutput=st.booleans(),
    atContextLimit=st.sampled_from(["end", "compact"]),
)
open_loop = st.builds(
    lambda rate, keys, clients: {
        **{"kind": "requests", "arrivals": {"kind": "constant", "rate": rate}, "count": 8},
        **{"promptTokens": 200, "outputTokens": 10, "sessionKeys": keys, **clients},
    },
    rates,
    st.sampled_from(["none", "per-request"]),
    clients,
)
ticks = st.integers(0, 16).map(lambda eighths: eighths / 8)
row = st.fixed_dictionaries(
    {"promptTokens": st.integers(1, 1500), "outputTokens": st.integers(1, 30)},
    optional={"cancel": st.sampled_from([0.02, 0.125, 1.0]), "priority": st.integers(-3, 3)},
)
sessions = st.lists(
    st.tuples(st.lists(st.tuples(row, ticks), min_size=1, max_size=3), ticks),
    min_size=1,
    max_size=3,
)


def _script(sessions: list[Any], clients: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for name, (turns, arrival) in zip("abc", sessions):
        for number, (turn, think) in enumerate(turns):
            sent = {"think": think} if number else {"arrival": arrival}
            rows.append({**turn, **sent, "session": name})
    return {"kind": "script", "rows": rows, **clients}


scripts = st.builds(_script, sessions, clients)
events = st.lists(
    st.fixed_dictionaries(
        {"kind": st.just("pod-lost"), "backend": st.just("pods"), "at": ticks, "for": st.just(0.5)}
    )
    | st.fixed_dictionaries({"kind": st.just("proxy-restart"), "at": ticks}),
    max_size=2,
)


@settings(max_examples=30, deadline=None, phases=[Phase.generate])
@given(
    st.lists(agents | open_loop | scripts, min_size=1, max_size=3),
    st.sampled_from(["session-table", "bounded-ring", "power-of-two"]),
    events,
    st.sampled_from([None, 0.75, 2.0]),
    st.booleans(),
    st.sampled_from(["closed-loop", "fixed"]),
)
def test_random_scenarios_replay_to_the_same_tables(
    tmp_path_factory, workloads, policy, incidents, measure, drain, arrivals
):
    """INV-15 would not hold for some mixture of clients, policies, faults and ends."""
    window = {"warmup": 0.25} | ({"measure": measure, "drain": drain} if measure else {})
    scenario = small(
        window=window,
        backends={"pods": {"engine": "e", "replicas": 2, "policy": {"kind": policy}}},
        workloads=dict(zip(("one", "two", "three"), workloads)),
        events=incidents,
    )
    place = tmp_path_factory.mktemp("random")
    (run,) = stored(scenario, place)
    requests = run.read().requests
    if not len(requests):
        return
    try:
        assert replayed(run, place, arrivals).digest == run.digest
    except UserError as refusal:
        at_once = requests.groupby("arrival_s")["workload"].nunique().max()
        assert arrivals == "fixed" and at_once > 1
        assert "requests of several workloads arrive at one instant" in str(refusal)
        assert not list(place.glob("day*"))


def test_a_replay_can_be_exported_in_its_turn(tmp_path):
    """The second trace would have lost who waited for whom."""
    (run,) = stored("quickstart.yaml", tmp_path, SHIPPED[0][1], variants=["session-table"])
    first = export_trace(run, tmp_path / "first.jsonl")
    again = load(first.scenario)
    sim.run(first.scenario, store=tmp_path / "again")
    (second,) = sim.results.stored.stored_runs(tmp_path / "again")
    noted = {"file": "first.jsonl.yaml", "directory": str(tmp_path)}
    second = replace(second, manifest={**second.manifest, "provenance": noted})
    export_trace(second, tmp_path / "second.jsonl")
    lines = [(tmp_path / f"{name}.jsonl").read_text().splitlines() for name in ("first", "second")]
    assert lines[0][1:] == lines[1][1:]
    assert again.variants[0].workloads["coding"].agents == 8


def test_gzipped_traces_are_the_same_bytes_every_time(tmp_path):
    """The time of day would make every export another file."""
    (run,) = stored(_c71(), tmp_path)
    texts = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "day.jsonl.gz"
        export_trace(run, path)
        texts.append((path.read_bytes(), Path(f"{path}.yaml").read_bytes()))
    assert texts[0] == texts[1]
    assert unpacked(path).startswith('{"podsim_trace": 1')


@given(st.floats(0, 1e7), st.integers(0, 10**12) | st.floats(0, 1e6))
def test_a_think_time_leads_to_the_arrival_to_the_bit(end_s, added):
    """A replayed turn would come one unit in the last place beside its own.

    Think times are drawn in whole microseconds, and written as they were drawn.
    """
    added_s = added / 1e6 if isinstance(added, int) else added
    arrival_s = end_s + added_s
    think_s = think_between_s(end_s, arrival_s)
    assert think_s is not None
    assert end_s + think_s == arrival_s
    assert think_s == round(think_s, 6) or isinstance(added, float)


def test_an_arrival_that_no_think_time_leads_to_has_none():
    """Sums of floats skip some arrivals; a turn would come beside the instant it came at."""
    assert think_between_s(1.325032360618934, 2097154.15742901) is None


# -- refusals ----------------------------------------------------------------------------------


def _refused(run: StoredRun, place: Path, words: str) -> None:
    with pytest.raises(UserError, match=words):
        export_trace(run, place / "day.jsonl")
    assert not list(place.glob("*day*"))


def test_a_run_whose_files_have_changed_is_exported_as_it_was(tmp_path):
    """The trace would be of today's file, and called after the run of yesterday's."""
    script = "session,arrival_s,promptTokens,outputTokens\na,0,100,4\n"
    (tmp_path / "rows.csv").write_text(script)
    scenario = small(workloads={"w": {"kind": "script", "file": "rows.csv"}})
    (run,) = stored(scenario, tmp_path)
    (tmp_path / "rows.csv").write_text(script + "b,1,100,4\n")
    assert replayed(run, tmp_path).digest == run.digest
    for file in tmp_path.glob("day*"):
        file.unlink()
    (tmp_path / "rows.csv").unlink()
    _refused(run, tmp_path, r"cannot be simulated again, as a trace needs:\n.*rows\.csv' cannot")


def test_a_run_that_does_not_say_who_waited_is_refused(tmp_path):
    """Runs of older versions would end in a traceback, or lose their think times."""
    (run,) = stored(_c71(), tmp_path)
    (run.path / "sent.parquet").unlink()
    _refused(
        run, tmp_path, "does not say what its requests have waited for.*run the scenario again"
    )


def test_a_run_without_requests_is_refused(tmp_path):
    """An empty trace could not be replayed."""
    rows = [{"arrival": 5, "promptTokens": 1, "outputTokens": 1}]
    scenario = small(window={"measure": 1}, workloads={"w": {"kind": "script", "rows": rows}})
    (run,) = stored(scenario, tmp_path)
    _refused(run, tmp_path, "no request was sent")


def test_requests_that_a_trace_cannot_say_are_refused(tmp_path, monkeypatch):
    """A workload of another package would be replayed without what is its own."""
    (run,) = stored(_c71(), tmp_path)
    true = sim.export.trace.recipe(run.manifest)
    for spec, words in (
        (true.scenario.workloads["w"].model_copy(update={"headers": {"x-chat": "9"}}), "request 0"),
        (true.scenario.window, "workload 'w' of kind unknown has clients of its own"),
    ):
        odd = true.scenario.model_copy(update={"workloads": {"w": spec}})
        made = replace(true, scenario=odd)
        monkeypatch.setattr(sim.export.trace, "recipe", lambda _, made=made: made)
        _refused(run, tmp_path, words)


@pytest.mark.parametrize("podsim", [None, "0.0.1"])
def test_a_trace_that_would_replay_to_other_tables_is_refused(podsim, tmp_path, monkeypatch):
    """Half a trace would be taken for the whole."""
    (run,) = stored(_c71(), tmp_path)
    if podsim:
        run = replace(run, manifest={**run.manifest, "podsim": podsim})
    true = sim.export.trace._sent

    def later(run: StoredRun, result: RunResult) -> Any:
        rows, texts = true(run, result)
        rows[4]["arrival_s"] += 0.001
        return rows, texts

    monkeypatch.setattr(sim.export.trace, "_sent", later)
    version = r"another version of podsim \(0\.0\.1\)" if podsim else ""
    words = r"its trace would not give the tables of the run: requests, row 4, arrival_s: 2\.0 "
    _refused(run, tmp_path, f"{words}in the run.*{version}.*Nothing was written")


def test_what_cannot_be_written_is_refused_first(tmp_path, monkeypatch):
    """Half an hour of simulation would end at a folder that does not exist."""
    (run,) = stored(_c71(), tmp_path)
    monkeypatch.setattr(sim.export.trace, "run_one", lambda *_: pytest.fail("was simulated"))
    with pytest.raises(UserError, match=r"cannot write the trace to .*No such file"):
        export_trace(run, tmp_path / "no" / "day.jsonl")
    (tmp_path / "day.jsonl.yaml").mkdir()
    with pytest.raises(UserError, match=r"day\.jsonl\.yaml: it is not a file"):
        export_trace(run, tmp_path / "day.jsonl")
