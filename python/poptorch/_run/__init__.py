"""Compiled models: the object that users call, its programs, options, weights, optimizers and files."""
