"""llama.cpp's server: slots with a context each, a prompt cache in host memory."""
