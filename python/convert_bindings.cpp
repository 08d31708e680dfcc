#include "python/convert_bindings.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <variant>

#include "checkpoints/verbs/convert.h"
#include "options/byte_size.h"
#include "python/watched_work.h"

namespace dimred::python {
namespace {

namespace fs = std::filesystem;
namespace nb = nanobind;
using nb::literals::operator""_a;

using GivenRules = std::vector<std::pair<std::string, std::string>>;

verbs::RenameRules rules_of(const std::variant<GivenRules, fs::path>& rename) {
  if (const auto* file = std::get_if<fs::path>(&rename)) return verbs::read_rename_rules(*file);
  return verbs::rename_rules(std::get<GivenRules>(rename), "[dimred.convert] rename");
}

/// The fields of dimred.Converted behind `output`, in its order.
nb::tuple converted(const fs::path& source,
                    const fs::path& output,
                    const std::string& dtype,
                    const std::string& shard_size,
                    const std::variant<GivenRules, fs::path>& rename,
                    const std::pair<std::string, std::string>& chosen,
                    const fs::path& adapter,
                    const std::string& take,
                    std::int64_t threads) {
  ByteProgress progress;
  const verbs::ConversionOptions options{
      .dtype = dtype,
      .shard_size = parse_byte_size(shard_size).bytes,
      .renames = rules_of(rename),
      .include = chosen.first,
      .exclude = chosen.second,
      .adapter = adapter.empty() ? adapter : fs::absolute(adapter),
      .take = take,
      .threads = threads,
      .progress = &progress};
  verbs::ConvertReport report;
  watched_reading(progress, [&] {
    report = verbs::convert(fs::absolute(source), fs::absolute(output), options);
  });
  return nb::make_tuple(report.tensors,
                        report.shards,
                        report.bytes_written,
                        report.renamed,
                        report.folded,
                        report.cast,
                        report.excluded,
                        report.left_out,
                        report.tied,
                        report.remarks);
}

}  // namespace

void bind_convert(nb::module_& module) {
  module.def("convert",
             converted,
             "source"_a,
             "output"_a,
             "dtype"_a,
             "size"_a,
             "rename"_a,
             "chosen"_a,
             "adapter"_a,
             "take"_a,
             "threads"_a);
}

}  // namespace dimred::python
