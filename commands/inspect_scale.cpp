#include "commands/inspect_scale.h"

#include <algorithm>

#include "commands/scale_options.h"
#include "support/errors.h"
#include "support/human.h"

namespace dimred::commands {
namespace {

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

/// Rows with columns as wide as they need: the first to the left, the others to the right.
std::string aligned(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (std::size_t i = 1; i < row.size(); ++i)
      text += std::string(widths[i] - row[i].size() + 2, ' ') + row[i];
    text += '\n';
  }
  return text;
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

std::string step_table(const scaling::Prediction& prediction) {
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

std::string memory_table(const scaling::Prediction& prediction) {
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

std::string ratios(const scaling::Prediction& prediction) {
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

std::string limit_lines(const ScaleOptions& options, const scaling::Prediction& prediction) {
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
