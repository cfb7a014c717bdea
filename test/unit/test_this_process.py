"""A process is not taken for one of its ancestors, whatever its number is."""

import os

from rcompiler.support import this_process as module
from rcompiler.support.this_process import PerProcess, this_process


def in_child(holds) -> bool:
    """Whether something holds in a forked child."""
    child = os.fork()
    if not child:
        status = 2
        try:
            status = 0 if holds() else 1
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def test_an_object_for_each_process():
    each = PerProcess(lambda: [os.getpid()])
    assert each.get() is each.get() and each.get() == [os.getpid()]


def test_a_descendant_with_the_number_of_an_ancestor_is_another_process(monkeypatch):
    number = os.getpid()
    monkeypatch.setattr(module, "getpid", lambda: number)  # as if the system gave it once more
    me, each = this_process(), PerProcess(object)
    mine = each.get()

    def is_another() -> bool:
        return this_process() != me and each.get() is not mine

    assert in_child(is_another)
    assert in_child(lambda: in_child(is_another))
    assert this_process() == me and each.get() is mine


def test_a_fork_that_python_is_not_told_of_is_another_process(monkeypatch):
    me, each = this_process(), PerProcess(object)
    mine = each.get()
    monkeypatch.setattr(module, "getpid", lambda: os.getppid())
    assert this_process() != me and each.get() is not mine
