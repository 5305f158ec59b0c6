#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's rate on the training step of inputs/mnist_mlp.toml, to stand beside `flotilla bench step`.

    OMP_NUM_THREADS=1 python3 scripts/compare_torch_mlp.py            # one process
    OMP_NUM_THREADS=1 python3 scripts/compare_torch_mlp.py bfloat16   # forward under autocast
    python3 -m torch.distributed.run --nproc_per_node 2 scripts/compare_torch_mlp.py   # DDP, gloo

784-128-128-10 with tanh, Adam 0.001, batch 64 per process, batches that already lie in memory (no input).
Prints the median over rounds of 200 steps.
"""
import os
import statistics
import sys
import time

import torch

BATCH, ROUNDS, STEPS = 64, 15, 200


def main():
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    workers = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(1)
    autocast = sys.argv[1:] == ["bfloat16"]
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 128), torch.nn.Tanh(), torch.nn.Linear(128, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10))
    if workers > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    criterion = torch.nn.CrossEntropyLoss()
    images = [torch.randn(BATCH, 784) for _ in range(32)]
    labels = [torch.randint(0, 10, (BATCH,)) for _ in range(32)]

    def step(i):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = criterion(model(images[i % 32]), labels[i % 32])
        loss.backward()
        optimizer.step()

    for i in range(50):
        step(i)
    rates = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        for i in range(STEPS):
            step(i)
        rates.append(workers * BATCH * STEPS / (time.monotonic() - begin))
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"torch {torch.__version__}, {workers} process(es) x {torch.get_num_threads()} thread(s){', bfloat16' if autocast else ''}: "
              f"{statistics.median(rates):.0f} samples/s ({min(rates):.0f} to {max(rates):.0f})")


main()
