"""One HTML file that says what was asked, measured and run."""
