#include <algorithm>
#include <span>

#include "pca/ordered_sum.h"
#include "pca/passes.h"
#include "support/digest.h"

namespace dimred::pca {
namespace {

/// Negates `row` at `offset` of the file; returns its new digest.
std::string negate(checkpoints::AtomicFile& file, std::int64_t offset, std::span<float> row) {
  checkpoints::read_exactly(
      file.descriptor(), offset, std::as_writable_bytes(row), file.temporary_path());
  for (float& value : row) value = -value;
  file.write_at(offset, std::as_bytes(row));
  return digest(std::as_bytes(row));
}

}  // namespace

std::string block_digest(std::span<const std::string> rows) {
  DigestStream stream;
  for (const std::string& row : rows) stream.update(std::as_bytes(std::span(row)));
  return stream.hex();
}

std::vector<bool> rows_to_flip(std::vector<RowRange> ranges, const Ranks& ranks) {
  if (ranks.size > 1) {
    // Each rank's ranges at its own place, zeros elsewhere: a sum brings them together exactly.
    std::vector<double> all(2 * ranges.size() * static_cast<std::size_t>(ranks.size));
    auto own = all.begin() + std::ssize(ranges) * 2 * ranks.rank;
    for (const RowRange& range : ranges) {
      *own++ = range.low;
      *own++ = range.high;
    }
    ranks.sum(all);
    for (std::size_t i = 0; i < all.size(); i += 2) {
      RowRange& range = ranges[i / 2 % ranges.size()];
      range.low = std::min(range.low, static_cast<float>(all[i]));
      range.high = std::max(range.high, static_cast<float>(all[i + 1]));
    }
  }
  std::vector<bool> flip(ranges.size());
  std::transform(ranges.begin(), ranges.end(), flip.begin(), [](const RowRange& range) {
    return range.negative();
  });
  return flip;
}

std::vector<std::string> settle_signs(const PassPlan& plan,
                                      const std::vector<bool>& flip,
                                      std::int64_t header_bytes,
                                      Components components,
                                      checkpoints::AtomicFile& file) {
  const std::int64_t columns = plan.source->columns();
  const std::int64_t k = plan.components;
  std::vector<std::string> digests(static_cast<std::size_t>(plan.blocks(kDigestColumns)));
  for_each_index(std::ssize(digests), plan.threads, [&](std::int64_t block) {
    const layout::ColumnRange range = plan.block(block, kDigestColumns);
    std::vector<float> row(static_cast<std::size_t>(range.size()));
    std::vector<std::string> rows;
    for (std::int64_t j = 0; j < k; ++j) {
      const Piece& piece = components.pieces[static_cast<std::size_t>(block * k + j)];
      const bool right = piece.negated == flip[static_cast<std::size_t>(j)];
      const std::int64_t offset = header_bytes + (j * columns + range.begin) * 4;
      rows.push_back(right ? piece.digest : negate(file, offset, row));
    }
    digests[static_cast<std::size_t>(block)] = block_digest(rows);
  });
  return digests;
}

std::vector<std::string> digests_of_file(const PassPlan& plan,
                                         std::int64_t header_bytes,
                                         checkpoints::AtomicFile& file) {
  const std::int64_t columns = plan.source->columns();
  std::vector<std::string> digests(static_cast<std::size_t>(plan.blocks(kDigestColumns)));
  for_each_index(std::ssize(digests), plan.threads, [&](std::int64_t block) {
    const layout::ColumnRange range = plan.block(block, kDigestColumns);
    std::vector<float> row(static_cast<std::size_t>(range.size()));
    std::vector<std::string> rows;
    for (std::int64_t j = 0; j < plan.components; ++j) {
      checkpoints::read_exactly(file.descriptor(),
                                header_bytes + (j * columns + range.begin) * 4,
                                std::as_writable_bytes(std::span(row)),
                                file.temporary_path());
      rows.push_back(digest(std::as_bytes(std::span(row))));
    }
    digests[static_cast<std::size_t>(block)] = block_digest(rows);
  });
  return digests;
}

}  // namespace dimred::pca
