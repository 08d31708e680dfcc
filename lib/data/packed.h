#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
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

/// One row of the table.
struct PackedSample {
  std::uint64_t offset = 0;
  std::uint64_t digest = 0;  // XXH3-64 of its bytes
  std::uint32_t size = 0;
  std::uint32_t label = 0;
  std::uint32_t height = 0, width = 0;  // of planes, else 0
  std::uint32_t channels = 0;
  Encoding encoding = Encoding::planes;
};

/// Place and contents of a packed file's description; views of the file.
struct PackedLayout {
  std::string source;
  std::vector<std::string> class_names;
  Bytes table;
  std::string digest;  // of the description, and so of all samples' digests
  std::int64_t size() const;
  PackedSample sample(std::int64_t index) const;  // 0 <= index < size()
};

/// Reads and checks a packed file's description: digest, that every sample lies within the file and
/// has the size of its shape, labels below the number of names. Throws std::runtime_error("[packed]
/// ..."). Cost: one pass over 40 bytes a sample; no sample is touched.
PackedLayout packed_layout(Bytes file);

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
/// samples are not verified at all. Throws as packed_layout; read() throws std::runtime_error with
/// file and offset for a sample whose digest differs.
std::unique_ptr<Dataset> open_packed(const std::filesystem::path& file, bool digests = true);

/// Whether a file begins as a packed one does.
bool is_packed(const std::filesystem::path& file);

}  // namespace dimred::data
