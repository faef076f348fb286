"""The version of PopTorch whose interface this is."""

__version__ = "3.4.0"
