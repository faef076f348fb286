"""Batches made in other processes, in shared memory."""
