#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on the network of inputs/cnn_mnist.toml: its accuracy after as many epochs, and its rate.

    OMP_NUM_THREADS=2 python3 scripts/compare_torch_cnn.py FOLDER [EPOCHS] [SEED]   # FOLDER: MNIST's four .gz files
    OMP_NUM_THREADS=2 python3 scripts/compare_torch_cnn.py FOLDER 0                 # the rate of 100 steps only

Same layers, initial distributions, Adam with a cosine from 0.002 and batches of 64; images are normalised once and lie in
memory. Beside it: `flotilla train` and `flotilla bench step` with the deck.
"""
import gzip
import math
import os
import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn

BATCH = 64
folder, epochs = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def read(name, header):
    with gzip.open(folder / name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def load(part):
    images = read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32)
    labels = read(f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64)
    return torch.from_numpy((images / 255 - 0.1307) / 0.3081), torch.from_numpy(labels)


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


images, labels = load("train")
test_images, test_labels = load("t10k")
network = nn.Sequential(*block(1, 32), *block(32, 32), nn.MaxPool2d(2), *block(32, 64), *block(64, 64), nn.MaxPool2d(2),
                        nn.Flatten(), nn.Dropout(0.25), nn.Linear(1024, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10))
for module in network:
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.kaiming_normal_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
optimizer = torch.optim.Adam(network.parameters(), lr=0.002)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, epochs) * math.ceil(len(images) / BATCH))
criterion = nn.CrossEntropyLoss()


def train(batches):
    network.train()
    begin = time.monotonic()
    for batch in batches:
        optimizer.zero_grad()
        criterion(network(images[batch]), labels[batch]).backward()
        optimizer.step()
        schedule.step()
    return sum(len(batch) for batch in batches) / (time.monotonic() - begin)


if epochs == 0:
    order = torch.randperm(len(images)).split(BATCH)
    train(order[:20])
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads: {train(order[20:120]):.0f} samples/s")
for epoch in range(epochs):
    rate = train(torch.randperm(len(images)).split(BATCH))
    network.eval()
    with torch.no_grad():
        right = sum((network(part).argmax(1) == wanted).sum().item()
                    for part, wanted in zip(test_images.split(1000), test_labels.split(1000)))
    print(f"epoch {epoch}: {right / len(test_labels):.4f} of the test digits, {rate:.0f} samples/s", flush=True)
