"""A run is a pure function of a scenario and a seed: build, run, check, summarise."""
