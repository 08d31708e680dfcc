#include "data/record_index.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <tuple>

#include "data/cache_folder.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

fs::path index_file(const RecordFormat& format,
                    const std::vector<MappedFile>& files,
                    const fs::path& cache) {
  std::string key(format.name);
  for (const auto& file : files)
    key += '\0' + fs::absolute(file.path()).lexically_normal().string();
  return cache / formatted("index-{}.bin", digest_of(key));
}

RecordIndex scan_shard(const RecordFormat& format, const MappedFile& file) {
  file.read_sequentially(true);
  auto index = format.scan(file.bytes());
  auto& shard = index.shards.front();
  shard.identity = file.identity();
  shard.digest = digest_of(file.bytes());
  shard.samples = std::ssize(index.entries);
  file.read_sequentially(false);
  return index;
}

constexpr std::string_view index_magic = "DIMREDIX";
constexpr std::uint32_t index_version = 2;

auto fields_of(auto& shard) {
  return std::tie(shard.identity.size,
                  shard.identity.modified,
                  shard.identity.sample,
                  shard.digest,
                  shard.samples,
                  shard.remark,
                  shard.misnamed,
                  shard.first_misnamed);
}

auto fields_of_problem(auto& problem) {
  return std::tie(problem.shard, problem.offset, problem.text);
}

/// Checks what reading relies on: records lie within their files, files come in order with their
/// counts, and the first problem is there where there is any.
bool is_consistent(const RecordIndex& index) {
  std::vector<std::int64_t> samples(index.shards.size(), 0);
  std::uint32_t shard = 0;
  for (const auto& entry : index.entries) {
    if (entry.shard >= index.shards.size() || entry.shard < shard) return false;
    shard = entry.shard;
    const auto size = index.shards[shard].identity.size;
    if (entry.offset > size || entry.size > size - entry.offset) return false;
    ++samples[shard];
  }
  return std::ranges::equal(samples, index.shards, {}, {}, &RecordShard::samples) &&
         std::ranges::all_of(index.problems,
                             [&](const auto& p) { return p.shard < index.shards.size(); }) &&
         index.problems.empty() == (index.problem_count == 0);
}

}  // namespace

void RecordIndex::add_problem(std::uint64_t offset, std::string text) {
  constexpr std::size_t kept = 100;
  ++problem_count;
  if (problems.size() < kept) problems.push_back({.offset = offset, .text = std::move(text)});
}

void RecordIndex::add(RecordIndex more) {
  for (auto& entry : more.entries) entry.shard += shards.size();
  for (auto& problem : more.problems) problem.shard += shards.size();
  std::ranges::move(more.shards, std::back_inserter(shards));
  entries.insert(entries.end(), more.entries.begin(), more.entries.end());
  std::ranges::move(more.problems, std::back_inserter(problems));
  problem_count += more.problem_count;
}

std::string rule_of(const std::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::string problem_text(std::string_view format,
                         const std::string& origin,
                         const RecordProblem& first,
                         std::int64_t count) {
  return formatted("[{}] {}, offset {}: {}{} (--on_bad_sample skip skips such records)",
                   format,
                   origin,
                   first.offset,
                   first.text,
                   count > 1 ? formatted("; and {} more problems", count - 1) : "");
}

RecordIndex cached_index(const fs::path& file) {
  try {
    if (fs::is_regular_file(file)) return index_from_bytes(MappedFile(file).bytes());
  } catch (const std::exception&) {
    // It is made again.
  }
  return {};
}

RecordIndex build_index(const RecordFormat& format, const std::vector<MappedFile>& files) {
  std::vector<RecordIndex> parts(files.size());
  // More readers than this only make a disk seek.
  in_parallel(files.size(), std::min<std::size_t>(available_threads(), 4), [&](std::size_t i) {
    parts[i] = scan_shard(format, files[i]);
  });
  RecordIndex index;
  for (auto& part : parts) index.add(std::move(part));
  return index;
}

RecordIndex load_or_build_index(const RecordFormat& format,
                                const std::vector<MappedFile>& files,
                                const fs::path& cache) {
  if (cache.empty()) return build_index(format, files);
  std::vector<FileIdentity> identities;
  for (const auto& file : files) identities.push_back(file.identity());
  const auto is_of_files = [&](const RecordIndex& index) {
    return std::ranges::equal(index.shards, identities, {}, &RecordShard::identity);
  };
  const auto path = index_file(format, files, cache);
  auto index = cached_index(path);
  if (is_of_files(index)) return index;
  const CacheLock lock(cache);
  index = cached_index(path);
  if (is_of_files(index)) return index;
  index = build_index(format, files);
  try {
    write_file_atomically(path, to_bytes(index));
  } catch (const std::runtime_error&) {
    // A full disk costs the next start a pass, not this one its life.
  }
  return index;
}

std::string sealed(std::string_view magic, std::uint32_t version, const std::string& body) {
  std::string out(magic);
  append(out, version);
  return out + digest_of(body) + body;
}

ByteReader unsealed(Bytes bytes,
                    std::string_view magic,
                    std::uint32_t version,
                    std::string_view name) {
  constexpr std::size_t digest_size = 32;
  ByteReader in(bytes, "index");
  require_environment(
      text_of(in.take(magic.size())) == magic && in.number<std::uint32_t>() == version,
      "[index] the file is not {} of version {}",
      name,
      version);
  const auto expected = in.take(digest_size);
  require_environment(text_of(expected) == digest_of(bytes.last(in.left())),
                      "[index] the index is damaged: its contents do not match its digest");
  return in;
}

std::string to_bytes(const RecordIndex& index) {
  std::string body;
  append(body, index.shards.size());
  for (const auto& shard : index.shards) append(body, fields_of(shard));
  append(body, index.entries);
  append(body, index.problems.size());
  for (const auto& problem : index.problems) append(body, fields_of_problem(problem));
  append(body, index.problem_count);
  return sealed(index_magic, index_version, body);
}

RecordIndex index_from_bytes(Bytes bytes) {
  auto in = unsealed(bytes, index_magic, index_version, "an index");
  RecordIndex index;
  index.shards.resize(in.count(64));
  for (auto& shard : index.shards) in.read(fields_of(shard));
  in.read(index.entries);
  index.problems.resize(in.count(20));
  for (auto& problem : index.problems) in.read(fields_of_problem(problem));
  in.read(index.problem_count);
  require_environment(is_consistent(index),
                      "[index] the index is damaged: some records lie outside their files");
  return index;
}

}  // namespace dimred::data
