#!/usr/bin/env bash
# What only a GPU shows: the tests marked gpu, and `t4lint verify --device cuda` on the example. Needs a CUDA build of
# torch and no network; ends within six minutes. Exits with 77 where there is no GPU.
#
#     scripts/gpu_check.sh [PYTHON]
#
# PYTHON (default: python3) has torch. What t4lint and pytest need besides may stand in a folder of its own, made
# beforehand on a machine with a network (the same Python version):
#
#     PYTHON -m pip install --target .gpu-deps libcst pydantic rich pyyaml pytest
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${1:-python3}"
limit="${T4LINT_GPU_SECONDS:-340}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
# behind the machine's own packages, so that its torch and what belongs to it win
export T4LINT_GPU_DEPS="$PWD/.gpu-deps"
begin=$SECONDS

told() { "$python" -c "$1" 2>/dev/null; }
within() { # a share of the time that is left
    local left=$((limit - (SECONDS - begin)))
    [ "$left" -gt 5 ] || { echo "out of time"; return 124; }
    timeout --signal=INT --kill-after=10 "$left" "$@"
}

if [ -d .gpu-deps ]; then
    export PYTHONPATH="$PYTHONPATH:$T4LINT_GPU_DEPS"
fi
if ! told 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
    echo "no GPU for $python: torch is missing, built without CUDA, or finds no driver"
    exit 77
fi
for name in libcst pydantic rich yaml pytest; do
    told "import $name" || { echo "$name is missing: see the head of this script"; exit 2; }
done
told 'import torch; p = torch.cuda.get_device_properties(0); print(f"torch {torch.__version__}, {p.name}, {p.total_memory / 2**30:.2f} GiB")'

failed=0
within "$python" -m pytest -q -p no:cacheprovider -m gpu tests/test_gpu.py || failed=1
echo
echo "--- the example, with time ------------------------------------------------------------------------------------"
(cd examples && within "$python" -m t4lint verify --device cuda --exit-zero -- "$python" verify_me.py) || failed=1
echo
echo "gpu_check: $([ $failed = 0 ] && echo passed || echo FAILED) in $((SECONDS - begin)) s"
exit $failed
