#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/binary.h"
#include "support/bytes.h"
#include "support/mapped_file.h"

// Where the samples of record files (TFRecord shards, Base64 part files) lie: found in one pass
// over the files, which checks every record, and kept in a cache.
namespace dimred::data {

/// One sample's record. `offset` and `size` are of the bytes that its format reads: the whole
/// record of a TFRecord file, the Base64 text of a line.
struct RecordEntry {
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  std::uint32_t shard = 0;
  std::int64_t label = 0;  // as stored
};

/// A problem in a file, and its offset.
struct RecordProblem {
  std::uint32_t shard = 0;
  std::uint64_t offset = 0;
  std::string text;
};

struct RecordShard {
  FileIdentity identity;
  std::string digest;  // XXH3-128 of the content
  std::int64_t samples = 0;
  std::string remark;                // "label first": what the pass found out about the file
  std::int64_t misnamed = 0;         // entries that hold another format than they say
  std::uint64_t first_misnamed = 0;  // offset of the first of them
};

struct RecordIndex {
  std::vector<RecordShard> shards;      // in the order of the files
  std::vector<RecordEntry> entries;     // shard after shard, by offset
  std::vector<RecordProblem> problems;  // the first 100 of each shard
  std::int64_t problem_count = 0;

  /// The index must have one shard, which gets the problem.
  void add_problem(std::uint64_t offset, std::string text);
  /// Another index's shards behind the own.
  void add(RecordIndex more);
};

/// How to find the records of one format. `scan` is called from several threads; of its only shard
/// it sets what a look at the bytes alone tells.
struct RecordFormat {
  std::string_view name;  // "tfrecord"
  RecordIndex (*scan)(Bytes file);
};

/// The index of `files`: that in `cache` if it is whole and the files are still the same (size,
/// time of change, sampled content), else by one pass over all files, up to four at a time, written
/// to `cache` under a name made of the format and the paths. One process of a host builds it, the
/// others wait for it (a lock file). Without a cache folder (empty) nothing is kept. Never throws
/// for what the files hold: that is in `problems`. Cost: one read of all bytes; memory 24 bytes a
/// sample.
RecordIndex load_or_build_index(const RecordFormat& format,
                                const std::vector<MappedFile>& files,
                                const std::filesystem::path& cache);

/// Returns the contents of a cache file; no shards if it has to be made again.
RecordIndex cached_index(const std::filesystem::path& file);

/// The pass alone.
RecordIndex build_index(const RecordFormat& format, const std::vector<MappedFile>& files);

/// The text of an error of ours without its "[scope] ", as a problem has it.
std::string rule_of(const std::exception& error);

/// The message about `count` problems; the first one lies in the file `origin`: "[format] ORIGIN,
/// offset N: rule; and K more problems (...)".
std::string problem_text(std::string_view format,
                         const std::string& origin,
                         const RecordProblem& first,
                         std::int64_t count);

/// A file of ours: magic, version, XXH3-128 of the body, the body.
std::string sealed(std::string_view magic, std::uint32_t version, const std::string& body);
/// The body. Throws std::runtime_error("[index] ...") unless it is whole and of this version;
/// `name` says what it is.
ByteReader unsealed(Bytes bytes,
                    std::string_view magic,
                    std::uint32_t version,
                    std::string_view name);

// The cache file's content: "DIMREDIX", version, XXH3-128 of the rest, the rest.
std::string to_bytes(const RecordIndex& index);
/// Throws std::runtime_error("[index] ...") unless the bytes are whole.
RecordIndex index_from_bytes(Bytes bytes);

}  // namespace dimred::data
