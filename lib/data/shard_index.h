#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "data/record_index.h"
#include "data/shard_source.h"
#include "support/bytes.h"

// The index of files that lie elsewhere: one for each file, so that each can be known without the
// others.
namespace dimred::data {

/// The file beside those of a folder that holds their indices by name, made by `dimred data index`.
inline constexpr auto shards_index_name = "shards.index";

struct IndexedShard {
  std::int64_t bytes = 0;  // of the file as it lies there, compressed or not
  RecordIndex index;       // of this file alone
};
using ShardIndices = std::map<std::string, IndexedShard>;

// The content of shards.index: "DIMREDSX", version, XXH3-128 of the rest, the rest.
std::string to_bytes(const ShardIndices& indices);
/// Throws std::runtime_error("[index] ...") unless the bytes are whole.
ShardIndices indices_from_bytes(Bytes bytes);

/// Returns the folder for indices of a source's files: `chosen`, or a folder of the source's.
/// Created.
std::filesystem::path index_cache(const ShardSource& source, const std::filesystem::path& chosen);

/// The index of all files of the source. Each entry comes from `cache` for this version of the
/// file; else from `beside` (a shards.index, which may not be there) of a file of this length; else
/// by fetching the file and one pass over it, which is written to `cache`. One process of a host
/// does it, the others wait. Throws FetchFailed, and std::runtime_error for a damaged `beside`.
RecordIndex load_or_build_index(const RecordFormat& format,
                                ShardSource& source,
                                const std::filesystem::path& beside,
                                const std::filesystem::path& cache);

/// The indices of the TFRecord shards of the training set at `path` (a place for find_shards, or
/// one that is streamed), each as load_or_build_index() finds it, but for a shards.index that may
/// lie beside them, in whose place they are meant to come; by their names below the folder that
/// `path` is, or lies in. Throws as these; std::runtime_error for bad records, which name file and
/// offset, unless they are to be left out (`skip_bad`), and where no good one is left.
ShardIndices index_shards(const std::filesystem::path& path,
                          const std::filesystem::path& cache,
                          bool skip_bad = false);

}  // namespace dimred::data
