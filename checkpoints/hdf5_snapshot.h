#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoints/snapshot.h"
#include "support/atomic_file.h"

// The HDF5 part of a snapshot, alone behind its C library; snapshot.cpp does digests and files.
namespace dimred::checkpoints {

constexpr std::size_t user_block_bytes = 512;

/// A one-dimensional, contiguous dataset inside the file.
struct DatasetExtent {
  std::int64_t offset = 0;  // bytes from the start of the file; 0 when it is empty
  std::int64_t count = 0;
};

struct Hdf5Image {
  std::vector<std::byte> bytes;  // that follow the user block in the file
  DatasetExtent weights;
};

/// Throws std::runtime_error naming the call.
Hdf5Image hdf5_image(const Snapshot& snapshot);

/// Reads all but the vectors of a verified file, which it locates inside the file; digests_offset
/// is 0 where the file has no digests. The library reads through `file` and opens nothing. Throws
/// std::runtime_error.
SnapshotInfo read_hdf5(const InputFile& file);

}  // namespace dimred::checkpoints
