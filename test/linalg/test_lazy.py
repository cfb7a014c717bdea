"""Properties that are computed when they are first read."""

from rcompiler.linalg.lazy import lazy


class Circle:
    def __init__(self, radius):
        self.radius, self.reads = radius, 0

    @lazy
    def area(self):
        """In squares of the radius' unit."""
        self.reads += 1
        return 3 * self.radius**2


def test_it_is_computed_once_for_each_object():
    one, two = Circle(1), Circle(2)
    assert (one.area, one.area, two.area, one.reads) == (3, 3, 12, 1)


def test_a_class_shows_what_it_is():
    assert Circle.area.__doc__ == "In squares of the radius' unit."
