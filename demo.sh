#!/usr/bin/env bash
# From an ONNX model to latencies: set up an environment, build the model, compile it, verify the
# result against the reference, and time it beside onnxruntime. All that it makes is in build/demo/.
#   ./demo.sh              ResNet-50
#   ./demo.sh bert_base    another built-in model
# PYTHON=... chooses the interpreter (3.11 or newer).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

model=${1:-resnet50}
home=build/demo
step() { printf '\n$ %s\n' "$*"; "$@"; }

mkdir -p "$home"
[ -d "$home/venv" ] || step "${PYTHON:-python3}" -m venv "$home/venv"
export PATH="$PWD/$home/venv/bin:$PATH"
export RC_CACHE_DIR="$PWD/$home/cache"
unset PYTHONPATH VIRTUAL_ENV

# build/lib: setuptools would put files that are long gone into the package.
rm -rf build/lib
step pip install --quiet --disable-pip-version-check '.[bench]'
step python -m rcompiler.tools.models "$model" -o "$home/$model.onnx"
step rc-compile "$home/$model.onnx" -o "$home/$model.rcx" --timing
step rc-run "$home/$model.rcx" --verify --onnx="$home/$model.onnx" --reference=onnx
cpus=$(nproc)
threads=1
[ "$cpus" -eq 1 ] || threads=1,$cpus
step rc-bench --models="$home/$model.onnx" --threads="$threads" --json="$home/$model.json"
