#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dimred::pca {

/// How several processes, which share a file system, share the work; the default is one process
/// alone. Each calls the same functions with the same arguments. An exception from sum or gather
/// (a lost rank) goes through as it is.
struct Ranks {
  int rank = 0;
  int size = 1;
  /// Sums over the ranks, in place; the same bits on every rank. Empty with one rank.
  std::function<void(std::span<double>)> sum;
  /// Every rank's text, in rank order; also a barrier. Empty with one rank.
  std::function<std::vector<std::string>(const std::string&)> gather;
};

/// Runs `work`, which calls neither sum nor gather, on every rank and waits for all. When it throws
/// on any, every rank throws the first such rank's error: its text, as std::invalid_argument (the
/// caller's fault), std::logic_error (our bug) or std::runtime_error (everything else).
/// One rank alone throws the error itself.
void agree(const Ranks& ranks, const std::function<void()>& work);

/// `work` on rank 0 alone; the others wait, and throw what it throws (as agree).
void on_rank_0(const Ranks& ranks, const std::function<void()>& work);

/// Gives every rank what rank 0 holds: the others add zeros, so that processors which would compute
/// something else by the same code go on from the same values.
void broadcast_from_rank_0(const Ranks& ranks, std::span<double> values);

/// Sums over the ranks, in place.
void sum_over(const Ranks& ranks, std::span<double> values);

/// The lines of all ranks, rank 0's first.
std::vector<std::string> join_lines(const Ranks& ranks, const std::vector<std::string>& own);

/// Throws std::invalid_argument unless every rank gives the same text: sums of different problems
/// would mix what has nothing to do with each other.
void require_same(const Ranks& ranks, std::string_view place, const std::string& problem);

}  // namespace dimred::pca
