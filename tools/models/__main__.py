"""Write a built-in network as an ONNX file: python -m rcompiler.tools.models resnet50 -o r.onnx"""

import argparse
import ast
import sys
from pathlib import Path
from typing import Any

from onnx import checker
from onnx.shape_inference import InferenceError

from rcompiler.errors import InvalidModel
from rcompiler.tools._command import Command
from rcompiler.tools.models import build, names, options


def _run(args: argparse.Namespace) -> int:
    if args.list or not args.name:
        for name in names():
            print(name, *(f"{key}={value}" for key, value in options(name).items()))
        return 0
    try:
        model = build(args.name, **dict(_option(text) for text in args.set))
        checker.check_model(model, full_check=True)  # options that contradict each other
    except (checker.ValidationError, InferenceError) as error:
        raise InvalidModel(str(error).strip().partition("\n")[0]) from None
    target = Path(args.output or f"{args.name}.onnx")
    target.write_bytes(model.SerializeToString(deterministic=True))
    print(f"{target}: {len(model.graph.node)} nodes, {target.stat().st_size / 1e6:.1f} MB")
    return 0


def _option(text: str) -> tuple[str, Any]:
    """Name and value; what is no number or tuple of numbers is a word, such as form=written."""
    name, found, value = text.partition("=")
    if not found:
        raise InvalidModel(f"option '{text}' is not of the form name=value")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="model; none: list all")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: NAME.onnx")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="for example image=64"
    )
    parser.add_argument("--list", action="store_true", help="list models and their options")


main = Command("models", __doc__, _arguments, _run)


if __name__ == "__main__":
    sys.exit(main())
