"""What must add up in every run of the slow engine, however random."""

from hypothesis import given

from tests.engine.harness import trace_steps
from tests.engine.strategies import Scenario, many, scenarios


@many(100)
@given(scenarios())
def test_every_token_is_accounted_for(scenario: Scenario) -> None:
    """If not, steps and jobs of the slow engine tell different stories."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    prefilled = sum(step.prefill_tokens for step in trace.steps)
    assert prefilled == sum(job.computed_tokens + job.recomputed_tokens for job in trace.jobs)
    for job, call in zip(trace.jobs, scenario.traffic.calls, strict=True):
        assert job.cached_tokens % scenario.settings.block_size == 0
        assert job.cached_tokens + job.computed_tokens <= call.prompt_tokens
        assert job.emitted_tokens == len(job.token_s) <= call.output_tokens
        if job.status == "completed" and job.preemptions == 0:
            assert job.recomputed_tokens == 0
            assert job.cached_tokens + job.computed_tokens == call.prompt_tokens
        if job.status == "completed" and job.end_reason is None:
            assert job.emitted_tokens == call.output_tokens


@many(100)
@given(scenarios())
def test_steps_follow_one_another_and_keep_to_their_limits(scenario: Scenario) -> None:
    """If not, the slow engine is in two places at once, or works beyond its budget."""
    settings = scenario.settings
    trace = trace_steps(settings, scenario.traffic)
    ended_s = 0.0
    for step in trace.steps:
        assert ended_s <= step.start_s <= step.end_s
        ended_s = step.end_s
        assert 0 < step.prefill_tokens + step.decoding <= settings.max_num_batched_tokens
        assert step.published.running <= settings.max_num_seqs
        held = settings.kv_blocks - step.free_blocks
        assert step.published.kv_usage == held / settings.kv_blocks
        assert step.cached_blocks <= settings.kv_blocks


@many(100)
@given(scenarios())
def test_everybody_gets_an_end_in_order(scenario: Scenario) -> None:
    """If not, a request is lost, served before it came, or has a token after its client left."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    for job, call in zip(trace.jobs, scenario.traffic.calls, strict=True):
        assert job.status in ("completed", "rejected", "cancelled")
        times_s = [call.arrival_s - 1e-9, job.scheduled_s, *job.token_s, job.end_s]
        known_s = [time_s for time_s in times_s if time_s is not None]
        if job.status == "cancelled":
            assert job.end_s == call.cancel_s
            known_s.remove(job.end_s)
            assert all(time_s <= call.cancel_s for time_s in job.token_s)
        assert known_s == sorted(known_s)
