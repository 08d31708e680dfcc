#include "data/record_index.h"

#include <algorithm>
#include <stdexcept>

#include "data/cache_folder.h"
#include "data/parallel.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/threads.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

fs::path index_file(const RecordFormat& format,
                    const std::vector<MappedFile>& files,
                    const fs::path& cache) {
  std::string key(format.name);
  for (const auto& file : files)
    key += '\0' + fs::absolute(file.path()).lexically_normal().string();
  return cache / formatted("index-{}.bin", digest(std::as_bytes(std::span(key))));
}

std::optional<RecordIndex> load(const fs::path& path, const std::vector<FileIdentity>& identities) {
  if (!fs::is_regular_file(path)) return std::nullopt;
  try {
    auto index = index_from_bytes(MappedFile(path).bytes());
    const bool same = std::ranges::equal(
        index.shards, identities, {}, [](const RecordShard& shard) { return shard.identity; });
    if (same) return index;
  } catch (const std::exception&) {
    // A cache that cannot be used is made again.
  }
  return std::nullopt;
}

ShardScan scan_shard(const RecordFormat& format, const MappedFile& file, RecordShard& shard) {
  file.read_sequentially(true);
  auto scan = format.scan(file.bytes());
  shard = {.identity = file.identity(),
           .digest = digest(std::as_bytes(file.bytes())),
           .samples = std::ssize(scan.entries),
           .remark = scan.remark,
           .misnamed = scan.misnamed,
           .first_misnamed = scan.first_misnamed};
  file.read_sequentially(false);
  return scan;
}

}  // namespace

void ShardScan::add_problem(std::uint64_t offset, std::string text) {
  constexpr std::size_t kept = 100;
  ++problem_count;
  if (problems.size() < kept) problems.push_back({.offset = offset, .text = std::move(text)});
}

std::string problem_text(std::string_view format,
                         const std::string& place,
                         const RecordProblem& first,
                         std::int64_t count) {
  return formatted("[{}] {}, offset {}: {}{} (--on_bad_sample skip leaves such records out)",
                   format,
                   place,
                   first.offset,
                   first.text,
                   count > 1 ? formatted("; and {} more problems", count - 1) : std::string());
}

RecordIndex build_index(const RecordFormat& format, const std::vector<MappedFile>& files) {
  RecordIndex index;
  index.shards.resize(files.size());
  std::vector<ShardScan> scans(files.size());
  // More readers than this only make a disk seek.
  const auto threads = static_cast<std::size_t>(std::min<std::int64_t>(available_threads(), 4));
  in_parallel(files.size(), threads, [&](std::size_t i) {
    scans[i] = scan_shard(format, files[i], index.shards[i]);
  });
  for (std::size_t i = 0; i < scans.size(); ++i) {
    auto& scan = scans[i];
    for (auto& entry : scan.entries) entry.shard = static_cast<std::uint32_t>(i);
    for (auto& problem : scan.problems) problem.shard = static_cast<std::uint32_t>(i);
    index.entries.insert(index.entries.end(), scan.entries.begin(), scan.entries.end());
    std::ranges::move(scan.problems, std::back_inserter(index.problems));
    index.problem_count += scan.problem_count;
    scan = {};
  }
  return index;
}

RecordIndex load_or_build_index(const RecordFormat& format,
                                const std::vector<MappedFile>& files,
                                const fs::path& cache) {
  if (cache.empty()) return build_index(format, files);
  std::vector<FileIdentity> identities;
  identities.reserve(files.size());
  for (const auto& file : files) identities.push_back(file.identity());
  const auto path = index_file(format, files, cache);
  if (auto index = load(path, identities)) return std::move(*index);
  const CacheLock lock(cache);
  if (auto index = load(path, identities)) return std::move(*index);
  auto index = build_index(format, files);
  try {
    write_file_atomically(path, to_bytes(index));
  } catch (const std::runtime_error&) {
    // A full disk costs the next start a pass, not this one its life.
  }
  return index;
}

}  // namespace dimred::data
