"""Names that nothing has yet, found in as many steps as there are names."""

from rcompiler.passes.schedule.fresh_names import FreshNames


class _Counted(set[str]):
    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


def test_equal_names_are_numbered():
    taken = {"x.2"}
    names = FreshNames(taken)
    found = []
    for _ in range(4):
        found.append(names.of("x"))
        taken.add(found[-1])
    assert found == ["x", "x.1", "x.3", "x.4"]
    assert names.of("x") == names.of("x") == "x.5"  # nobody took it
    assert names.of("x.2") == "x.2.1"


def test_each_number_is_tried_once():
    taken = _Counted()
    names = FreshNames(taken)
    for _ in range(100):
        taken.add(names.of("x"))
    assert taken.asked <= 201 and len(taken) == 100
