"""The proof of pinned boxes, and the choice of what is pinned."""

from dataclasses import replace

import pytest
from rammer_cases import rows

from rcompiler.errors import ScheduleError
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.pinned_boxes import may_pin
from rcompiler.rammer.pinning import Tiles, Use, pin
from rcompiler.rammer.program import Buffer, Program, Run, Signal, Wait
from rcompiler.rammer.validate import validate

SHAPE = (8, 4)
BYTES = 8 * 4 * 4
HALF = BYTES // 2
OWN = rows(SHAPE, (2, 1))  # a task has half of the rows
WEIGHTS = [Buffer(name, "constant", k * BYTES, BYTES, key=name) for k, name in enumerate("vw")]


def copying(**more) -> Kernel:
    """What brings a box."""
    return Kernel("pin", (2, 1), (OWN,), (OWN,), 1.0, pinned=(1,), **more)


STEP = Kernel("step", (2, 1), (OWN,), (OWN,), 1.0, pinned=(0,))


def pinned(name: str, offset: int) -> Buffer:
    return Buffer(f"{name}.pinned", "pinned", offset, BYTES)


def fill(name: str, task: int) -> Run:
    return Run("pin", f"{name}.pin", task, 1, 1, (name, f"{name}.pinned"))


def step(name: str, task: int, result: str = "y") -> Run:
    return Run("step", f"step {name} {result}", task, 1, 1, (f"{name}.pinned", result))


def program(*queues, offsets=(0, HALF), room: int = BYTES) -> Program:
    """Two constants; y and z are the outputs."""
    buffers = [*WEIGHTS, *(pinned(b.name, at) for b, at in zip(WEIGHTS, offsets, strict=True))]
    buffers += [Buffer(name, "output", 0, BYTES, index=k) for k, name in enumerate("yz")]
    return Program("p", 2, tuple(buffers), queues, 0, 2 * BYTES, pinned=room)


def queue(eu: int) -> tuple[Run, ...]:
    return fill("v", eu), fill("w", eu), step("v", eu), step("w", eu, "z")


def check(found: Program, kernels=()) -> None:
    validate([found], kernels=kernels or (copying(), STEP))


def test_each_eu_reads_the_boxes_that_it_has():
    check(program(queue(0), queue(1)))


def test_which_boxes_it_has_does_not_matter():
    check(program(queue(1), queue(0)))


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (
            ((fill("v", 0), fill("w", 0), step("v", 0), step("w", 1, "z")),
             (fill("v", 1), fill("w", 1), step("v", 1), step("w", 0, "z"))),
            "may run before or during operator w.pin",
        ),
        (
            ((step("v", 0), fill("v", 0), fill("w", 0), step("w", 0, "z")), queue(1)),
            "always runs before operator v.pin",
        ),
    ],
)  # fmt: skip
def test_another_eu_or_too_early(queues, message):
    with pytest.raises(ScheduleError, match=message):
        check(program(*queues))


def test_order_alone_does_not_move_a_box():
    """EU 1 has waited for the box that EU 0 has: it is still on EU 0."""
    first = (fill("v", 0), fill("v", 1), Signal("e"))
    # one EU cannot hold two boxes of a tensor either
    second = (Wait("e", 1), step("v", 0), step("v", 1))
    for queues in ((first, second), (second, first)):
        with pytest.raises(ScheduleError, match=r"EU \d, operator"):
            check(program(*queues, offsets=(0, HALF)))


def test_boxes_that_overlap():
    with pytest.raises(
        ScheduleError, match=r"pins w.pinned at bytes 32..95, and v.pinned .* 0..63"
    ):
        check(program(queue(0), queue(1), offsets=(0, HALF // 2)))


def test_boxes_on_different_eus_may_overlap():
    halves = (fill("v", 0), step("v", 0)), (fill("v", 1), step("v", 1))
    check(program(*halves, offsets=(0, 0)))


def test_a_box_that_leaves_the_memory():
    with pytest.raises(ScheduleError, match="w.pinned ends at byte 128 of 127"):
        check(program(queue(0), queue(1), room=BYTES - 1))


def test_several_tasks_of_one_run():
    both = replace(fill("v", 0), count=2), replace(step("v", 0), count=2)
    check(program(both, (), offsets=(0, 0)))
    with pytest.raises(ScheduleError, match="v.pinned ends at byte 128 of 127"):
        check(program(both, (), offsets=(0, 0), room=BYTES - 1))


def test_tasks_that_are_no_neighbours():
    """Also where other runs of the operator are right."""
    own = rows((16, 4), (4, 1))
    kernels = [
        Kernel(name, (4, 1), (own,), (own,), 1.0, pinned=(number,))
        for number, name in enumerate(("step", "pin"))
    ]
    buffers = [Buffer("v", "constant", 0, 256, key="v"), Buffer("v.pinned", "pinned", 0, 256)]
    buffers.append(Buffer("y", "output", 0, 256, index=0))
    runs = [(0, 1, 1), (1, 2, 2), (2, 1, 1)]  # first, count, stride
    queues = [
        (
            Run("pin", "v.pin", *tasks, ("v", "v.pinned")),
            Run("step", "step", *tasks, ("v.pinned", "y")),
        )
        for tasks in runs
    ]
    found = Program("p", 3, tuple(buffers), tuple(queues), 0, 256, pinned=256)
    with pytest.raises(ScheduleError, match="EU 1, operator v.pin: .* must be neighbours"):
        validate([found], kernels=kernels)


def test_tasks_that_were_pinned_one_by_one_are_not_side_by_side():
    both = (fill("v", 0), fill("v", 1), replace(step("v", 0), count=2))
    with pytest.raises(ScheduleError, match="pins v.pinned .* and v.pinned is pinned"):
        check(program(both, ()))


def test_a_kernel_that_takes_it_from_elsewhere():
    with pytest.raises(ScheduleError, match="takes operand 0 not from the memory of the EU"):
        check(program(queue(0), queue(1)), (copying(), replace(STEP, pinned=())))


def test_a_kernel_that_expects_it_there():
    wrong = (Run("step", "step", eu, 1, 1, ("v", "y")) for eu in range(2))
    with pytest.raises(ScheduleError, match="buffer v is constant"):
        check(program(*((run,) for run in wrong)))


def test_a_program_that_pins_nothing():
    """The rKernel says so, not the buffers."""
    found = program(queue(0), queue(1))
    plain = tuple(b for b in found.buffers if b.kind != "pinned")
    wrong = tuple((Run("step", "step", eu, 1, 1, ("v", "y")),) for eu in range(2))
    with pytest.raises(ScheduleError, match="buffer v is constant"):
        check(replace(found, buffers=plain, queues=wrong))


def test_queues_that_any_eu_takes():
    found = program(queue(0), queue(1))
    with pytest.raises(ScheduleError, match="which EU takes which queue"):
        check(replace(found, dynamic=True))


def test_other_boxes_of_the_same_bytes():
    other = Access((4, 8), 4, (DimAccess(0, 2, 0, 2), DimAccess()))
    wide = Kernel("step", (2, 1), (other,), (OWN,), 1.0, pinned=(0,))
    with pytest.raises(ScheduleError, match="not pinned there"):
        check(program(queue(0), queue(1)), (copying(), wide))


@pytest.mark.parametrize(
    ("grid", "dims", "may"),
    [
        ((2, 1), (DimAccess(0, 4, 0, 4), DimAccess()), True),
        ((3, 1), (DimAccess(0, 3, 0, 3), DimAccess()), True),
        ((1, 1), (DimAccess(), DimAccess()), True),
        ((1, 8), (DimAccess(1, 1, 0, 1), DimAccess(0, 4, 0, 4)), True),
        # not one run of bytes
        ((1, 2), (DimAccess(), DimAccess(1, 2, 0, 2)), False),
        # all tasks have all of it
        ((2, 1), (DimAccess(), DimAccess()), False),
        # with an edge of the tasks beside
        ((2, 1), (DimAccess(0, 4, 0, 6), DimAccess()), False),
        ((2, 1), (DimAccess(0, 4, -1, 4), DimAccess()), False),
        # several tasks have the same
        ((2, 2), (DimAccess(0, 4, 0, 4), DimAccess()), False),
    ],
)
def test_boxes_that_are_runs_of_bytes_side_by_side(grid, dims, may):
    access = Access(SHAPE, 4, dims)
    assert may_pin(Kernel("k", grid, (access,), (OWN,), 1.0), access) is may


# -- the choice
BOTH = ((0, 0, 1), (1, 1, 1))  # a tile on each of two EUs


def test_what_is_read_most_often_comes_first():
    swapped = ((0, 1, 1), (1, 0, 1))
    found = pin(
        {
            "seldom": Tiles(64, (Use(0, 5, BOTH),)),
            "often": Tiles(100, (Use(1, 50, BOTH), Use(2, 9, swapped))),
            "once": Tiles(64, (Use(3, 1, BOTH),)),
            "large": Tiles(129, (Use(1, 50, BOTH),)),
        },
        room=256,
    )
    assert {key: (slot.offset, slot.end) for key, slot in found.items()} == {
        "often": (0, 100),
        "seldom": (128, 192),
    }
    assert found["often"].groups == {1}
    assert found["often"].places == BOTH


def test_an_eu_has_room_for_all_of_its_tasks():
    uneven = ((0, 0, 3), (1, 3, 2))
    [slot] = pin({"w": Tiles(64, (Use(0, 9, uneven),))}, room=192).values()
    assert (slot.offset, slot.end) == (0, 192)
    assert not pin({"w": Tiles(64, (Use(0, 9, uneven),))}, room=191)


def test_one_offset_for_all_tiles():
    one = ((0, 0, 1),)
    found = pin({"v": Tiles(64, (Use(0, 9, one),)), "w": Tiles(64, (Use(0, 9, BOTH),))}, room=1024)
    assert [slot.offset for slot in found.values()] == [0, 64]
