#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/verbs/check.h"
#include "checkpoints/verbs/reading.h"

// The manifest of a checkpoint: a text that `sha256sum -c` reads, with the digests of tensors in
// its comments. Files are changed by a conversion or another number of shards; tensors are not.
namespace dimred::verbs {

/// A manifest begins so.
inline constexpr std::string_view manifest_head = "# SHA-256 manifest of dimred inspect";

struct FileDigest {
  std::string name;    // relative to the folder that the manifest is of
  std::string sha256;  // 64 hexadecimal digits, lower case
  auto operator<=>(const FileDigest&) const = default;
};

struct TensorDigest {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string sha256;  // of the elements in the shape's order, as safetensors stores them
  auto operator<=>(const TensorDigest&) const = default;
};

struct Manifest {
  std::vector<FileDigest> files;      // by name
  std::vector<TensorDigest> tensors;  // by name
};

/// Returns a line for each file in sha256sum's form ("DIGEST  NAME"; behind a leading backslash a
/// name has \\, \n and \r for these letters), and a comment "# tensor DIGEST DTYPE [2,3] NAME" for
/// each tensor, whose name is written with the same escapes.
std::string manifest_text(const Manifest& manifest);

/// Reads such a text, or one of sha256sum's own, which has no tensors. Blank lines and other
/// comments are passed over. Throws std::invalid_argument("SOURCE:LINE: ...") for another line, an
/// absolute name, one that leaves the folder by "..", and a name that is there twice.
Manifest parse_manifest(std::string_view text, std::string_view source);

/// The files of a checkpoint whose paths a manifest has, by name: `own` (weights, an index) and, of
/// a checkpoint that is a folder, every regular file in it and in folders below, but hidden ones,
/// what ends in .tmp, and `manifest` itself. Names are relative to `folder`. Files that an existing
/// manifest has `listed` are among them wherever they lie, as for `sha256sum -c`.
std::vector<std::string> manifest_files(const std::filesystem::path& folder,
                                        bool whole_folder,
                                        const std::vector<std::filesystem::path>& own,
                                        const std::filesystem::path& manifest,
                                        const std::vector<FileDigest>& listed = {});

/// Digests files of a folder. Throws std::runtime_error for one that cannot be read. Cost: each
/// file is read once, several at a time.
std::vector<FileDigest> digest_files(const std::filesystem::path& folder,
                                     const std::vector<std::string>& names,
                                     const Reading& reading);

/// Digests the tensors of a checkpoint. Cost: all values are read once, several tensors at a time;
/// memory: 4 MiB a thread.
std::vector<TensorDigest> digest_tensors(const checkpoints::Checkpoint& checkpoint,
                                         const Reading& reading);

/// Compares digests of now with a manifest's. Tensors are compared where the manifest has some.
/// Faults: files and tensors that are changed, missing or not listed. Remarks: that only the files
/// differ, and all values are the same.
CheckReport differences(const Manifest& expected, const Manifest& now);

}  // namespace dimred::verbs
