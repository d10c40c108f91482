"""Models as the kernels read them."""
