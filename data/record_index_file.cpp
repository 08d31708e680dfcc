#include <algorithm>

#include "data/bytes.h"
#include "data/record_index.h"
#include "support/digest.h"

// The cache file of an index.
namespace dimred::data {
namespace {

constexpr std::string_view index_magic = "DIMREDIX";
constexpr std::uint32_t index_version = 2;
constexpr std::size_t digest_size = 32;

void append_shard(std::string& out, const RecordShard& shard) {
  append_number(out, shard.identity.size);
  append_number(out, shard.identity.modified);
  append_text(out, shard.identity.sample);
  append_text(out, shard.digest);
  append_number(out, shard.samples);
  append_text(out, shard.remark);
  append_number(out, shard.misnamed);
  append_number(out, shard.first_misnamed);
}

RecordShard read_shard(ByteReader& in) {
  RecordShard shard;
  shard.identity.size = in.number<std::uint64_t>();
  shard.identity.modified = in.number<std::int64_t>();
  shard.identity.sample = in.text();
  shard.digest = in.text();
  shard.samples = in.number<std::int64_t>();
  shard.remark = in.text();
  shard.misnamed = in.number<std::int64_t>();
  shard.first_misnamed = in.number<std::uint64_t>();
  return shard;
}

void append_entry(std::string& out, const RecordEntry& entry) {
  append_number(out, entry.offset);
  append_number(out, entry.size);
  append_number(out, entry.shard);
  append_number(out, entry.label);
}

RecordEntry read_entry(ByteReader& in) {
  RecordEntry entry;
  entry.offset = in.number<std::uint64_t>();
  entry.size = in.number<std::uint32_t>();
  entry.shard = in.number<std::uint32_t>();
  entry.label = in.number<std::int64_t>();
  return entry;
}

/// What reading relies on: records lie within their files, files come in order with their counts.
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
                             [&](const auto& p) { return p.shard < index.shards.size(); });
}

}  // namespace

std::string to_bytes(const RecordIndex& index) {
  std::string body;
  append_number(body, std::uint64_t{index.shards.size()});
  for (const auto& shard : index.shards) append_shard(body, shard);
  append_number(body, std::uint64_t{index.entries.size()});
  for (const auto& entry : index.entries) append_entry(body, entry);
  append_number(body, std::uint64_t{index.problems.size()});
  for (const auto& problem : index.problems) {
    append_number(body, problem.shard);
    append_number(body, problem.offset);
    append_text(body, problem.text);
  }
  append_number(body, index.problem_count);
  std::string out(index_magic);
  append_number(out, index_version);
  return out + digest(std::as_bytes(std::span(body))) + body;
}

RecordIndex index_from_bytes(std::span<const std::uint8_t> bytes) {
  ByteReader in(bytes, "index");
  require_environment(std::ranges::equal(in.take(index_magic.size()), index_magic) &&
                          in.number<std::uint32_t>() == index_version,
                      "[index] needs an index of version {}",
                      index_version);
  const auto expected = in.take(digest_size);
  const auto body = bytes.last(in.left());
  require_environment(std::ranges::equal(expected, digest(std::as_bytes(body))),
                      "[index] is damaged: its digest differs");
  RecordIndex index;
  index.shards.resize(in.count(64));
  for (auto& shard : index.shards) shard = read_shard(in);
  index.entries.resize(in.count(24));
  for (auto& entry : index.entries) entry = read_entry(in);
  index.problems.resize(in.count(20));
  for (auto& problem : index.problems) {
    problem.shard = in.number<std::uint32_t>();
    problem.offset = in.number<std::uint64_t>();
    problem.text = in.text();
  }
  index.problem_count = in.number<std::int64_t>();
  require_environment(is_consistent(index), "[index] is damaged: records lie outside their files");
  return index;
}

}  // namespace dimred::data
