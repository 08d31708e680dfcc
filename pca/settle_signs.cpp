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

std::vector<std::string> settle_signs(const PassPlan& plan,
                                      const std::vector<bool>& flip,
                                      std::int64_t header_bytes,
                                      Components components,
                                      checkpoints::AtomicFile& file) {
  const std::int64_t columns = plan.source->columns();
  const std::int64_t k = plan.components;
  std::vector<std::string> digests(components.pieces.size() / static_cast<std::size_t>(k));
  for_each_index(std::ssize(digests), plan.threads, [&](std::int64_t block) {
    const std::int64_t begin = block * kDigestColumns;
    std::vector<float> row(static_cast<std::size_t>(std::min(kDigestColumns, columns - begin)));
    std::vector<std::string> rows;
    for (std::int64_t j = 0; j < k; ++j) {
      const Piece& piece = components.pieces[static_cast<std::size_t>(block * k + j)];
      const bool right = piece.negated == flip[static_cast<std::size_t>(j)];
      const std::int64_t offset = header_bytes + (j * columns + begin) * 4;
      rows.push_back(right ? piece.digest : negate(file, offset, row));
    }
    digests[static_cast<std::size_t>(block)] = block_digest(rows);
  });
  return digests;
}

}  // namespace dimred::pca
