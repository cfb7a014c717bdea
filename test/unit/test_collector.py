"""collector.py: the threshold is higher while somebody compiles, and then what it was."""

import gc

import pytest

import rcompiler
from rcompiler.driver.collector import Collector
from rcompiler.tools import models


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 11, 12)
    yield
    gc.set_threshold(*before)


def test_the_last_user_restores_the_threshold():
    collector = Collector()
    with collector.seldom():
        assert gc.get_threshold() == (50_000, 11, 1000)
        with collector.seldom():
            pass
        assert gc.get_threshold() == (50_000, 11, 1000)
    assert gc.get_threshold() == (700, 11, 12)


def test_users_may_leave_in_any_order():
    collector = Collector()
    first, second = collector.seldom(), collector.seldom()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (50_000, 11, 1000)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 11, 12)


def test_an_error_restores_it_too():
    with pytest.raises(ValueError), Collector().seldom():
        raise ValueError
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("young", [0, 50_000])
def test_a_collector_that_is_off_or_lazier_stays_so(young):
    gc.set_threshold(young, 11, 12)
    with Collector().seldom():
        assert gc.get_threshold() == (young, 11, 12)
    assert gc.get_threshold() == (young, 11, 12)


def _generation(value):
    return next(n for n in range(3) if any(each is value for each in gc.get_objects(n)))


def test_what_is_imported_is_old_when_it_is_looked_at_again():
    looks = []
    gc.collect()
    gc.callbacks.append(lambda phase, info: looks.append(phase))
    try:
        with Collector().importing():
            kept = [[number] for number in range(20_000)]
        assert not looks
    finally:
        gc.callbacks.pop()
    assert gc.isenabled() and not gc.get_freeze_count()
    assert _generation(kept[7]) == 2


def test_a_collector_that_is_off_stays_off_behind_imports():
    gc.disable()
    try:
        with pytest.raises(ImportError), Collector().importing():
            raise ImportError
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_somebody_has_frozen_stays_frozen():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with Collector().importing():
            pass
        assert gc.get_freeze_count() >= count - 10 > 0
    finally:
        gc.unfreeze()


def _is_ours(value):
    return type(value).__module__.startswith("rcompiler")


def test_a_compilation_leaves_nothing_that_only_the_collector_ends():
    """What is left so lies between what stays, for hundreds of compilations: 3 MB in 1,000."""
    model = models.build("mlp", batch=4, layers=(64, 32, 16))

    def compiled():
        rcompiler.compile_onnx(model, eus=1, cache=False, device="default").close()

    compiled()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        compiled()
        gc.collect()
        left = [each for each in gc.garbage if hasattr(each, "__code__") or _is_ours(each)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left
