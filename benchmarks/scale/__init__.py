"""The road from text to batches by size, up to GShard's 25 billion pairs."""
