"""What a seeded fault is.

It is one change of what a line means, as it could have been written by mistake. The check that is
named must fail where the fault is, and only there, in the way that is named:

- "text": a lit test, or one that compares texts, sees another one;
- "result": something else is computed than by the reference;
- "proof": the proof of the schedule, or a verifier, refuses it;
- "refusal": what has to be refused is not, or what is right is;
- "failure": what was made is of no use, and what comes behind it fails.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Fault:
    """name: of the pass, or of the room and what is wrong there. file: below rcompiler/. old, new:
    one piece of its text, and the fault. check: a lit file below test/, or a pytest node. found: in
    which way. says: what its output holds then, a regular expression.
    """

    name: str
    file: str
    old: str
    new: str
    check: str
    found: Literal["text", "result", "proof", "refusal", "failure"]
    says: str
