"""Results in other programs' formats: Prometheus text, CSV, a trace that replays."""
