"""Running on GPUs: what a device must offer, whatever is behind it.

`driver.py` says what the runtime asks of a GPU: memory, modules, launches. A real device and the
emulated one (rcompiler/emulator) answer the same questions, so that a program that runs on one
runs on the other.
"""
