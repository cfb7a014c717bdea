"""All faults, in the order in which they are tried."""

from .half_faults import FAULTS as HALF_FAULTS
from .pass_faults import FAULTS as PASS_FAULTS
from .room_faults import FAULTS as ROOM_FAULTS
from .thread_faults import FAULTS as THREAD_FAULTS
from .tile_faults import FAULTS as TILE_FAULTS

ALL = (*PASS_FAULTS, *HALF_FAULTS, *ROOM_FAULTS, *THREAD_FAULTS, *TILE_FAULTS)
