"""Many points of a scenario, on this machine or a cluster; and the one at which a target is met."""
