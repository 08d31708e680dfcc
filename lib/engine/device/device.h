#pragma once

#include <torch/types.h>

#include <string>

namespace dimred::engine {

/// auto, cpu, cuda or cuda:N; "cuda" alone is the device of the process's place among the ranks of
/// its machine. Throws std::invalid_argument for another text; std::runtime_error where no such
/// device is, with the reason (no driver, too old a driver, fewer devices).
torch::Device parse_device(const std::string& text, int local_rank = 0);

/// The device of `text`, cuda or cuda:N, on a machine with `count` >= 1 of them. Throws
/// std::runtime_error where N is none of them.
torch::Device cuda_device(const std::string& text, int count, int local_rank = 0);

/// Torch's warning about an unusable driver, as part of a line: without advice that holds links.
/// `cuda`: the version that torch was built for.
std::string reason_of_warning(const std::string& warning, const std::string& cuda);

/// From now on this process computes the same bits from the same inputs on the same machine with
/// the same number of threads: torch throws for an operator that has no such form, cuDNN and oneDNN
/// choose algorithms by rule instead of by time, cuBLAS keeps one workspace, and memory that is
/// read before it is written holds NaN. Before the first operator. Source: PyTorch's notes on
/// reproducibility, use_deterministic_algorithms(True).
void make_deterministic();

/// parse_device(), whose CUDA device becomes the present one. How CUDA's libraries may compute, for
/// this process from now on: float32 rounded to TF32 (10 bits of mantissa; else all 23, also in
/// convolutions, where torch alone would round), and cuDNN's algorithms by time instead of those
/// whose bits are the same in every run. Throws as parse_device() does.
torch::Device take_device(const std::string& text, int local_rank, bool tf32, bool autotune);

}  // namespace dimred::engine
