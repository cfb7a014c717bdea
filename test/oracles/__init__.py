"""What must never be wrong, held against slow and simple judges of random schedules.

Each module whose name begins with a letter is a command of `python test/oracles`.
"""
