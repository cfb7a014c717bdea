"""All faults, in the order in which they are tried."""

from .pass_faults import FAULTS as PASS_FAULTS
from .room_faults import FAULTS as ROOM_FAULTS

ALL = (*PASS_FAULTS, *ROOM_FAULTS)
