#include "python/inspect_bindings.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "checkpoints/verbs/inspect.h"
#include "merge/verify.h"
#include "python/watched_work.h"

namespace dimred::python {
namespace {

namespace fs = std::filesystem;
namespace nb = nanobind;
using nb::literals::operator""_a;

/// The fields of dimred.InspectedTensor, in its order.
nb::tuple fields_of(const verbs::InspectedTensor& tensor) {
  nb::list shape;
  for (const auto extent : tensor.shape) shape.append(extent);
  return nb::make_tuple(tensor.name,
                        tensor.dtype,
                        nb::tuple(shape),
                        tensor.elements,
                        tensor.bytes,
                        tensor.file,
                        std::string(verbs::role_name(tensor.role)));
}

/// Compares the digests that a merge left beside its weights.
void verify_merge(verbs::Inspection& found) {
  if (!fs::exists(found.path / "merge.json")) return;
  try {
    merge::verified_record(found.path);
  } catch (const std::runtime_error& error) {
    found.faults.emplace_back(error.what());
  }
}

/// The fields of dimred.Inspection, in its order.
nb::tuple inspected(const fs::path& path,
                    bool check,
                    const fs::path& manifest,
                    const fs::path& write_manifest,
                    std::int64_t threads) {
  ByteProgress progress;
  const verbs::InspectionOptions options{.check = check,
                                         .manifest = manifest,
                                         .write_manifest = write_manifest,
                                         .reading = {.threads = threads, .progress = &progress}};
  verbs::Inspection found;
  watched_reading(progress, [&] {
    found = verbs::inspect(path, options);
    if (check) verify_merge(found);
  });
  nb::list tensors;
  for (const auto& tensor : found.tensors) tensors.append(fields_of(tensor));
  return nb::make_tuple(found.path,
                        found.format,
                        found.files,
                        found.side_files,
                        tensors,
                        found.left_out,
                        found.parameters,
                        found.remarks,
                        found.faults);
}

}  // namespace

void bind_inspect(nb::module_& module) {
  module.def(
      "inspect", inspected, "path"_a, "check"_a, "manifest"_a, "write_manifest"_a, "threads"_a);
}

}  // namespace dimred::python
