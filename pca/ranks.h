#pragma once

#include <functional>
#include <span>
#include <string>
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

}  // namespace dimred::pca
