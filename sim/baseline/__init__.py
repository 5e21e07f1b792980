"""Results that are kept with the code, and whether today's code still gives them."""
