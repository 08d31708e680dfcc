#include <optional>

#include "scaling/model.h"
#include "support/errors.h"
#include "support/human.h"

namespace dimred::scaling {
namespace {

using Lines = std::vector<std::string>;

std::string percent(double part, double whole) {
  return concat(decimal_text(100 * part / whole, 0), " %");
}

bool fits(const Machine& machine, const MemoryCost& memory) {
  return !machine.memory || static_cast<double>(memory.total()) <= *machine.memory;
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
  lines.push_back(concat("memory: stage 2 takes ",
                         bytes_text(memory.total()),
                         " a rank (",
                         memory.whole_vectors,
                         " M = ",
                         bytes_text(memory.whole),
                         ", P ",
                         bytes_text(memory.basis),
                         "), the device has ",
                         bytes_text(static_cast<std::int64_t>(*machine.memory)),
                         ranks ? concat("; ", *ranks, " ranks would fit")
                               : "; no number of ranks fits, a sharded forward pass is needed"));
}

void add_wire(const Problem& problem,
              const Machine& machine,
              const Prediction& prediction,
              Lines& lines) {
  const auto& step = prediction.robust;
  if (problem.compute_seconds && step.wire_seconds > step.compute_seconds) {
    lines.push_back(concat("wire: stage 2 sends for ",
                           duration_text(step.wire_seconds),
                           " a step and computes for ",
                           duration_text(step.compute_seconds)));
  }
  if (step.sums_seconds > step.wire_seconds && machine.ranks > 1) {
    lines.push_back(concat("latency: ",
                           3 + problem.trials,
                           " sums of a few numbers take ",
                           duration_text(step.sums_seconds),
                           " in a ring of ",
                           machine.ranks,
                           ", the vectors of M ",
                           duration_text(step.wire_seconds)));
  }
  const double ring = prediction.stage1.wire_seconds;
  if (step.wire_seconds > 1.1 * ring) {
    lines.push_back(concat("nodes: the direct exchange takes ",
                           decimal_text(step.wire_seconds / ring, 1),
                           " times as long as rings would (",
                           duration_text(step.wire_seconds),
                           " against ",
                           duration_text(ring),
                           "): the ranks of a node receive the same columns from outside"));
  }
}

void add_algebra(const Problem& problem, const Prediction& prediction, Lines& lines) {
  const auto& step = prediction.robust;
  const double algebra = step.basis_seconds + step.passes_seconds;
  if (!problem.compute_seconds || algebra <= 0.1 * step.compute_seconds) return;
  lines.push_back(concat("algebra: reading P twice and the vectors takes ",
                         duration_text(algebra),
                         ", ",
                         percent(algebra, step.compute_seconds),
                         " of the passes through the network"));
}

void add_disk(const Machine& machine, const PcaCost& pca, Lines& lines) {
  const auto needed = pca.snapshots_bytes + pca.matrix_bytes;
  if (!machine.disk || static_cast<double>(needed) <= *machine.disk) return;
  lines.push_back(concat("disk: snapshots and matrix take ",
                         bytes_text(needed),
                         ", there are ",
                         bytes_text(static_cast<std::int64_t>(*machine.disk))));
}

}  // namespace

Lines limits(const Problem& problem, const Machine& machine, const Prediction& prediction) {
  Lines lines;
  add_memory(problem, machine, prediction.robust_memory, lines);
  add_wire(problem, machine, prediction, lines);
  add_algebra(problem, prediction, lines);
  add_disk(machine, prediction.pca, lines);
  return lines;
}

}  // namespace dimred::scaling
