"""The folders and files that users of the five source systems bring, as small as they can be."""

from __future__ import annotations

import base64
import io
import json
import pickle
from pathlib import Path

import numpy as np
from dimred_twins import build
from PIL import Image
from reference import mindspore_checkpoint

CLASSES = ("daisy", "roses")

# Every key of FastNN's flags but `tables`, which would name a table of MaxCompute.
HYPER = """task_type=pretrain
model_name=lenet
dataset_name=flowers
dataset_dir=flowers-tfrecord
train_files=train-00000-of-00002,train-00001-of-00002
eval_files=
file_pattern=
reader=
num_classes=2
labels_offset=0
num_sample_per_epoch=24
preprocessing_name=
num_preprocessing_threads=1
num_parallel_batches=2
shuffle_buffer_size=16
prefetch_buffer_size=2
datasets_use_caching=True
batch_size=4
num_epochs=2
stop_at_step=12
use_fp16=False
loss_scale=1.0
optimizer=adam
adam_beta1=0.9
adam_beta2=0.999
opt_epsilon=1.0
momentum=0.9
adadelta_rho=0.95
adagrad_initial_accumulator_value=0.1
rmsprop_momentum=0.9
rmsprop_decay=0.9
ftrl_learning_rate_power=-0.5
ftrl_initial_accumulator_value=0.1
ftrl_l1=0
ftrl_l2=0
weight_decay=0.00004
max_gradient_norm=5.0
learning_rate=0.01
learning_rate_decay_type=exponential
learning_rate_decay_factor=0.94
end_learning_rate=0.0001
decay_scheme=luong5
warmup_scheme=t2t
warmup_steps=2
hooks=StopAtStepHook,ProfilerHook,LoggingTensorHook,CheckpointSaverHook
log_loss_every_n_iters=2
profile_every_n_iters=2
profile_at_task=0
print_model_statistics=True
log_trainable_vars_statistics=True
log_optimizer_vars_statistics=True
save_checkpoints_steps=1000
checkpointDir=
model_dir=
ckpt_file_name=
summaryDir=
output_dir=.
outputs=
buckets=
job_name=worker
task_index=0
taskId=
worker_hosts=
worker_count=1
ps_hosts=
ps_count=0
protocol=grpc
enable_paisoar=True
communication_policy=nccl_fullring
tensor_fusion_policy=default
tensor_fusion_max_bytes=8388608
inter_op_parallelism_threads=2
intra_op_parallelism_threads=2
colocate_gradients_with_ops=True
log_device_placement=False
"""


def image(label: int, number: int, side: int) -> bytes:
    """A JPEG file of noise around the class's brightness."""
    pixels = np.random.default_rng(10 * number + label).integers(
        100 * label, 100 * label + 99, (side, side, 3), dtype=np.uint8
    )
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "JPEG", quality=95)
    return target.getvalue()


def class_folders(folder: Path, count: int, side: int, suffix: str = ".jpg") -> None:
    """FOLDER/CLASS/NUMBER.jpg, `count` of a class."""
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}{suffix}").write_bytes(image(label, number, side))


def make(out: Path, count: int = 12, side: int = 28) -> Path:
    """Trees and files in `out`, named as their documents name them; `count` training images of each of 2 classes."""
    class_folders(out / "imagenet" / "train", count, side)  # MindSpore's tutorial
    class_folders(out / "imagenet" / "validation_preprocess", count // 2, side)
    class_folders(out / "flower_photos", count, side)  # MoXing: no test part
    class_folders(out / "OCT2017" / "train", count, side, ".jpeg")  # the TF-Estimator article
    class_folders(out / "OCT2017" / "test", count // 2, side, ".jpeg")
    plsc(out, count, side)
    pairs = [image(label, number, side) for number in range(20) for label in (0, number % 2)]
    (out / "lfw.bin").write_bytes(pickle.dumps((pairs, [number % 2 == 0 for number in range(20)])))
    (out / "hyper.txt").write_text(HYPER)
    (out / "boost.json").write_text(
        json.dumps(
            {
                "boost": {"mode": "manual", "dim_reduce": True},
                "common": {"device_num": 8},
                "dim_reduce": {
                    "rho": 0.55,
                    "gamma": 0.9,
                    "alpha": 0.001,
                    "sigma": 0.4,
                    "n_component": 2,
                    "weight_load_dir": "ckpts",
                    "timeout": 1200,
                },
            }
        )
    )
    mindspore_checkpoints(out / "ckpts", side)
    devices = [
        {"device_id": str(i), "device_ip": f"192.{1 + i % 4}.27.{6 + i // 4}", "rank_id": str(i)} for i in range(8)
    ]
    server = {"server_id": "10.*.*.*", "device": devices, "host_nic_ip": "reserve"}
    (out / "rank_table_8pcs.json").write_text(
        json.dumps({"version": "1.0", "server_count": "1", "server_list": [server], "status": "completed"})
    )
    return out


def mindspore_checkpoints(folder: Path, side: int) -> None:
    """Writes checkpoints of lenet as a run of MindSpore leaves them."""
    folder.mkdir()
    random = np.random.default_rng(5)
    arrays = mindspore_checkpoint.arrays_of(build("lenet", 3, side, side, len(CLASSES)))
    for step in (6, 12, 18, 24):
        values = {
            name: array + random.normal(0, 0.01, array.shape).astype(array.dtype) for name, array in arrays.items()
        }
        mindspore_checkpoint.write(
            folder / f"lenet-{step // 6}_6.ckpt", values | {"learning_rate": np.float32(0.1)}, crc=True
        )


def plsc(out: Path, count: int, side: int) -> None:
    """train_data/{images,label.txt}, and the same as Base64 parts with their list in dataset/."""
    (out / "train_data" / "images").mkdir(parents=True)
    (out / "dataset").mkdir()
    paths, parts = [], [[], []]
    for number in range(count):
        for label in range(len(CLASSES)):
            data = image(label, number, side)
            (out / "train_data" / "images" / f"{label}-{number}.jpg").write_bytes(data)
            paths.append(f"images/{label}-{number}.jpg {label}")
            parts[number % 2].append(f"{base64.b64encode(data).decode()}\t{label}")
    (out / "train_data" / "label.txt").write_text("\n".join(paths) + "\n")
    for number, lines in enumerate(parts):
        (out / "dataset" / f"part-{number:02}.txt").write_text("\n".join(lines) + "\n")
    (out / "dataset" / "file_list.txt").write_text("part-00.txt\npart-01.txt\n")
