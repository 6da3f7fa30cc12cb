#!/bin/bash
# Two machines with one GPU each; NODE_RANK and MASTER_ADDR come from the scheduler.
set -euo pipefail
cd "$(dirname "$0")"

export NCCL_SOCKET_IFNAME=eth0

torchrun --nnodes=2 --nproc_per_node=1 --node_rank="$NODE_RANK" --master_addr="$MASTER_ADDR" \
    finetune.py \
    --output_dir out/capybara \
    --per_device_batch_size 16 \
    --tf32 True
