"""Batches that a process of their own makes ahead of the time, in shared memory."""
