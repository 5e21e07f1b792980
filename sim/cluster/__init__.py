"""One run: what a scenario describes on one clock, driven through its window."""
