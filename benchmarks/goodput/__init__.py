"""The simulator of failures against formulas and against killed runs."""
