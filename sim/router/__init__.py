"""The router: a proxy, what it knows of its pods, and the policies that place requests."""
