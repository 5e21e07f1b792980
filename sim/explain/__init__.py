"""Where the time to the first token of a request went, where its cache was, who sent it there."""
