"""The maps that a ZipMap at the end of a model makes of scores: dicts from labels to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rcompiler.errors import Gap, UnsupportedOp
from rcompiler.session.signature import NodeArg


class LabelMaps:
    """Makes of the scores [rows, labels], which a program computes, a dict for each row.

    The keys of a dict are sorted, as those of onnxruntime's are; of equal labels the last one has
    the score.

    Attributes:
        arg: how the output is declared, by onnxruntime's name of its type.
    """

    def __init__(self, name: str, labels: Sequence[int] | Sequence[str]) -> None:
        """Take the labels of an output.

        Args:
            name: of the output.
            labels: of all columns, in their order.

        Raises:
            UnsupportedOp: there are none, as no ZipMap of the graph itself makes the output.
        """
        if not labels:
            raise UnsupportedOp(
                Gap(name, "", "it is a sequence of maps that no ZipMap of the graph itself makes",
                    "Make the ZipMap the last operator, or the tensor of scores the output",
                    kind="output")
            )  # fmt: skip
        columns: dict[Any, int] = {label: column for column, label in enumerate(labels)}
        self._labels = sorted(columns)
        self._columns = [columns[label] for label in self._labels]
        self._width = len(labels)
        key = "string" if isinstance(labels[0], str) else "int64"
        self.arg = NodeArg(name, [], f"seq(map({key},tensor(float)))")

    def of_rows(self, scores: np.ndarray) -> list[dict[int | str, float]]:
        """A dict for each row of scores; a vector is one row.

        Args:
            scores: numbers of any type, as many in a row as there are labels.
        """
        rows = scores.astype(np.float64).reshape(-1, self._width)[:, self._columns]
        return [dict(zip(self._labels, row, strict=True)) for row in rows.tolist()]
