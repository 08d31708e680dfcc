#include "support/suggestion.h"

#include <algorithm>
#include <numeric>

#include "support/formatted.h"
#include "support/text.h"
#include "support/translated.h"

namespace dimred {
namespace {

/// Edits (insert, delete, replace, swap of neighbours) that turn one text into the other.
/// Source: Damerau, CACM 7(3), 1964; the restricted form, one row of history more than Levenshtein.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before, above(to.size() + 1), row(to.size() + 1);
  std::iota(above.begin(), above.end(), 0);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    std::swap(above, row);
  }
  return above[to.size()];
}

/// "; did you mean resnet20, resnet32 or resnet56?" where several candidates begin with `name`;
/// else empty.
std::string family_of(std::string_view name,
                      const std::vector<std::string>& candidates,
                      std::string_view prefix) {
  constexpr std::size_t shortest = 3, most = 9;
  std::vector<std::string> family;
  for (const auto& candidate : candidates) {
    const auto member = formatted("{}{}", prefix, candidate);
    const bool is_new =
        std::ranges::find(family, member) == family.end();  // operators have overloads
    if (is_new && name.size() >= shortest && candidate.starts_with(name)) family.push_back(member);
  }
  if (family.size() < 2) return {};
  const bool more = family.size() > most;
  family.resize(std::min(family.size(), most));
  const auto last = family.back();
  family.pop_back();
  return formatted("; did you mean {}{}{}{}?",
                   name_list(family),
                   more ? ", " : " or ",
                   last,
                   more ? " or another" : "");
}

}  // namespace

std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 100;  // of a name that somebody may have meant; bounds the time
  if (name.size() > longest) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const auto distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (best || name.size() < 3) return best;
  // A part of a name ("momentum" for "residual_momentum") is many edits away, yet clearly meant.
  for (const auto& candidate : candidates) {
    const bool part = candidate.find(name) != std::string::npos ||
                      (candidate.size() >= 3 && name.find(candidate) != std::string::npos);
    if (part && (!best || candidate.size() < best->size())) best = candidate;
  }
  return best;
}

std::string suggestion(std::string_view name,
                       const std::vector<std::string>& candidates,
                       std::string_view otherwise,
                       std::string_view prefix) {
  auto near = translated(name, candidates);
  if (!near) {
    if (const auto family = family_of(name, candidates, prefix); !family.empty()) return family;
    near = nearest(name, candidates);
  }
  return near ? formatted("; did you mean {}{}?", prefix, *near) : std::string(otherwise);
}

}  // namespace dimred
