"""A pod: scheduler, KV cache, step time, bound to the clock."""
