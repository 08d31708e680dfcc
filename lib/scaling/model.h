#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The cost of the method on R ranks: bytes sent, memory and seconds, predicted from a dozen
// numbers. docs/explanation/scaling.md says what is counted and what is assumed.
namespace dimred::scaling {

enum class BasisType { float32, bfloat16 };

/// The network and the method.
struct Problem {
  std::int64_t parameters = 0;                 // M in [1, 1e13]
  std::int64_t components = 32;                // k in [1, 1e4]
  std::int64_t snapshots = 60;                 // n in [k + 1, 1e4]
  std::int64_t trials = 1;                     // of a line search, [0, 1000]
  BasisType basis = BasisType::float32;        // of P in memory
  std::int64_t optimizer_vectors = 1;          // stage 1's, [0, 16]: SGD with momentum 1, Adam 2
  std::int64_t number_bytes = 4;               // of an entry of every other vector of M, [1, 4]
  std::optional<double> compute_seconds = {};  // > 0; forward and backward of one rank's batch
};

/// Speeds are bytes/s each way at the same time; they and sizes in bytes lie in (0, 1e18).
struct Machine {
  std::int64_t ranks = 1;           // R in [1, 1e5]
  std::int64_t ranks_per_node = 8;  // >= 1
  double bandwidth = 300e9;         // what a rank sends to ranks of its node
  double node_bandwidth = 50e9;     // what a rank sends to other nodes
  double memory_bandwidth = 4.8e12;
  double read_bandwidth = 2e9;        // of the snapshots' disk, all ranks together
  double latency = 1e-5;              // seconds >= 0 from rank to rank, of a small message
  std::optional<double> memory = {};  // bytes of a rank's device
  std::optional<double> disk = {};    // bytes for snapshots and matrix
};

/// One step of one rank; bytes are the average over ranks.
struct StepCost {
  std::string scheme;
  std::int64_t wire_bytes = 0;
  double wire_seconds = 0;     // of the vectors of M
  double hidden_seconds = 0;   // of these, at best behind the backward pass
  double sums_seconds = 0;     // latency of the small sums
  double basis_seconds = 0;    // P read twice
  double passes_seconds = 0;   // element-wise passes over vectors
  double compute_seconds = 0;  // forward and backward, and a forward pass each trial
  double seconds() const;
};

/// Bytes of one rank's device, without activations and the communication library's buffers.
struct MemoryCost {
  std::int64_t whole_vectors = 0;  // of M each, that every rank holds
  std::int64_t whole = 0;          // these
  std::int64_t shared = 0;         // what shrinks with R: basis, momentum, own vectors
  std::int64_t basis = 0;          // P's part of it
  std::int64_t total() const { return whole + shared; }
};

/// One fit.
struct PcaCost {
  std::int64_t snapshots_bytes = 0;  // on disk
  std::int64_t matrix_bytes = 0;     // on disk, float32
  std::int64_t read_bytes = 0;       // by all ranks together
  double read_seconds = 0;
  std::int64_t gram_bytes = 0;  // of one float64 Gram matrix
  std::int64_t wire_bytes = 0;  // per rank: sums, and the digests of the matrix's blocks
};

struct CostPrediction {
  StepCost stage1, robust, presets;
  StepCost mindspore;  // wire alone
  MemoryCost stage1_memory, robust_memory, presets_memory;
  PcaCost pca;
};

/// Throws std::invalid_argument("[scaling] rule, received value") for values out of the ranges
/// above.
CostPrediction predict(const Problem& problem, const Machine& machine);

/// A line for each way in which the design breaks at these numbers; empty: it holds, as far as the
/// optional numbers that were given tell.
std::vector<std::string> limits(const Problem& problem,
                                const Machine& machine,
                                const CostPrediction& prediction);

// Seconds that the vectors of M spend on the wire.

/// Each rank sends `bytes` to its neighbour in a ring. Between nodes as many rings as a node has
/// ranks share their connections, as NCCL does.
double ring_seconds(const Machine& machine, double bytes);

/// A reduce-scatter or all-gather of `own` bytes a rank as distributed/process_group.cpp makes
/// them: within nodes, then between them, or the other way round. Ranks that fill no whole nodes
/// send directly to every other, and both kinds of connection work at the same time.
double exchange_seconds(const Machine& machine, double own);

}  // namespace dimred::scaling
