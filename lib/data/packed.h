#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "support/atomic_file.h"

// A data set as one file that is read by mapping it into memory:
//   page 0           "DIMREDPK", version, place, size and XXH3-128 of the description
//   from page 1 on   the samples' bytes, each on a 64-byte boundary
//   on a new page    the description: source, class names, and 40 bytes a sample: offset, size,
//                    label, XXH3-64 of its bytes, encoding and shape
// Little-endian; pages of 4096 bytes.
namespace dimred::data {

/// Writes a packed file, which appears under its name with finish() only.
class PackedWriter {
 public:
  explicit PackedWriter(const std::filesystem::path& path);
  void add(const Sample& sample);
  void finish(const std::string& source, const std::vector<std::string>& class_names);

 private:
  void write(std::string_view bytes);
  void pad(std::int64_t alignment);

  AtomicFile file_;
  std::string table_;
  std::int64_t samples_ = 0;
  std::int64_t end_ = 0;  // bytes written
};

/// The packed file as a data set. Its description is verified when it is opened, a sample's digest
/// when this process first reads it; later reads are views of the page cache. With `digests` false
/// samples are not verified at all. Throws std::runtime_error("[packed] ...") for a description
/// that is not whole; read() throws it with file and offset for a sample whose digest differs.
std::unique_ptr<Dataset> open_packed(const std::filesystem::path& file, bool digests = true);

/// Whether a file begins as a packed one does.
bool is_packed(const std::filesystem::path& file);

}  // namespace dimred::data
