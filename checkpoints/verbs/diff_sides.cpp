#include "checkpoints/verbs/diff_sides.h"

#include <optional>
#include <stdexcept>
#include <string_view>

#include "support/errors.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;
using checkpoints::Checkpoint;

Checkpoint open_side(const fs::path& path, const std::string& take) {
  return checkpoints::open_checkpoint(path, {.scope = "diff", .take = take});
}

/// Nothing where the path does not hold weights of this kind.
std::optional<Checkpoint> open_kind(const fs::path& path, const std::string& take) {
  try {
    return open_side(path, take);
  } catch (const std::invalid_argument&) {
    return {};
  }
}

/// Returns true for a side whose own weights are of the other kind, by its keys.
bool says_otherwise(std::string_view averaging, std::string_view take) {
  const bool averaged = averaging == "averaged" || averaging == "eval mode";
  return !averaging.empty() && averaged != (take == "averaged");
}

struct TakenSide {
  Checkpoint checkpoint;
  bool had_both = false;
};

TakenSide open_taken(const fs::path& path, const std::string& take) {
  auto taken = open_kind(path, take);
  if (!taken) {
    auto side = open_side(path, "");
    return {says_otherwise(side.averaging, take) ? open_side(path, take) : std::move(side)};
  }
  return {std::move(*taken), open_kind(path, take == "raw" ? "averaged" : "raw").has_value()};
}

}  // namespace

std::pair<Checkpoint, Checkpoint> open_sides(const fs::path& a,
                                             const fs::path& b,
                                             const std::string& take) {
  if (take.empty()) return {open_side(a, take), open_side(b, take)};
  auto one = open_taken(a, take), other = open_taken(b, take);
  require(one.had_both || other.had_both,
          "[diff] --take {} needs raw and averaged weights in A or B, received '{}' and '{}' with "
          "one kind each",
          take,
          a,
          b);
  return {std::move(one.checkpoint), std::move(other.checkpoint)};
}

}  // namespace dimred::verbs
