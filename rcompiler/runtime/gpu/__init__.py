"""Running a program on a GPU: what a driver must offer, the words a kernel reads, the executable."""
