#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/stored_tensor.h"

namespace dimred::checkpoints {

/// The tensors of a file that read_weights takes, in its order, MindSpore's under the names that
/// PyTorch has; what lies beside a network in PyTorch's file comes last. The checksums of PyTorch's
/// and MindSpore's files are compared, which reads them once. Throws as read_weights, but for
/// values.
std::vector<StoredTensor> read_tensor_table(const std::filesystem::path& path);

struct PytorchTable {
  std::vector<StoredTensor> tensors;
  std::vector<std::string> remarks;  // on the choice of the network
  std::string averaging;             // Checkpoint::averaging
};

/// Reads a PyTorch file. `take`: which of the networks in it (OpenOptions::take).
PytorchTable read_pytorch_table(const std::filesystem::path& path, const std::string& take);

}  // namespace dimred::checkpoints
