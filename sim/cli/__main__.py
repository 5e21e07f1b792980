"""``python -m sim.cli``, for where the command ``podsim`` is not on the path."""

from sim.cli import main

main(prog_name="podsim")
