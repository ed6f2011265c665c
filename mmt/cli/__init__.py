"""The command line. Parsing only: every command calls one function elsewhere."""
