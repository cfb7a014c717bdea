"""How much slower requests may become while plans are tried: a bucket of tokens, in nanoseconds."""

from dataclasses import dataclass


@dataclass
class Budget:
    """Trials wait until their losses so far are a small share of all that was served.

    Whatever a trial costs, all of them together cost at most `share` of the time that was served,
    and one trial. What trials gain is no credit for slower ones.

    Attributes:
        share: of the served time that trials may add.
        every: one request in so many may be a trial; in the first `start` requests one in two.
        most_ns: of what was not used so much is kept for later, at most.
    """

    share: float = 0.02
    every: int = 20
    start: int = 512
    most_ns: float = 1e9
    served_ns: float = 0.0
    extra_ns: float = 0.0
    _tokens: float = 0.0
    _requests: int = 0
    _since: int = 1 << 62  # requests since the last trial

    def admits(self) -> bool:
        """Whether the next request may be a trial."""
        rare = self._since >= (1 if self._requests < self.start else self.every - 1)
        return rare and self._tokens >= 0

    def served(self, ns: float, usual_ns: float, *, trial: bool, requests: int = 1) -> None:
        """Requests took `ns`; `usual_ns`: what the incumbent would have taken; 0 where the answer
        had to be made again."""
        extra = max(ns - usual_ns, 0.0) if trial else 0.0
        self._requests += requests
        self._since = 0 if trial else self._since + requests
        self.served_ns += ns
        self.extra_ns += extra
        self._tokens = min(self._tokens + self.share * ns, self.most_ns) - extra
