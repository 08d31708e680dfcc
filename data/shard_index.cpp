#include "data/shard_index.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "data/bytes.h"
#include "data/cache_folder.h"
#include "data/inflated_file.h"
#include "data/marks.h"
#include "data/parallel.h"
#include "data/paths.h"
#include "data/record_readers.h"
#include "data/streamed_files.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view shards_magic = "DIMREDSX";
constexpr std::uint32_t shards_version = 1;
constexpr std::size_t shards_digest_size = 32;

fs::path index_file(const RecordFormat& format, const RemoteShard& shard, const fs::path& cache) {
  const auto key = formatted(
      "{}\n{}\n{}\n{}\n{}", format.name, shard.place, shard.name, shard.bytes, shard.version);
  return cache / formatted("shard-{}.bin", digest(std::as_bytes(std::span(key))));
}

std::optional<RecordIndex> load(const fs::path& file) {
  if (!fs::is_regular_file(file)) return std::nullopt;
  try {
    auto index = index_from_bytes(MappedFile(file).bytes());
    if (index.shards.size() == 1) return index;
  } catch (const std::exception&) {
    // A cache that cannot be used is made again.
  }
  return std::nullopt;
}

/// `where` stands for it in messages.
ShardIndices read_beside(const fs::path& file, const std::string& where) {
  if (!fs::is_regular_file(file)) return {};
  try {
    return indices_from_bytes(MappedFile(file).bytes());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(formatted(
        "{}: {} (`dimred data index` with --overwrite makes it anew)", error.what(), where));
  }
}

/// `fetched` says whether this process has fetched it. What an earlier start has left is believed
/// as far as nothing is wrong with it; else it may be the copy that is damaged, not the file.
RecordIndex scan(const RecordFormat& format,
                 ShardSource& source,
                 std::size_t shard,
                 const Marks& fetched) {
  const auto bytes = source.shards()[shard].bytes;
  while (true) {
    const auto file = source.get({shard, bytes}, reads_are_stopped);
    const bool fresh = fetched.has(shard);
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

void append(RecordIndex& whole, RecordIndex part) {
  const auto shard = static_cast<std::uint32_t>(whole.shards.size());
  for (auto& entry : part.entries) entry.shard = shard;
  for (auto& problem : part.problems) problem.shard = shard;
  std::ranges::move(part.shards, std::back_inserter(whole.shards));
  whole.entries.insert(whole.entries.end(), part.entries.begin(), part.entries.end());
  std::ranges::move(part.problems, std::back_inserter(whole.problems));
  whole.problem_count += part.problem_count;
}

/// What needs no fetch: nullopt for the others.
std::vector<std::optional<RecordIndex>> known_indices(const RecordFormat& format,
                                                      const ShardSource& source,
                                                      const ShardIndices& beside,
                                                      const fs::path& cache) {
  std::vector<std::optional<RecordIndex>> known;
  for (const auto& shard : source.shards()) {
    known.push_back(load(index_file(format, shard, cache)));
    const auto found = beside.find(shard.name);
    if (!known.back() && found != beside.end() && found->second.bytes == shard.bytes)
      known.back() = found->second.index;
  }
  return known;
}

/// The others', by one pass over each.
void scan_unknown(const RecordFormat& format,
                  ShardSource& source,
                  const fs::path& cache,
                  std::vector<std::optional<RecordIndex>>& known) {
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (!known[i]) unknown.push_back(i);
  if (unknown.empty()) return;
  std::vector<std::string> places;
  for (const auto& shard : source.shards()) places.push_back(shard.place);
  const auto fetched = std::make_shared<const Marks>(places.size());
  source.on_arrival([places, fetched](std::size_t shard, const fs::path& file) {
    make_ready(file, places[shard], /*digest=*/"");
    fetched->set(shard);
  });
  std::int64_t largest = 1;
  for (const auto& shard : source.shards()) largest = std::max(largest, shard.bytes);
  // As many as of files that are here, where none of them pushes another one out.
  const auto at_a_time = std::clamp<std::int64_t>(source.room() / largest, 1, 4);
  in_parallel(unknown.size(), static_cast<std::size_t>(at_a_time), [&](std::size_t i) {
    const auto shard = unknown[i];
    auto index = scan(format, source, shard, *fetched);
    write_file_atomically(index_file(format, source.shards()[shard], cache), to_bytes(index));
    known[shard] = std::move(index);
  });
}

/// Of every file, all known. `beside` may be empty.
std::vector<std::optional<RecordIndex>> indices_of(const RecordFormat& format,
                                                   ShardSource& source,
                                                   const fs::path& beside,
                                                   const fs::path& cache) {
  const auto others = read_beside(beside, source.place_of(shards_index_name));
  const CacheLock lock(cache);
  auto known = known_indices(format, source, others, cache);
  scan_unknown(format, source, cache, known);
  return known;
}

/// What all files together hold.
struct Contents {
  std::int64_t samples = 0, problems = 0;
  std::string first_place;  // the first file, then the first with a problem
  RecordProblem first;

  void add(const RecordIndex& index, const std::string& place) {
    samples += std::ssize(index.entries);
    const bool bad = problems == 0 && index.problem_count > 0;
    if (bad) first = index.problems.front();
    if (bad || first_place.empty()) first_place = place;
    problems += index.problem_count;
  }

  void require_good(bool skip_bad) const {
    if (problems > 0 && !skip_bad)
      throw std::runtime_error(problem_text(tfrecord_format.name, first_place, first, problems));
    require_environment(samples > 0,
                        "[{}] {}: needs at least one good record, received {} bad ones",
                        tfrecord_format.name,
                        first_place,
                        problems);
  }
};

}  // namespace

fs::path index_cache(const ShardSource& source, const fs::path& chosen) {
  return cache_folder({}, chosen.empty() ? source.folder() / "index" : chosen);
}

std::string to_bytes(const ShardIndices& indices) {
  std::string body;
  append_number(body, std::uint64_t{indices.size()});
  for (const auto& [name, one] : indices) {
    append_text(body, name);
    append_number(body, one.bytes);
    append_text(body, to_bytes(one.index));
  }
  std::string out(shards_magic);
  append_number(out, shards_version);
  return out + digest(std::as_bytes(std::span(body))) + body;
}

ShardIndices indices_from_bytes(std::span<const std::uint8_t> bytes) {
  ByteReader in(bytes, "index");
  require_environment(std::ranges::equal(in.take(shards_magic.size()), shards_magic) &&
                          in.number<std::uint32_t>() == shards_version,
                      "[index] needs a {} of version {}",
                      shards_index_name,
                      shards_version);
  const auto expected = in.take(shards_digest_size);
  require_environment(std::ranges::equal(expected, digest(std::as_bytes(bytes.last(in.left())))),
                      "[index] is damaged: its digest differs");
  ShardIndices indices;
  for (auto left = in.count(24); left > 0; --left) {
    const auto name = in.text();
    auto& one = indices[name];
    one.bytes = in.number<std::int64_t>();
    one.index = index_from_bytes(in.take(in.number<std::uint64_t>()));
    require_environment(one.index.shards.size() == 1, "[index] is damaged: an index of two files");
  }
  return indices;
}

RecordIndex load_or_build_index(const RecordFormat& format,
                                ShardSource& source,
                                const fs::path& beside,
                                const fs::path& cache) {
  RecordIndex whole;
  for (auto& index : indices_of(format, source, beside, cache)) append(whole, std::move(*index));
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
      contents.add(*found[i], shard.place);
      indices[shard.name] = {shard.bytes, std::move(*found[i])};
    }
  } else {
    for (const auto& file : find_shards(path, /*train=*/true)) {
      std::vector<MappedFile> files;
      files.emplace_back(inflated(file, cache));
      auto index =
          load_or_build_index(tfrecord_format, files, cache_folder(file.parent_path(), cache));
      contents.add(index, path_text(file));
      indices[file.lexically_relative(folder).string()] = {
          static_cast<std::int64_t>(fs::file_size(file)), std::move(index)};
    }
  }
  contents.require_good(skip_bad);
  return indices;
}

}  // namespace dimred::data
