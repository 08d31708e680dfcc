#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dimred::data {

/// The whole file into `bytes`, whose capacity is reused. Throws std::runtime_error("[scope] path:
/// reason") when it cannot be read, is empty, is no regular file, or has more than `most` bytes.
void read_file(const std::string& path,
               const char* scope,
               std::vector<std::uint8_t>& bytes,
               std::int64_t most = std::int64_t{1} << 30);

/// Reads a file as a text in UTF-8, without a byte-order mark.
std::string read_text(const std::filesystem::path& path, const char* scope);

}  // namespace dimred::data
