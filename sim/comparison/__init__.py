"""Two sets of runs beside each other: equal to the bit, or better, same, worse over seeds."""
