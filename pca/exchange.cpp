#include "pca/exchange.h"

#include <algorithm>
#include <sstream>

#include "support/errors.h"

namespace dimred::pca {

void on_rank_0(const Ranks& ranks, const std::function<void()>& work) {
  agree(ranks, [&] {
    if (ranks.rank == 0) work();
  });
}

void broadcast_from_rank_0(const Ranks& ranks, std::span<double> values) {
  if (ranks.size == 1) return;
  if (ranks.rank != 0) std::ranges::fill(values, 0.0);
  ranks.sum(values);
}

void sum_lower(const Ranks& ranks, std::span<double> matrix, std::int64_t n, std::int64_t stride) {
  if (ranks.size == 1) return;
  std::vector<double> lower;
  lower.reserve(static_cast<std::size_t>(n * (n + 1) / 2));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = matrix.begin() + i * stride;
    lower.insert(lower.end(), row, row + i + 1);
  }
  ranks.sum(lower);
  auto from = lower.cbegin();
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(from, i + 1, matrix.begin() + i * stride);
    from += i + 1;
  }
}

std::vector<std::string> join_lines(const Ranks& ranks, const std::vector<std::string>& own) {
  if (ranks.size == 1) return own;
  std::string text;
  for (const std::string& line : own) text += line + '\n';
  std::vector<std::string> lines;
  for (const std::string& part : ranks.gather(text)) {
    std::istringstream in(part);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  return lines;
}

void require_same(const Ranks& ranks, std::string_view scope, const std::string& problem) {
  if (ranks.size == 1) return;
  const std::vector<std::string> problems = ranks.gather(problem);
  for (std::size_t rank = 1; rank < problems.size(); ++rank) {
    require(problems[rank] == problems[0],
            "[{}] needs the same on every rank, received {} on rank 0, {} on rank {}",
            scope,
            problems[0],
            problems[rank],
            rank);
  }
}

}  // namespace dimred::pca
