"""lru_cache.py: what is kept, what goes first, and what a forked child has."""

import os
import threading

import pytest

from rcompiler.support.lru_cache import LruCache, clear_all


def test_the_value_that_was_used_least_recently_goes_first():
    cache: LruCache[str] = LruCache(10)
    for key in "abc":
        cache.put(key, key.upper(), 3)
    assert cache.get("a") == "A"
    cache.put("d", "D", 3)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]


def test_a_value_that_is_larger_than_all_may_be_is_not_kept_and_drives_none_out():
    cache: LruCache[str] = LruCache(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b")) == ("A", None)


def test_a_key_that_is_put_again_counts_once():
    cache: LruCache[str] = LruCache(10)
    cache.put("a", "A", 4)
    for size in (6, 2, 6):
        cache.put("b", "B", size)
    assert (cache.get("a"), cache.get("b")) == ("A", "B")
    cache.put("b", "B", 11)
    cache.put("c", "C", 6)
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_forgetting_is_for_all():
    first, second = LruCache[str](10), LruCache[str](10)
    first.put("a", "A", 10)
    second.put("a", "A", 10)
    clear_all()
    assert (first.get("a"), second.get("a")) == (None, None)
    first.put("b", "B", 10)
    assert first.get("b") == "B"


def test_threads_never_hold_more_than_the_bound():
    cache: LruCache[int] = LruCache(100)

    def use(first: int) -> None:
        for number in range(2000):
            key = first + number % 40
            assert cache.get(str(key)) in (None, key)
            cache.put(str(key), key, 7)

    threads = [threading.Thread(target=use, args=(20 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(cache.get(str(key)) is not None for key in range(100)) == 100 // 7


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_while_others_put_has_a_cache_that_works():
    cache: LruCache[int] = LruCache(100)
    ended = threading.Event()

    def busy() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            cache.put(str(number % 50), number, 9)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if not child:
                for number in range(20):
                    cache.put(f"child {number}", number, 10)
                kept = [cache.get(f"child {number}") for number in range(20)]
                os._exit(kept != [*[None] * 10, *range(10, 20)])
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ended.set()
        thread.join()
