"""The cost of `mmt watch`: reading, memory, updates of the page, and what a training notices."""
