"""mix150 on a GPU machine without network, in pieces of ten minutes."""
