"""Recording what a module does into a graph: tensors without data, views, control flow, gradients, blocks."""
