#include "checkpoints/verbs/diff_pass.h"

#include <algorithm>

#include "support/byte_progress.h"
#include "support/file_limit.h"
#include "support/parallel.h"

namespace dimred::verbs {
namespace {

using checkpoints::Checkpoint;
using checkpoints::StoredTensor;

// A multiple of 3, so that no element of six bits is cut.
constexpr std::int64_t elements_of_diff_block = 3 << 15;
constexpr std::int64_t blocks_of_piece = 64;

/// Elements of a pair of tensors that one thread compares, block by block.
struct DiffPiece {
  std::size_t pair = 0;
  std::int64_t first = 0;  // elements, or bytes where an element has fewer bits
  std::int64_t count = 0;
};

/// State that the threads share.
class DiffPass {
 public:
  DiffPass(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options)
      : reader_a_(a.files, most_open_files() / 2),
        reader_b_(b.files, most_open_files() / 2),
        options_(options) {}

  std::vector<Distance> run(const TensorPairs& pairs) {
    std::vector<DiffPiece> pieces;
    std::vector<Distance> distances;
    for (const auto& [a, b] : pairs) {
      add_pieces(distances.size(), *a, pieces);
      distances.push_back(compare({a->dtype, {}}, {b->dtype, {}}));
      expect_bytes(options_.progress, a->bytes() + b->bytes());
    }
    std::vector<Distance> parts(pieces.size());
    const auto threads = options_.threads > 0 ? options_.threads : available_threads();
    in_parallel(std::ssize(pieces), threads, [&](std::int64_t i) {
      const auto& [a, b] = pairs[pieces[i].pair];
      parts[i] = compare_piece(*a, *b, pieces[i]);
    });
    // In their order, so that sums do not depend on the threads.
    for (std::size_t i = 0; i < pieces.size(); ++i) distances[pieces[i].pair].add(parts[i]);
    return distances;
  }

 private:
  static void add_pieces(std::size_t pair,
                         const StoredTensor& tensor,
                         std::vector<DiffPiece>& pieces) {
    const auto all = tensor.bytes() / tensor.unit();
    const auto most = blocks_of_piece * elements_of_diff_block;
    for (std::int64_t first = 0; first < all; first += most)
      pieces.push_back({pair, first, std::min(most, all - first)});
  }

  Distance compare_piece(const StoredTensor& a, const StoredTensor& b, const DiffPiece& piece) {
    auto distance = compare({a.dtype, {}}, {b.dtype, {}});
    std::vector<std::byte> bytes_a, bytes_b;
    const auto end = piece.first + piece.count;
    for (auto first = piece.first; first < end; first += elements_of_diff_block) {
      require_running(options_.progress, "[diff] stopped");
      const auto count = std::min(elements_of_diff_block, end - first);
      bytes_a.resize(count * a.unit());
      bytes_b.resize(count * b.unit());
      reader_a_.read(a, first, bytes_a);
      reader_b_.read(b, first, bytes_b);
      distance.add(compare({a.dtype, bytes_a}, {b.dtype, bytes_b}, options_.tolerance));
      add_done(options_.progress, std::ssize(bytes_a) + std::ssize(bytes_b));
    }
    return distance;
  }

  checkpoints::TensorReader reader_a_, reader_b_;
  const DiffOptions& options_;
};

}  // namespace

std::vector<Distance> distances_of(const checkpoints::Checkpoint& a,
                                   const checkpoints::Checkpoint& b,
                                   const TensorPairs& pairs,
                                   const DiffOptions& options) {
  return DiffPass(a, b, options).run(pairs);
}

}  // namespace dimred::verbs
