#include "commands/scale_options.h"

#include <cmath>

#include "support/errors.h"

namespace dimred::commands {

OptionTable scale_table(ScaleOptions& options) {
  auto& [parameters, problem, machine] = options;
  const auto bytes = between_open(0, 1e18);
  OptionTable table("dimred inspect --scale", "what the method costs on R ranks");
  table.add("M", &parameters, "parameters", between(1, 1e13));
  table.add("k", &problem.components, "components", between(1, 1e4));
  table.add("n", &problem.snapshots, "snapshots", between(2, 1e4));
  table.add("R", &machine.ranks, "ranks", between(1, 1e5));
  table.add("ranks_per_node", &machine.ranks_per_node, "", between(1, 1e5));
  table.add("bandwidth", &machine.bandwidth, "bytes/s of a rank within its node", bytes);
  table.add("node_bandwidth", &machine.node_bandwidth, "to other nodes", bytes);
  table.add("memory_bandwidth", &machine.memory_bandwidth, "of a device", bytes);
  table.add("read_bandwidth", &machine.read_bandwidth, "of the snapshots' disk", bytes);
  table.add("latency", &machine.latency, "s of a small message", at_least(0));
  table.add("memory", &machine.memory, "bytes of a device", bytes);
  table.add("disk", &machine.disk, "bytes for snapshots and matrix", bytes);
  table.add("trials", &problem.trials, "of a line search", between(0, 1000));
  table.add("seconds", &problem.compute_seconds, "forward and backward of a rank", positive());
  table.add_choice(
      "basis",
      &problem.basis,
      "P in memory, as --basis_dtype of stage 2",
      {{"float32", scaling::BasisType::float32}, {"bfloat16", scaling::BasisType::bfloat16}});
  table.add("optimizer_vectors", &problem.optimizer_vectors, "of stage 1", between(0, 16));
  table.add("number_bytes", &problem.number_bytes, "of a weight or gradient", between(1, 4));
  return table;
}

ScaleOptions parse_scale(const std::string& words) {
  ScaleOptions options;
  scale_table(options).read_words(words, "--scale");
  const auto parameters = options.parameters;
  require(parameters >= 1 && parameters == std::floor(parameters),
          "inspect",
          "--scale: M: needs the whole number of parameters, received ",
          parameters == 0 ? "none" : number_text(parameters));
  options.problem.parameters = std::llround(parameters);
  return options;
}

}  // namespace dimred::commands
