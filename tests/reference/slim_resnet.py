"""TF-Slim's ResNet v1 in TensorFlow's operations, after nets/resnet_v1.py and resnet_utils.py: its checkpoints and
logits.

    .venv-tensorflow/bin/python tests/reference/slim_resnet.py FOLDER NETWORK CLASSES

writes checkpoints of random weights in both formats (FOLDER/v1.ckpt, v2.ckpt), and for images of two sizes images_N.npy
(NHWC) with logits_N.npy. It knows nothing of dimred."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
RANDOM = np.random.default_rng(24)
UNITS = {"resnet_v1_50": (3, 4, 6, 3), "resnet_v1_101": (3, 4, 23, 3)}
SIZES = ((65, 65), (64, 94))


def variable(name: str, values: np.ndarray) -> tf.Variable:
    return v1.get_variable(name, initializer=values.astype(np.float32))


def conv2d(net: tf.Tensor, out: int, kernel: int, stride: int, scope: str, relu: bool = True) -> tf.Tensor:
    """resnet_utils.conv2d_same (for 1x1 the same as conv2d), with slim's batch_norm in evaluation."""
    if stride > 1:
        total = kernel - 1
        pad = [total // 2, total - total // 2]
        net = tf.pad(net, [[0, 0], pad, pad, [0, 0]])
    into = net.shape[-1]
    with v1.variable_scope(scope, reuse=v1.AUTO_REUSE):
        weights = variable(
            "weights", RANDOM.normal(0, np.sqrt(2 / (kernel * kernel * into)), (kernel, kernel, into, out))
        )
        net = tf.nn.conv2d(net, weights, stride, "SAME" if stride == 1 else "VALID")
        with v1.variable_scope("BatchNorm"):
            beta = variable("beta", RANDOM.normal(0, 0.1, out))
            gamma = variable(
                "gamma", RANDOM.uniform(0.5, 1.5, out) * (1 if relu else 0.3)
            )  # so that sums of shortcuts stay small
            mean = variable("moving_mean", RANDOM.normal(0, 0.1, out))
            variance = variable("moving_variance", RANDOM.uniform(0.5, 1.5, out))
        net = tf.nn.batch_normalization(net, mean, variance, beta, gamma, 1e-5)
    return tf.nn.relu(net) if relu else net


def bottleneck(net: tf.Tensor, depth: int, stride: int) -> tf.Tensor:
    """resnet_v1.bottleneck."""
    with v1.variable_scope("bottleneck_v1"):
        if net.shape[-1] == depth:
            shortcut = net if stride == 1 else tf.nn.max_pool2d(net, 1, stride, "VALID")
        else:
            shortcut = conv2d(net, depth, 1, stride, "shortcut", relu=False)
        residual = conv2d(net, depth // 4, 1, 1, "conv1")
        residual = conv2d(residual, depth // 4, 3, stride, "conv2")
        residual = conv2d(residual, depth, 1, 1, "conv3", relu=False)
        return tf.nn.relu(shortcut + residual)


def logits_of(images: tf.Tensor, network: str, classes: int) -> tf.Tensor:
    """resnet_v1.resnet_v1_50 and its like in evaluation."""
    with v1.variable_scope(network, reuse=v1.AUTO_REUSE):
        net = conv2d(images, 64, 7, 2, "conv1")
        net = tf.nn.max_pool2d(net, 3, 2, "SAME")
        for block, units in enumerate(UNITS[network]):
            for unit in range(units):
                stride = 2 if block < 3 and unit == units - 1 else 1
                with v1.variable_scope(f"block{block + 1}/unit_{unit + 1}"):
                    net = bottleneck(net, 256 * 2**block, stride)
        net = tf.reduce_mean(net, [1, 2], keepdims=True)
        with v1.variable_scope("logits"):
            weights = variable("weights", RANDOM.normal(0, 0.05, (1, 1, 2048, classes)))
            net = tf.nn.conv2d(net, weights, 1, "SAME") + variable("biases", RANDOM.normal(0, 1, classes))
        return tf.squeeze(net, [1, 2])


def main(folder: Path, network: str, classes: int) -> None:
    v1.disable_eager_execution()
    images = [RANDOM.normal(0, 1, (2, *size, 3)).astype(np.float32) for size in SIZES]
    logits = [logits_of(tf.constant(batch), network, classes) for batch in images]
    v1.get_variable("global_step", initializer=np.int64(7))
    with v1.variable_scope(network):
        variable("mean_rgb", np.array([123.68, 116.78, 103.94]))
        variable("conv1/weights/Momentum", RANDOM.normal(0, 1, (7, 7, 3, 64)))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for number, values in enumerate(session.run(logits)):
            np.save(folder / f"images_{number}.npy", images[number])
            np.save(folder / f"logits_{number}.npy", values)
        for version, name in ((v1.train.SaverDef.V1, "v1.ckpt"), (v1.train.SaverDef.V2, "v2.ckpt")):
            v1.train.Saver(write_version=version).save(session, str(folder / name), write_meta_graph=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
