"""Reading linalg: what ops, their maps and bodies say, in plain Python.

The passes and the writers of kernels both read here; nothing here changes or writes IR.
"""
