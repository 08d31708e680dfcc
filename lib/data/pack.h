#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/write_records.h"

namespace dimred::data {

enum class PackEncoding { keep, planes, jpeg };

struct PackOptions {
  PackEncoding encoding =
      PackEncoding::keep;       // keep: files as they are, where they are not resized
  std::int64_t short_side = 0;  // pixels; larger images are reduced to it, antialiased; 0: as it is
  std::int64_t quality = 90;    // of JPEGs that are written, in [1, 100]
  bool skip_bad = false;        // samples that cannot be decoded are left out and counted
  std::int64_t threads = 1;
};

/// Writes all samples of a data set, in its order, as a packed file (data/packed.h). An image is
/// reduced to height or width = short_side (the other side rounded down), never enlarged; what is
/// then encoded again is JPEG when the encoding is jpeg or the sample was a JPEG, else planes. Any
/// number of threads writes the same file. Memory: 64 encoded samples, and one decoded image a
/// thread. Killed, it leaves a .tmp file that the next start overwrites: it starts over. Throws
/// std::runtime_error naming the sample that cannot be read or decoded, or when none can.
WriteReport pack(const Dataset& dataset,
                 const std::filesystem::path& file,
                 const PackOptions& options,
                 const Progress& progress);

}  // namespace dimred::data
