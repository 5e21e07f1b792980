"""Clock, content, KV cache and what the other packages share: requests, ports, fields, errors."""
