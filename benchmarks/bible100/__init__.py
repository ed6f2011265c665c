"""108 real languages into English: configs, scripts and results."""
