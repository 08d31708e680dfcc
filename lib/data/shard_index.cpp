#include "data/shard_index.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>

#include "data/cache_folder.h"
#include "data/inflated_file.h"
#include "data/shard_names.h"
#include "data/streamed_files.h"
#include "data/tfrecord_format.h"
#include "support/atomic_file.h"
#include "support/binary.h"
#include "support/counted.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view shards_magic = "DIMREDSX";
constexpr std::uint32_t shards_version = 1;

fs::path shard_index_file(const RecordFormat& format,
                          const RemoteShard& shard,
                          const fs::path& cache) {
  const auto key = formatted(
      "{}\n{}\n{}\n{}\n{}", format.name, shard.url, shard.name, shard.bytes, shard.version);
  return cache / formatted("shard-{}.bin", digest_of(key));
}

/// `where` stands for it in messages.
ShardIndices read_beside(const fs::path& file, const std::string& where) {
  if (!fs::is_regular_file(file)) return {};
  try {
    return indices_from_bytes(MappedFile(file).bytes());
  } catch (const std::runtime_error& error) {
    fail_environment("[index] {}: {}; write the index again with `dimred data index --overwrite`",
                     where,
                     rule_of(error));
  }
}

using Fetched = std::vector<std::atomic<bool>>;

/// `fetched` says whether this process has fetched it. A file that an earlier start has left is
/// believed as far as nothing is wrong with it; else it may be the copy that is damaged, not the
/// file.
RecordIndex scan(const RecordFormat& format,
                 ShardSource& source,
                 std::size_t shard,
                 const Fetched& fetched) {
  const auto bytes = source.shards()[shard].bytes;
  while (true) {
    const auto file = source.get({shard, bytes}, reads_are_stopped);
    const bool fresh = fetched[shard];
    std::vector<MappedFile> files;
    try {
      files.emplace_back(file);
    } catch (const std::invalid_argument&) {
      continue;  // it has given way to another one since then
    }
    if (fresh || std::ssize(files.front().bytes()) == bytes) {
      auto index = build_index(format, files);
      if (fresh || index.problem_count == 0) return index;
    }
    source.drop(shard);  // of another length: damaged, or gz, whose own length nobody knows yet
  }
}

bool is_known(const RecordIndex& index) { return index.shards.size() == 1; }

/// Entries that need no fetch; the others are not known.
std::vector<RecordIndex> known_indices(const RecordFormat& format,
                                       const ShardSource& source,
                                       const ShardIndices& beside,
                                       const fs::path& cache) {
  std::vector<RecordIndex> known;
  for (const auto& shard : source.shards()) {
    known.push_back(cached_index(shard_index_file(format, shard, cache)));
    const auto found = beside.find(shard.name);
    if (!is_known(known.back()) && found != beside.end() && found->second.bytes == shard.bytes)
      known.back() = found->second.index;
  }
  return known;
}

/// The others', by one pass over each.
void scan_unknown(const RecordFormat& format,
                  ShardSource& source,
                  const fs::path& cache,
                  std::vector<RecordIndex>& known) {
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (!is_known(known[i])) unknown.push_back(i);
  if (unknown.empty()) return;
  const auto urls = texts_of(source.shards(), &RemoteShard::url);
  const auto fetched = std::make_shared<Fetched>(urls.size());
  source.on_arrival([urls, fetched](std::size_t shard, const fs::path& file) {
    make_ready(file, urls[shard], /*digest=*/"");
    (*fetched)[shard] = true;
  });
  std::int64_t largest = 1;
  for (const auto& shard : source.shards()) largest = std::max(largest, shard.bytes);
  // As many as of files that are here, where none of them pushes another one out.
  const auto at_a_time = std::clamp<std::int64_t>(source.room() / largest, 1, 4);
  in_parallel(unknown.size(), at_a_time, [&](std::size_t i) {
    const auto shard = unknown[i];
    known[shard] = scan(format, source, shard, *fetched);
    write_file_atomically(shard_index_file(format, source.shards()[shard], cache),
                          to_bytes(known[shard]));
  });
}

/// The indices of all files as far as they are known. `beside` may be empty.
std::vector<RecordIndex> indices_of(const RecordFormat& format,
                                    ShardSource& source,
                                    const fs::path& beside,
                                    const fs::path& cache) {
  const auto others = read_beside(beside, source.url_of(shards_index_name));
  const CacheLock lock(cache);
  auto known = known_indices(format, source, others, cache);
  scan_unknown(format, source, cache, known);
  return known;
}

/// The contents of all files together.
struct Contents {
  std::int64_t samples = 0, problems = 0;
  std::string first_url;  // the first file, then the first with a problem
  RecordProblem first;

  void add(const RecordIndex& index, const std::string& url) {
    samples += std::ssize(index.entries);
    const bool bad = problems == 0 && index.problem_count > 0;
    if (bad) first = index.problems.front();
    if (bad || first_url.empty()) first_url = url;
    problems += index.problem_count;
  }

  void require_good(bool skip_bad) const {
    if (problems > 0 && !skip_bad)
      throw std::runtime_error(problem_text(tfrecord_format.name, first_url, first, problems));
    require_environment(samples > 0,
                        "[{}] {}: needs at least one good record, received {}",
                        tfrecord_format.name,
                        first_url,
                        counted(problems, "bad one"));
  }
};

}  // namespace

fs::path index_cache(const ShardSource& source, const fs::path& chosen) {
  return cache_folder({}, chosen.empty() ? source.folder() / "index" : chosen);
}

std::string to_bytes(const ShardIndices& indices) {
  std::string body;
  append(body, indices.size());
  for (const auto& [name, one] : indices)
    append(body, std::tuple(name, one.bytes, to_bytes(one.index)));
  return sealed(shards_magic, shards_version, body);
}

ShardIndices indices_from_bytes(Bytes bytes) {
  auto in = unsealed(bytes, shards_magic, shards_version, formatted("a {}", shards_index_name));
  ShardIndices indices;
  for (auto left = in.count(24); left > 0; --left) {
    std::string name, index;
    std::int64_t size = 0;
    in.read(std::tie(name, size, index));
    auto& one = indices[name] = {size, index_from_bytes(bytes_of(index))};
    require_environment(is_known(one.index),
                        "[index] the index is damaged: the entry of one shard describes two files");
  }
  return indices;
}

RecordIndex load_or_build_index(const RecordFormat& format,
                                ShardSource& source,
                                const fs::path& beside,
                                const fs::path& cache) {
  RecordIndex whole;
  for (auto& index : indices_of(format, source, beside, cache)) whole.add(std::move(index));
  return whole;
}

ShardIndices index_shards(const fs::path& path, const fs::path& cache, bool skip_bad) {
  const auto folder = fs::is_directory(path) ? path : path.parent_path();
  ShardIndices indices;
  Contents contents;
  if (const auto source = source_of(path)) {
    auto found = indices_of(tfrecord_format, *source, /*beside=*/{}, index_cache(*source, cache));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& shard = source->shards()[i];
      contents.add(found[i], shard.url);
      indices[shard.name] = {shard.bytes, std::move(found[i])};
    }
  } else {
    for (const auto& file : find_shards(path, /*train=*/true)) {
      std::vector<MappedFile> files;
      files.emplace_back(inflated(file, cache));
      auto index =
          load_or_build_index(tfrecord_format, files, cache_folder(file.parent_path(), cache));
      contents.add(index, path_text(file));
      auto& one = indices[file.lexically_relative(folder).string()];
      one.bytes = fs::file_size(file);
      one.index = std::move(index);
    }
  }
  contents.require_good(skip_bad);
  return indices;
}

}  // namespace dimred::data
