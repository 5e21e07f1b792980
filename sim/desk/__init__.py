"""Pools of desktop servers: llama-swap and Ollama, which start several models beside each other."""
