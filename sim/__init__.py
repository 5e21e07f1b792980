"""podsim: a discrete-event simulator of GPU inference clusters."""
