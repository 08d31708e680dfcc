#pragma once

#include <torch/types.h>

#include <string>

namespace dimred::training {

/// cpu, cuda or cuda:N; "cuda" alone is the device of the process's place among the ranks of its
/// machine. Throws std::invalid_argument for another text; std::runtime_error where no such device
/// is, with the reason (no driver, too old a driver, fewer devices).
torch::Device parse_device(const std::string& text, int local_rank = 0);

}  // namespace dimred::training
