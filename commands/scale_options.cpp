#include "commands/scale_options.h"

#include <algorithm>
#include <cmath>

#include "support/errors.h"

namespace dimred::commands {

OptionTable scale_table(ScaleOptions& options) {
  auto& [parameters, classes, problem, machine, head, batch_size] = options;
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
  table.add("C", &classes, "classes of a class-sharded last layer", between(1, 1e13));
  table.add("D", &head.embedding, "its embedding's numbers", between(1, 65536));
  table.add("batch", &batch_size, "a rank's samples, for it", between(1, 1e9));
  table.add("class_sampling_ratio",
            &head.sampling_ratio,
            "of its classes, each step",
            {.low = 0, .high = 1, .low_open = true});
  table.add("number_bytes", &problem.number_bytes, "of a weight or gradient", between(1, 4));
  return table;
}

namespace {

/// That the bytes of the last layer, whole and of a rank, are whole numbers of 63 bits.
void require_countable(const ScaleOptions& options) {
  constexpr double most = 9e18;
  const auto& head = options.head;
  const double vectors = 2 + static_cast<double>(head.optimizer_vectors);
  const double row = static_cast<double>(head.embedding) * static_cast<double>(head.number_bytes);
  const double samples = static_cast<double>(head.batch), ranks = static_cast<double>(head.ranks);
  const double logits = options.classes * (samples / ranks + 1) * 4;
  const double most_logits = std::max(logits, (options.classes / ranks + 1) * samples * 4);
  const double bytes = (vectors + 1) * options.classes * row + most_logits + 2 * samples * row;
  require(options.classes == 0 || bytes < most,
          "[inspect] --scale: C: needs C, D and batch of a last layer of less than {} bytes, "
          "received about {}",
          most,
          bytes);
}

}  // namespace

ScaleOptions parse_scale(const std::string& words) {
  ScaleOptions options;
  scale_table(options).read_words(words, "--scale");
  const auto whole = [](const char* key, const char* what, double value) {
    require(value == std::floor(value),
            "[inspect] --scale: {}: needs the whole number of {}, received {}",
            key,
            what,
            number_text(value));
    return std::llround(value);
  };
  require(options.parameters > 0 || options.classes > 0,
          "[inspect] --scale: M: needs the whole number of parameters, received none");
  options.problem.parameters = whole("M", "parameters", options.parameters);
  auto& head = options.head;
  head.classes = whole("C", "classes", options.classes);
  head.ranks = options.machine.ranks;
  head.batch = head.ranks * options.batch_size;
  head.number_bytes = options.problem.number_bytes;
  head.optimizer_vectors = options.problem.optimizer_vectors;
  require(head.classes == 0 || head.classes >= head.ranks,
          "[inspect] --scale: C: needs at least a class for each rank, received {} and R = {}",
          head.classes,
          head.ranks);
  require_countable(options);
  return options;
}

}  // namespace dimred::commands
