#include "scaling/model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "scaling/step.h"
#include "scaling/volume.h"
#include "support/ceiling.h"
#include "support/errors.h"
#include "support/formatted.h"

namespace dimred::scaling {
namespace {

constexpr std::int64_t digest_columns = 1 << 14;  // of a block of the matrix (pca/pass.h)
constexpr std::int64_t digest_text = 33;          // 32 digits and a line's end

template <class Number>
void require_range(const char* name, Number value, double low, double high) {
  require(value >= low && value <= high,
          "[scaling] {} needs a number in [{}, {}], received {}",
          name,
          low,
          high,
          value);
}

void require_bytes(const char* name, double value) {
  const bool inside = value > 0 && value < 1e18;
  require(inside, "[scaling] {} needs a number in (0, 1e18), received {}", name, value);
}

void validate(const Problem& problem, const Machine& machine) {
  require_range("M", problem.parameters, 1, 1e13);
  require_range("k", problem.components, 1, 1e4);
  require_range("n", problem.snapshots, 1, 1e4);
  require(problem.snapshots - 1 >= problem.components,
          "[scaling] needs n - 1 >= k, received n = {}, k = {}",
          problem.snapshots,
          problem.components);
  require_range("trials", problem.trials, 0, 1000);
  require_range("optimizer_vectors", problem.optimizer_vectors, 0, 16);
  require_range("number_bytes", problem.number_bytes, 1, 4);
  const double seconds = problem.compute_seconds.value_or(1);
  require(seconds > 0, "[scaling] seconds needs > 0, received {}", seconds);
  require_range("R", machine.ranks, 1, 1e5);
  require_range("ranks_per_node", machine.ranks_per_node, 1, 1e5);
  require_bytes("bandwidth", machine.bandwidth);
  require_bytes("node_bandwidth", machine.node_bandwidth);
  require_bytes("memory_bandwidth", machine.memory_bandwidth);
  require_bytes("read_bandwidth", machine.read_bandwidth);
  require_bytes("memory", machine.memory.value_or(1));
  require_bytes("disk", machine.disk.value_or(1));
  require(machine.latency >= 0, "[scaling] latency needs >= 0, received {}", machine.latency);
}

/// The functions below share these.
struct CostModel {
  Problem problem;
  Machine machine;

  std::int64_t ranks() const { return machine.ranks; }
  /// Where the ranks do not fill whole nodes, they exchange directly, as on one node.
  std::int64_t nodes() const {
    return ranks() % machine.ranks_per_node == 0 ? ranks() / machine.ranks_per_node : 1;
  }
  std::int64_t own_columns() const { return ceiling(problem.parameters, machine.ranks); }
  std::int64_t vector_bytes() const { return problem.parameters * problem.number_bytes; }
  std::int64_t own_bytes() const { return own_columns() * problem.number_bytes; }
  std::int64_t basis_bytes() const {
    return problem.components * own_columns() * (problem.basis == BasisType::float32 ? 4 : 2);
  }
  StepShape step(std::int64_t gathers) const {
    return {.ranks = machine.ranks,
            .nodes = nodes(),
            .columns = problem.parameters,
            .components = problem.components,
            .trials = problem.trials,
            .gathers = gathers,
            .number_bytes = problem.number_bytes};
  }
  /// `count` sums of a few numbers, one after another: a ring has 2 (R - 1) steps.
  double sums_seconds(std::int64_t count) const {
    return count * 2 * (machine.ranks - 1) * machine.latency;
  }
  /// Reads and writes of the given numbers of whole vectors and own parts.
  double passes_seconds(std::int64_t whole, std::int64_t own) const {
    return (1.0 * whole * vector_bytes() + 1.0 * own * own_bytes()) / machine.memory_bandwidth;
  }
};

StepCost stage1_cost(const CostModel& model) {
  const auto& [problem, machine] = model;
  const std::array buckets{problem.parameters};
  StepCost cost{.scheme = "stage 1"};
  cost.wire_bytes = stage1_bytes(model.step(0), buckets);
  cost.wire_seconds = ring_seconds(machine, all_reduce_bytes(model.vector_bytes(), machine.ranks));
  cost.compute_seconds = problem.compute_seconds.value_or(0);
  // training/passes/buckets.h overlaps it with the backward pass: two thirds of forward and
  // backward.
  cost.hidden_seconds = std::min(cost.wire_seconds, cost.compute_seconds * 2 / 3);
  cost.sums_seconds = model.sums_seconds(2);  // loss, stop flags
  // Gradient zeroed; the optimiser reads w, g and its vectors, writes w and its vectors.
  cost.passes_seconds = model.passes_seconds(1 + 3 + 2 * problem.optimizer_vectors, 0);
  return cost;
}

/// Own parts' passes of a sum among a number of peers (distributed/exchange.cpp): what was received
/// is added in their order, 3 each, after the own one is copied 2, and the sum is copied out 2.
std::int64_t sum_passes(std::int64_t peers) { return peers == 1 ? 0 : 3 * (peers - 1) + 4; }

/// The passes over vectors in a step of stage 2 and the collectives around it.
double stage2_passes(const CostModel& model, bool joint) {
  const auto ranks = model.ranks(), nodes = model.nodes();
  // Gradient zeroed 1, start copied 2, each trial reads start and u and writes w 3; presets
  // subtract the gathered m 3.
  const std::int64_t whole = 1 + 2 + 3 * model.problem.trials + (joint ? 0 : 3);
  // P g 1, g'm 2, |g|^2 1, P'd and P'g_k written 2, m scaled 2, plus g 3, minus P'g_k 3; joint:
  // alpha m 2, P'd minus it 3.
  const std::int64_t algebra = 14 + (joint ? 5 : 0);
  // A node sums what all nodes' ranks at one place own; each all-gather copies the own part 2.
  const std::int64_t exchange = nodes * sum_passes(ranks / nodes) + sum_passes(nodes) +
                                (ranks == 1 ? 0
                                 : joint    ? 2
                                            : 4);
  return model.passes_seconds(whole, algebra + exchange);
}

StepCost stage2_cost(const CostModel& model, const std::string& scheme, bool joint) {
  const auto& [problem, machine] = model;
  const std::int64_t gathers = joint ? 1 : 2;
  StepCost cost{.scheme = scheme};
  const auto own = problem.parameters / machine.ranks;
  cost.wire_bytes = stage2_bytes(model.step(gathers), {own, own * model.nodes()});
  cost.wire_seconds = (1 + gathers) * exchange_seconds(machine, model.own_bytes());
  cost.sums_seconds = model.sums_seconds(3 + problem.trials);  // k + 2 numbers, loss, stop flags
  cost.basis_seconds = 2.0 * model.basis_bytes() / machine.memory_bandwidth;
  cost.passes_seconds = stage2_passes(model, joint);
  // A forward pass is a third of forward and backward.
  cost.compute_seconds = problem.compute_seconds.value_or(0) * (1 + problem.trials / 3.0);
  return cost;
}

/// Its broadcasts one after another, each as long as the vector takes on one connection: the limit
/// of a pipelined broadcast.
StepCost mindspore_cost(const CostModel& model) {
  const auto& machine = model.machine;
  StepCost cost{.scheme = "MindSpore's scheme"};
  cost.wire_bytes = mindspore_bytes(model.step(0));
  if (machine.ranks == 1) return cost;
  const auto reduced = all_reduce_bytes(model.vector_bytes(), machine.ranks);
  const auto broadcast = 2 * machine.ranks * model.vector_bytes();
  cost.wire_seconds = ring_seconds(machine, 1.0 * reduced + broadcast);
  return cost;
}

MemoryCost stage1_memory(const CostModel& model) {
  const auto vectors = 2 + model.problem.optimizer_vectors;  // w, g
  return {.whole_vectors = vectors, .whole = vectors * model.vector_bytes()};
}

/// w, g and the start of the search; with several ranks each gathered vector (the parts that the
/// reduce-scatter receives are gone before). Own: m, P'd, P'g_k, with `joint` the direction, and
/// with several ranks the reduced gradient; alone, a gathered vector is the own one.
MemoryCost stage2_memory(const CostModel& model, bool joint) {
  const bool several = model.ranks() > 1;
  const std::int64_t vectors = 3 + (several ? (joint ? 1 : 2) : 0);
  const std::int64_t own = (joint ? 4 : 3) + (several ? 1 : 0);
  return {.whole_vectors = vectors,
          .whole = vectors * model.vector_bytes(),
          .shared = model.basis_bytes() + own * model.own_bytes(),
          .basis = model.basis_bytes()};
}

PcaCost pca_cost(const CostModel& model) {
  const auto& [problem, machine] = model;
  const auto M = problem.parameters, n = problem.snapshots, k = problem.components;
  PcaCost cost{.snapshots_bytes = n * M * 4, .matrix_bytes = k * M * 4, .gram_bytes = n * n * 8};
  // The Gram matrix, the components (pca/fit.h); a page cache spares some of it.
  cost.read_bytes = 2 * cost.snapshots_bytes;
  cost.read_seconds = cost.read_bytes / machine.read_bandwidth;
  const auto digests = ceiling(M, digest_columns) * digest_text;
  cost.wire_bytes =
      pca_sum_bytes(n, k, machine.ranks) + all_gather_bytes(digests / machine.ranks, machine.ranks);
  return cost;
}

using Lines = std::vector<std::string>;

std::string percent(double part, double whole) {
  return formatted("{} %", decimal_text(100 * part / whole, 0));
}

bool fits(const Machine& machine, const MemoryCost& memory) {
  return !machine.memory || memory.total() <= *machine.memory;
}

/// The first number of ranks, doubled from the present one, whose stage 2 fits in the memory.
std::optional<std::int64_t> ranks_that_fit(const Problem& problem, Machine machine) {
  for (machine.ranks *= 2; machine.ranks <= 100000; machine.ranks *= 2) {
    if (fits(machine, predict(problem, machine).robust_memory)) return machine.ranks;
  }
  return {};
}

void add_memory(const Problem& problem,
                const Machine& machine,
                const MemoryCost& memory,
                Lines& lines) {
  if (fits(machine, memory)) return;
  const auto ranks = ranks_that_fit(problem, machine);
  lines.push_back(
      formatted("memory: stage 2 takes {} a rank ({} M = {}, P {}), the device has {}{}",
                bytes_text(memory.total()),
                memory.whole_vectors,
                bytes_text(memory.whole),
                bytes_text(memory.basis),
                bytes_text(*machine.memory),
                ranks ? formatted("; {} ranks would fit", *ranks)
                      : "; no number of ranks fits, a sharded forward pass is needed"));
}

void add_wire(const Problem& problem,
              const Machine& machine,
              const CostPrediction& prediction,
              Lines& lines) {
  const auto& step = prediction.robust;
  if (problem.compute_seconds && step.wire_seconds > step.compute_seconds) {
    lines.push_back(formatted("wire: stage 2 sends for {} a step and computes for {}",
                              duration_text(step.wire_seconds),
                              duration_text(step.compute_seconds)));
  }
  if (step.sums_seconds > step.wire_seconds && machine.ranks > 1) {
    lines.push_back(
        formatted("latency: {} sums of a few numbers take {} in a ring of {}, the vectors of M {}",
                  3 + problem.trials,
                  duration_text(step.sums_seconds),
                  machine.ranks,
                  duration_text(step.wire_seconds)));
  }
  const double ring = prediction.stage1.wire_seconds;
  if (step.wire_seconds > 1.1 * ring) {
    lines.push_back(
        formatted("nodes: exchanges take {} times as long as rings would ({} against {}): what "
                  "goes between nodes waits for what goes within them",
                  decimal_text(step.wire_seconds / ring, 1),
                  duration_text(step.wire_seconds),
                  duration_text(ring)));
  }
}

void add_algebra(const Problem& problem, const CostPrediction& prediction, Lines& lines) {
  const auto& step = prediction.robust;
  const double algebra = step.basis_seconds + step.passes_seconds;
  if (!problem.compute_seconds || algebra <= 0.1 * step.compute_seconds) return;
  lines.push_back(formatted(
      "algebra: reading P twice and the vectors takes {}, {} of the passes through the network",
      duration_text(algebra),
      percent(algebra, step.compute_seconds)));
}

void add_disk(const Machine& machine, const PcaCost& pca, Lines& lines) {
  const auto needed = pca.snapshots_bytes + pca.matrix_bytes;
  if (!machine.disk || needed <= *machine.disk) return;
  lines.push_back(formatted("disk: snapshots and matrix take {}, there are {}",
                            bytes_text(needed),
                            bytes_text(*machine.disk)));
}

}  // namespace

double StepCost::seconds() const {
  return compute_seconds + wire_seconds - hidden_seconds + sums_seconds + basis_seconds +
         passes_seconds;
}

double ring_seconds(const Machine& machine, double bytes) {
  if (machine.ranks <= machine.ranks_per_node) return bytes / machine.bandwidth;
  const double between = machine.node_bandwidth * machine.ranks_per_node;
  return bytes / std::min(machine.bandwidth, between);
}

double exchange_seconds(const Machine& machine, double own) {
  const auto near = std::min(machine.ranks, machine.ranks_per_node);
  const auto far = machine.ranks - near;
  if (machine.ranks % near != 0)
    return std::max((near - 1) * own / machine.bandwidth, far * own / machine.node_bandwidth);
  const auto nodes = machine.ranks / near;
  return (near - 1) * nodes * own / machine.bandwidth + (nodes - 1) * own / machine.node_bandwidth;
}

CostPrediction predict(const Problem& problem, const Machine& machine) {
  validate(problem, machine);
  const CostModel model{problem, machine};
  return {.stage1 = stage1_cost(model),
          .robust = stage2_cost(model, "stage 2, robust", true),
          .presets = stage2_cost(model, "stage 2, presets", false),
          .mindspore = mindspore_cost(model),
          .stage1_memory = stage1_memory(model),
          .robust_memory = stage2_memory(model, true),
          .presets_memory = stage2_memory(model, false),
          .pca = pca_cost(model)};
}

Lines limits(const Problem& problem, const Machine& machine, const CostPrediction& prediction) {
  Lines lines;
  add_memory(problem, machine, prediction.robust_memory, lines);
  add_wire(problem, machine, prediction, lines);
  add_algebra(problem, prediction, lines);
  add_disk(machine, prediction.pca, lines);
  return lines;
}

}  // namespace dimred::scaling
