"""GPUs, models and number formats: step times, memory and load times by roofline."""
