#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace dimred::data {

/// The content of one IDX file of unsigned bytes.
struct IdxArray {
  std::vector<std::uint64_t> dimensions;
  std::unique_ptr<std::uint8_t[]> bytes;
  std::size_t size = 0;  // product of dimensions
  std::span<const std::uint8_t> span() const { return {bytes.get(), size}; }
};

/// Reads an IDX file of `rank` dimensions (1 to 3), plain or gz by its content. Checked before the
/// data is allocated: magic number, dimensions >= 1, that their product does not overflow and that
/// the file can hold it (plain: exact size; gz: deflate's largest ratio, and at most 100 times
/// its bytes + 64 MB). Then: exactly the
/// announced bytes and, for gz, its checksum; at most one byte beyond them is asked for. Throws
/// std::runtime_error("[idx] file: rule, received ...").
IdxArray read_idx_array(const std::filesystem::path& path, std::size_t rank);

}  // namespace dimred::data
