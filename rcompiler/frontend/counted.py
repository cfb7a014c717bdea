"""Results of nodes that count: as long as there is room for, of which a part is there.

Shape inference gives a bound of each count. A caller may give a lower one, so that what reads the
result works on less: a call that counts more than that is an error, and writes no further.
"""

from __future__ import annotations

from rcompiler.support.extent import Extent

from .builder import Value
from .registry import Context


def given_room(ctx: Context) -> int | None:
    """What the caller gives as the bound of one of the node's results."""
    ctx.b.limited.update(name for name in ctx.outputs if name)
    return min((ctx.b.limits[name] for name in ctx.outputs if name in ctx.b.limits), default=None)


def room_for(ctx: Context, most: int) -> int:
    """How many elements the node has room for, where there are ``most`` at most."""
    given = given_room(ctx)
    return most if given is None else min(most, given)


def counted(ctx: Context, count: Value, room: int, most: int) -> Extent:
    """The size of a result that has room for ``room`` elements.

    count: int64 [], from 0 to ``most``, how many there are.
    """
    name = next(name for name in ctx.outputs if name)
    if room < most:
        said = f"that bounds gives '{name}'; compile the model with a greater bound"
        if given_room(ctx) != room:
            said = (
                f"that numbers in the model allow it if none is NaN; give bounds={{'{name}': ...}}"
            )
        sentence = f"{ctx.op} '{ctx.name}' found {{}} elements, more than the {room} {said}"
        ctx.b.expect(count, 0, room, f"{ctx.op} '{ctx.name}'", says=sentence, bound=name)
        count = ctx.b.elementwise(lambda s, a: s.minimum(a, room), count)
    return ctx.b.count(name, count, room)
