#include "python/diff_bindings.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <variant>

#include "checkpoints/verbs/diff.h"
#include "checkpoints/verbs/diff_json.h"
#include "python/watched_work.h"

namespace dimred::python {
namespace {

namespace fs = std::filesystem;
namespace nb = nanobind;
using nb::literals::operator""_a;

using RenamePairs = std::vector<std::pair<std::string, std::string>>;

verbs::RenameRules diff_rules(const std::variant<RenamePairs, fs::path>& rename) {
  if (const auto* file = std::get_if<fs::path>(&rename)) return verbs::read_rename_rules(*file);
  return verbs::rename_rules(std::get<RenamePairs>(rename), "[dimred.diff] rename");
}

/// The difference as JSON, and its remarks.
nb::tuple differing(const fs::path& a,
                    const fs::path& b,
                    std::pair<double, double> tolerance,
                    const std::variant<RenamePairs, fs::path>& rename,
                    const std::pair<std::string, std::string>& chosen,
                    const std::string& take,
                    std::int64_t threads) {
  ByteProgress progress;
  const verbs::DiffOptions options{
      .tolerance = {.relative = tolerance.first, .absolute = tolerance.second},
      .renames = diff_rules(rename),
      .include = chosen.first,
      .exclude = chosen.second,
      .take = take,
      .threads = threads,
      .progress = &progress};
  verbs::Difference difference;
  watched_reading(progress,
                  [&] { difference = verbs::diff(fs::absolute(a), fs::absolute(b), options); });
  return nb::make_tuple(verbs::to_json(difference), difference.remarks);
}

}  // namespace

void bind_diff(nb::module_& module) {
  module.def("diff",
             differing,
             "a"_a,
             "b"_a,
             "tolerance"_a,
             "rename"_a,
             "chosen"_a,
             "take"_a,
             "threads"_a);
}

}  // namespace dimred::python
