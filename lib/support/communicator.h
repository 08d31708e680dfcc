#pragma once

#include <span>
#include <string>
#include <vector>

namespace dimred {

/// The processes (ranks) that work on one task, and what they tell each other: numbers of the host
/// and texts. Every rank calls the same, in the same order, from one thread. An exception from sum
/// or gather (a lost rank) goes through as it is. lib/distributed has the collectives of tensors.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sums over the ranks, in place; the same bits on every rank. For small values: loss sums,
  /// counts, g_k, flags, a Gram matrix.
  virtual void sum(std::span<double> values) = 0;
  /// Every rank's text, in rank order; also a barrier.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
};

/// Rank 0 of 1 for an interface that begins with Communicator's: nothing is copied or sent.
template <class Interface>
class Alone : public Interface {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(std::span<double> /*values*/) override {}
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
};

/// The communicator of a process by itself.
Communicator& alone();

}  // namespace dimred
