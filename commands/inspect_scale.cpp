#include "commands/inspect_scale.h"

#include <algorithm>
#include <cmath>

#include "commands/text_table.h"
#include "scaling/head.h"
#include "scaling/model.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/options.h"

namespace dimred::commands {
namespace {

/// The subject of --scale: a network (M), a last layer over many classes (C), or both.
struct ScaleOptions {
  double parameters = 0, classes = 0;  // 25.6e6 is how people write it; 0: not asked
  scaling::Problem problem;
  scaling::Machine machine;
  scaling::HeadShape head;
  std::int64_t batch_size = 128;  // of a rank, for the head
};

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
  table.add("class_sampling_ratio", &head.sampling_ratio, "of its classes, each step", positive(1));
  table.add("number_bytes", &problem.number_bytes, "of a weight or gradient", between(1, 4));
  return table;
}

/// Requires that the bytes of the last layer, whole and of a rank, are whole numbers of 63 bits.
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

using scaling::MemoryCost;
using scaling::StepCost;
using Cells = std::vector<std::string>;

/// Three digits: 596 us, 1.20 ms, 43.1 s.
std::string short_time(double seconds) {
  if (seconds == 0) return "-";
  if (seconds >= 99.95) return duration_text(seconds);
  const char* unit = " s";
  if (seconds < 0.9995e-3) {
    seconds *= 1e6;
    unit = " us";
  } else if (seconds < 0.9995) {
    seconds *= 1e3;
    unit = " ms";
  }
  return formatted("{}{}",
                   decimal_text(seconds,
                                seconds < 9.995   ? 2
                                : seconds < 99.95 ? 1
                                                  : 0),
                   unit);
}

Cells step_row(const StepCost& cost) {
  return {cost.scheme,
          bytes_text(cost.wire_bytes),
          short_time(cost.wire_seconds),
          short_time(cost.sums_seconds),
          short_time(cost.basis_seconds),
          short_time(cost.passes_seconds),
          short_time(cost.compute_seconds),
          short_time(cost.seconds())};
}

std::string step_table(const scaling::CostPrediction& prediction) {
  const auto& wire_alone = prediction.mindspore;
  return aligned({{"per rank and step",
                   "bytes sent",
                   "wire",
                   "small sums",
                   "P twice",
                   "passes",
                   "compute",
                   "together"},
                  step_row(prediction.stage1),
                  step_row(prediction.robust),
                  step_row(prediction.presets),
                  {wire_alone.scheme,
                   bytes_text(wire_alone.wire_bytes),
                   short_time(wire_alone.wire_seconds)}});
}

Cells memory_row(const StepCost& cost, const MemoryCost& memory) {
  return {cost.scheme,
          formatted("{} M = {}", memory.whole_vectors, bytes_text(memory.whole)),
          memory.basis == 0 ? "-" : bytes_text(memory.basis),
          memory.basis == 0 ? "-" : bytes_text(memory.shared - memory.basis),
          bytes_text(memory.total())};
}

std::string memory_table(const scaling::CostPrediction& prediction) {
  return aligned({{"memory of a rank", "whole vectors", "share of P", "own vectors", "together"},
                  memory_row(prediction.stage1, prediction.stage1_memory),
                  memory_row(prediction.robust, prediction.robust_memory),
                  memory_row(prediction.presets, prediction.presets_memory)});
}

std::string pca_lines(const scaling::PcaCost& pca) {
  return formatted(
      "PCA: snapshots {} and matrix {} on disk; reads {} in {};\n     Gram matrix {}; sends {} a "
      "rank\n",
      bytes_text(pca.snapshots_bytes),
      bytes_text(pca.matrix_bytes),
      bytes_text(pca.read_bytes),
      short_time(pca.read_seconds),
      bytes_text(pca.gram_bytes),
      bytes_text(pca.wire_bytes));
}

std::string speed(double bytes) { return bytes_text(static_cast<std::int64_t>(bytes)) + "/s"; }

std::string heading(const ScaleOptions& options) {
  const auto& problem = options.problem;
  const auto& machine = options.machine;
  return formatted(
      "M {}, k {}, n {}, R {} ({} a node), trials {}{}\nin a node {}, between nodes {}, memory {}, "
      "disk {}\na prediction; what is counted and assumed: docs/explanation/scaling.md\n",
      count_text(problem.parameters),
      problem.components,
      problem.snapshots,
      machine.ranks,
      machine.ranks_per_node,
      problem.trials,
      problem.basis == scaling::BasisType::float32 ? ", P float32" : ", P bfloat16",
      speed(machine.bandwidth),
      speed(machine.node_bandwidth),
      speed(machine.memory_bandwidth),
      speed(machine.read_bandwidth));
}

std::string ratios(const scaling::CostPrediction& prediction) {
  const auto mindspore = static_cast<double>(prediction.mindspore.wire_bytes);
  const auto against = [mindspore](const StepCost& cost) {
    return decimal_text(mindspore / static_cast<double>(cost.wire_bytes), 1);
  };
  return formatted(
      "MindSpore's scheme sends {} times as much as robust, {} times as much as presets\n",
      against(prediction.robust),
      against(prediction.presets));
}

/// A line for each part that was not asked about, and so cannot break.
std::string unasked(const ScaleOptions& options) {
  std::string keys;
  const auto add = [&keys](const char* key) {
    keys += formatted("{}{}", keys.empty() ? "" : ", ", key);
  };
  if (!options.machine.memory) add("memory=");
  if (!options.machine.disk) add("disk=");
  if (!options.problem.compute_seconds) add("seconds=");
  return keys.empty() ? "" : formatted("not checked: needs {}\n", keys);
}

std::string limit_lines(const ScaleOptions& options, const scaling::CostPrediction& prediction) {
  std::string text;
  for (const auto& line : scaling::limits(options.problem, options.machine, prediction))
    text += formatted("breaks: {}\n", line);
  return (text.empty() ? "nothing breaks at these numbers\n" : text) + unasked(options);
}

Cells head_row(const char* name, std::int64_t sent, const scaling::HeadMemory& memory) {
  return {name,
          bytes_text(sent),
          bytes_text(memory.weights),
          bytes_text(memory.gradient),
          bytes_text(memory.logits),
          bytes_text(memory.features),
          bytes_text(memory.total())};
}

/// A last layer over many classes, beside one that every rank holds whole.
std::string head_table(const ScaleOptions& options) {
  const auto& head = options.head;
  const auto sampled =
      head.sampling_ratio == 1 ? std::string() : formatted(", a sample of {}", head.sampling_ratio);
  return formatted("last layer of C {} x D {}{}, {} samples a rank, R {}\n",
                   count_text(head.classes),
                   head.embedding,
                   sampled,
                   count_text(options.batch_size),
                   head.ranks) +
         aligned(
             {{"per rank", "bytes sent", "weights", "gradient", "logits", "features", "together"},
              head_row("class-sharded",
                       scaling::head_bytes(head, options.batch_size),
                       scaling::head_memory(head)),
              head_row("whole on each",
                       scaling::replicated_head_bytes(head),
                       scaling::replicated_head_memory(head))});
}

}  // namespace

std::vector<std::string> join_scale_words(const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  bool inside = false;
  for (const auto& argument : arguments) {
    const bool word = inside && !argument.starts_with('-');
    if (word) {
      joined.back() += (joined.back() == "--scale" ? '=' : ' ') + argument;
    } else {
      joined.push_back(argument);
      inside = argument == "--scale" || argument.starts_with("--scale=");
    }
  }
  return joined;
}

std::string inspect_scale(const std::string& words) {
  const auto options = parse_scale(words);
  auto head = options.head.classes > 0 ? head_table(options) : std::string();
  if (options.problem.parameters == 0) return head;
  const auto prediction = scaling::predict(options.problem, options.machine);
  return heading(options) + '\n' + step_table(prediction) +
         (options.machine.ranks > 1 ? ratios(prediction) : "") + '\n' + memory_table(prediction) +
         '\n' + pca_lines(prediction.pca) + '\n' + limit_lines(options, prediction) +
         (head.empty() ? "" : "\n" + head);
}

std::string scale_help() {
  ScaleOptions options;
  const auto table = scale_table(options);
  std::string text = "\nKeys of --scale (bandwidths in bytes/s):\n";
  for (const auto& row : table.rows()) {
    const auto value = row.default_value.empty() ? "unset" : row.default_value;
    const auto name =
        formatted("  {}={}", row.name, row.name == "M" || row.name == "C" ? "" : value);
    text += formatted("{}{}  ", name, std::string(name.size() < 32 ? 32 - name.size() : 1, ' '));
    text += formatted("{}{}({})\n", row.help, row.help.empty() ? "" : " ", row.limits);
  }
  return text;
}

}  // namespace dimred::commands
