#include "commands/diff_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/text_table.h"
#include "support/counted.h"
#include "support/formatted.h"
#include "support/printable.h"
#include "support/utf8.h"

namespace dimred::commands {
namespace {

constexpr std::size_t most_names = 20;

using verbs::DiffStatus;

std::string both_texts(const std::string& a, const std::string& b) {
  return a == b ? a : formatted("{} / {}", a, b);
}

std::string measure_text(const std::optional<double>& value) {
  constexpr int digits = 3;
  if (!value) return "-";
  if (!std::isfinite(*value)) return std::isnan(*value) ? "nan" : "inf";
  return significant_text(*value, digits);
}

std::string ulps_text(const std::optional<std::uint64_t>& ulps) {
  constexpr std::uint64_t most_counted = 999'999'999;
  if (!ulps) return "-";
  if (*ulps > most_counted) return measure_text(static_cast<double>(*ulps));
  return count_text(static_cast<std::int64_t>(*ulps));
}

std::string cosine_text(const std::optional<double>& cosine) {
  constexpr int digits = 6;
  return cosine ? decimal_text(*cosine, digits) : "-";
}

/// "12 / 2,560".
std::string different_text(const verbs::TensorDiff& tensor) {
  if (tensor.status == DiffStatus::shape) return "-";
  const auto& [elements, different] =
      std::pair(tensor.distance.elements, tensor.distance.different);
  return formatted("{} / {}", different ? count_text(*different) : "-", count_text(elements));
}

std::vector<std::string> diff_row(const verbs::TensorDiff& tensor) {
  const auto& distance = tensor.distance;
  const bool paired = tensor.status != DiffStatus::shape;
  return {terminal_text(tensor.b.name, ""),
          both_texts(tensor.a.dtype, tensor.b.dtype),
          both_texts(shape_text(tensor.a.shape), shape_text(tensor.b.shape)),
          different_text(tensor),
          paired ? measure_text(distance.max_abs) : "-",
          paired ? measure_text(distance.max_rel) : "-",
          paired ? ulps_text(distance.max_ulp) : "-",
          paired ? cosine_text(distance.cosine()) : "-"};
}

std::string table_text(const std::vector<verbs::TensorDiff>& tensors) {
  constexpr std::size_t left_columns = 3;
  std::vector<std::vector<std::string>> rows{
      {"tensor", "type", "shape", "different", "max abs", "max rel", "ulp", "cosine"}};
  for (const auto& tensor : tensors)
    if (tensor.status != DiffStatus::same) rows.push_back(diff_row(tensor));
  return rows.size() > 1 ? aligned(rows, left_columns) : "";
}

std::string alone_text(std::string_view side, const std::vector<verbs::DiffSide>& tensors) {
  if (tensors.empty()) return {};
  auto text = formatted("only in {}: {}\n", side, counted(std::ssize(tensors), "tensor"));
  for (std::size_t i = 0; i < std::min(most_names, tensors.size()); ++i)
    text += formatted("  {}  {}  {}\n",
                      terminal_text(tensors[i].name, ""),
                      tensors[i].dtype,
                      shape_text(tensors[i].shape));
  if (tensors.size() > most_names)
    text += formatted("  and {} more; --json lists all\n", tensors.size() - most_names);
  return text;
}

std::string verdict(const verbs::Difference& difference, const verbs::Tolerance& tolerance) {
  const auto tensors = counted(std::ssize(difference.tensors), "tensor");
  const auto within = tolerance.any() ? formatted(" within rtol {} and atol {}",
                                                  number_text(tolerance.relative),
                                                  number_text(tolerance.absolute))
                                      : "";
  if (difference.same)
    return formatted("same{}: {}, {}\n", within, tensors, bytes_text(difference.bytes));
  const auto different = std::ranges::count_if(
      difference.tensors, [](const auto& tensor) { return tensor.status != DiffStatus::same; });
  auto text =
      formatted("{} of {} differ{}", count_text(different), tensors, different == 1 ? "s" : "");
  const auto of_type = std::ranges::count_if(difference.tensors, [](const auto& tensor) {
    return tensor.status == DiffStatus::dtype && tensor.distance.different == 0;
  });
  if (of_type > 0) text += formatted(", {} in type alone", count_text(of_type));
  if (!difference.only_a.empty())
    text += formatted(", {} only in A", count_text(std::ssize(difference.only_a)));
  if (!difference.only_b.empty())
    text += formatted(", {} only in B", count_text(std::ssize(difference.only_b)));
  return text + "\n";
}

}  // namespace

std::string diff_text(const verbs::Difference& difference, const verbs::Tolerance& tolerance) {
  auto text = formatted("A: {} ({})\nB: {} ({})\n",
                        difference.a,
                        difference.format_a,
                        difference.b,
                        difference.format_b);
  for (const auto& remark : difference.remarks) text += terminal_text(remark, "") + "\n";
  return text + table_text(difference.tensors) + alone_text("A", difference.only_a) +
         alone_text("B", difference.only_b) + verdict(difference, tolerance);
}

}  // namespace dimred::commands
