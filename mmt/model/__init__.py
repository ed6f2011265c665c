"""The model: T5 1.1 encoder-decoder layers, mixture-of-experts layers and the Transformer of both.

It knows arrays only: no data, no mesh, no training loop.

Shapes in annotations use one alphabet throughout the project:

    B  batch: rows                     N  hypotheses (B * beams), or tokens of a batch (B * length)
    S  source length; keys             T  target length
    Q  queries                         D  embedding size
    H  heads                           K  size of a head
    V  vocabulary                      L  layers
    G  groups of tokens                E  experts
    C  capacity of an expert           k  choices of experts per token
    M  choices of a group, S * k       R  rows of a buffer
    F  hidden size of an MLP           P  prefix length
    W  candidates of a hypothesis      X  candidates of a row
    J  length of a history             U  phrases that a row must contain
    A  alternatives of a phrase        Z  tokens of an alternative
    Y  candidates with required tokens
"""
