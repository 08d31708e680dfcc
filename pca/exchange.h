#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pca/ranks.h"

// The exchanges between a fit's ranks; with one rank nothing happens.
namespace dimred::pca {

/// `work` on rank 0 alone; the others wait, and throw what it throws (as agree).
void on_rank_0(const Ranks& ranks, const std::function<void()>& work);

/// Gives every rank what rank 0 holds: the others add zeros, so that processors which would compute
/// something else by the same code go on from the same values.
void broadcast_from_rank_0(const Ranks& ranks, std::span<double> values);

/// Sums the lower triangle matrix[i * stride + j], j <= i < n, over the ranks. `stride` may differ
/// between them (it does between processors: kernels pad to their own registers).
void sum_lower(const Ranks& ranks, std::span<double> matrix, std::int64_t n, std::int64_t stride);

/// The lines of all ranks, rank 0's first.
std::vector<std::string> join_lines(const Ranks& ranks, const std::vector<std::string>& own);

/// Throws std::invalid_argument unless every rank gives the same text: sums of different problems
/// would mix what has nothing to do with each other.
void require_same(const Ranks& ranks, std::string_view scope, const std::string& problem);

}  // namespace dimred::pca
