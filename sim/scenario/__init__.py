"""What a scenario may say, how it is read, and what is derived from it."""
