#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "support/digest.h"

namespace dimred::checkpoints {

using dimred::digest;
using dimred::DigestStream;

/// Digest of a file from byte `offset` to its end, read in parts of 1 MiB.
/// Throws std::invalid_argument if it does not exist, std::runtime_error on a read error or when it
/// is shorter than `offset`.
std::string file_digest(const std::filesystem::path& file, std::int64_t offset = 0);

}  // namespace dimred::checkpoints
