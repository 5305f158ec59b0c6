#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle's step of ResNet-50 on this machine, to put beside `flotilla bench step`: forward, backward and
momentum on random images in memory, float32. Needs paddlepaddle.

    python3 scripts/compare_paddle_speed.py [--batch 16] [--steps 8] [--threads 2]
"""
import argparse
import os
import statistics
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    import paddle
    from paddle.vision.models import resnet50

    paddle.set_device("cpu")
    model = resnet50()
    model.train()
    optimizer = paddle.optimizer.Momentum(learning_rate=0.01, momentum=0.9, weight_decay=1e-4,
                                          parameters=model.parameters())
    loss_of = paddle.nn.CrossEntropyLoss()
    images = paddle.randn([options.batch, 3, 224, 224])
    labels = paddle.randint(0, 1000, [options.batch, 1])
    seconds = []
    for _ in range(options.steps + 2):  # the first two warm up
        begin = time.perf_counter()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        float(loss)
        seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds[2:])
    print(f"paddle {paddle.__version__}: {options.batch / median:.2f} images/s")


if __name__ == "__main__":
    main()
