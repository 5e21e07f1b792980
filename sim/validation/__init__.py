"""podsim beside what is known without it: theory, pathwise and in the mean."""
