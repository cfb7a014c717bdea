"""What is tried of each operator: each type, attribute and optional input, in each version of its
definition, against which judge. `python test/operators` tries it and compares the record.
"""
