"""Files, locks and processes of the operating system."""
