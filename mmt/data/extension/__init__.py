"""The vocabulary and the cache of a model that gets new languages."""
