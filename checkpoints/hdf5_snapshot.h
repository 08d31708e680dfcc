#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoints/snapshot.h"

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

struct Hdf5Contents {
  SnapshotInfo info;
  DatasetExtent layout;   // text; count in bytes
  DatasetExtent run;      // text; empty where no run of the trainers wrote the file
  DatasetExtent digests;  // of the weights' blocks; empty in a file of version 1
};

/// Opens a verified file read-only and locates everything; each extent is checked to lie inside the
/// first `file_size` bytes. Throws std::runtime_error.
Hdf5Contents read_hdf5(const std::filesystem::path& path, std::int64_t file_size);

}  // namespace dimred::checkpoints
