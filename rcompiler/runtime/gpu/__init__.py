"""Models on a GPU: what a driver must offer, the words that a kernel reads, the executable."""
