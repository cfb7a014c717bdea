"""Astra on a real device: what may be chosen, and which of it serves.

space      the enumerator: a tree of legal choices of one model, without any time (Astra §4.2)
segments   which rOperators have a time of their own, and what it was in a launch
branch     from the choices of a plan to the artifact that has them
launches   plans that are loaded and launched in turn, and their results compared
warmup     the custom-wirer before traffic: plans on random inputs, within a budget
online     the custom-wirer in traffic: plans that differ in placement only
"""
