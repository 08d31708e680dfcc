#include <optional>

#include "scaling/model.h"
#include "support/errors.h"
#include "support/human.h"

namespace dimred::scaling {
namespace {

using Lines = std::vector<std::string>;

std::string percent(double part, double whole) {
  return formatted("{} %", decimal_text(100 * part / whole, 0));
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
  lines.push_back(
      formatted("memory: stage 2 takes {} a rank ({} M = {}, P {}), the device has {}{}",
                bytes_text(memory.total()),
                memory.whole_vectors,
                bytes_text(memory.whole),
                bytes_text(memory.basis),
                bytes_text(static_cast<std::int64_t>(*machine.memory)),
                ranks ? formatted("; {} ranks would fit", *ranks)
                      : "; no number of ranks fits, a sharded forward pass is needed"));
}

void add_wire(const Problem& problem,
              const Machine& machine,
              const Prediction& prediction,
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
        formatted("nodes: the direct exchange takes {} times as long as rings would ({} against "
                  "{}): the ranks of a node receive the same columns from outside",
                  decimal_text(step.wire_seconds / ring, 1),
                  duration_text(step.wire_seconds),
                  duration_text(ring)));
  }
}

void add_algebra(const Problem& problem, const Prediction& prediction, Lines& lines) {
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
  if (!machine.disk || static_cast<double>(needed) <= *machine.disk) return;
  lines.push_back(formatted("disk: snapshots and matrix take {}, there are {}",
                            bytes_text(needed),
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
