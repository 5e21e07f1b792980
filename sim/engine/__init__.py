"""A pod: a scheduler of its kind of engine, KV cache, step time, bound to the clock."""
