"""The cost of data by number of pairs, up to GShard's 25 billion pairs."""
