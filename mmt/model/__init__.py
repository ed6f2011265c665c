"""The model: T5 1.1 encoder-decoder layers, mixture-of-experts layers and the Transformer of both.

It knows arrays only: no data, no mesh, no training loop.
"""
