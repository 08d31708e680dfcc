#include "pca/ranks.h"

#include <algorithm>
#include <sstream>

#include "support/errors.h"

namespace dimred::pca {

void agree(const Ranks& ranks, const std::function<void()>& work) {
  if (ranks.size == 1) return work();
  for (const auto& failure : ranks.gather(failure_of(work))) {
    if (!failure.empty()) throw_failure(failure);
  }
}

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

void sum_over(const Ranks& ranks, std::span<double> values) {
  if (ranks.size > 1) ranks.sum(values);
}

std::vector<std::string> join_lines(const Ranks& ranks, const std::vector<std::string>& own) {
  if (ranks.size == 1) return own;
  std::string text;
  for (const auto& line : own) text += line + '\n';
  std::vector<std::string> lines;
  for (const auto& part : ranks.gather(text)) {
    std::istringstream in(part);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  return lines;
}

void require_same(const Ranks& ranks, std::string_view place, const std::string& problem) {
  if (ranks.size == 1) return;
  const auto problems = ranks.gather(problem);
  for (std::size_t rank = 1; rank < problems.size(); ++rank) {
    require(problems[rank] == problems[0],
            "[{}] needs the same on every rank, received {} on rank 0, {} on rank {}",
            place,
            problems[0],
            problems[rank],
            rank);
  }
}

}  // namespace dimred::pca
