#include "checkpoints/verbs/inspect.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "checkpoints/artifact.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/side_files.h"
#include "checkpoints/tensor_digests.h"
#include "checkpoints/verbs/check.h"
#include "checkpoints/verbs/check_index.h"
#include "checkpoints/verbs/manifest.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/result_file.h"
#include "support/text.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;

using checkpoints::ArtifactKind;
using checkpoints::Checkpoint;
using checkpoints::Role;
using checkpoints::StoredBox;
using checkpoints::StoredTensor;

constexpr std::string_view inspect_scope = "inspect";

Checkpoint open_one_or_part(const fs::path& path) {
  if (checkpoints::look(path).kind != ArtifactKind::part)
    return checkpoints::open_checkpoint(path, {.scope = inspect_scope});
  auto part = checkpoints::read_checkpoint(path, ArtifactKind::part, {.scope = inspect_scope});
  part.remarks.emplace_back("only a part of a checkpoint, as the name says");
  return part;
}

/// The folder that names of files are relative to.
fs::path manifest_folder_of(const fs::path& path) {
  const auto whole = fs::absolute(path).lexically_normal();
  if (!fs::is_directory(whole)) return whole.parent_path();
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether a file that the manifest lists is not there.
bool lacks_listed(const fs::path& path, const Manifest& manifest) {
  const auto folder = manifest_folder_of(path);
  return std::ranges::any_of(
      manifest.files, [&](const FileDigest& file) { return !fs::exists(folder / file.name); });
}

/// A checkpoint, or the path alone with the reason why it cannot be read.
CheckedIndex opened_with_faults(const fs::path& path,
                                const InspectionOptions& options,
                                const Manifest& manifest) {
  const auto artifact = checkpoints::look(path);
  const bool index =
      !artifact.weights.empty() && checkpoints::look(artifact.weights).kind == ArtifactKind::index;
  if (options.check && index) return check_index(artifact.weights);
  Checkpoint unread{.path = path, .weights = path};
  try {
    return {open_one_or_part(path), {}};
  } catch (const std::invalid_argument& error) {
    // With what is gone the folder may be no checkpoint any more.
    if (!fs::exists(path) || !lacks_listed(path, manifest)) throw;
    return {unread, {error.what()}};
  } catch (const std::runtime_error& error) {
    if (!options.check && options.manifest.empty()) throw;
    return {unread, {error.what()}};
  }
}

/// The files of weights, and an index or .metadata.
std::vector<fs::path> own_files(const Checkpoint& checkpoint) {
  auto files = checkpoint.files;
  if (std::ranges::find(files, checkpoint.weights) == files.end())
    files.insert(files.begin(), checkpoint.weights);
  std::erase_if(files, [](const fs::path& file) { return !fs::is_regular_file(file); });
  return files;
}

std::string files_of_tensor(const StoredTensor& tensor, const std::vector<std::string>& names) {
  std::set<std::size_t> places;
  for (const auto& box : tensor.boxes) places.insert(box.file);
  return joined(places, ", ", [&](std::size_t place) { return names.at(place); });
}

std::int64_t parameters_of(const std::vector<StoredTensor>& tensors) {
  std::set<std::vector<StoredBox>> seen;
  std::int64_t sum = 0;
  for (const auto& tensor : tensors)
    if (checkpoints::is_weight(tensor.role) &&
        (tensor.boxes.empty() || seen.insert(tensor.boxes).second))
      sum += tensor.elements();
  return sum;
}

Inspection contents_of(const Checkpoint& checkpoint) {
  Inspection result{.path = checkpoint.path,
                    .folder = manifest_folder_of(checkpoint.path),
                    .format = checkpoint.format,
                    .left_out = checkpoint.left_out,
                    .parameters = parameters_of(checkpoint.tensors),
                    .remarks = checkpoint.remarks};
  const auto name = [&](const fs::path& file) {
    return fs::absolute(file).lexically_normal().lexically_relative(result.folder).string();
  };
  for (const auto& file : own_files(checkpoint)) result.files.push_back(name(file));
  if (fs::is_directory(checkpoint.path) && checkpoint.in_folder())
    for (const auto& file : checkpoints::side_files(checkpoint))
      result.side_files.push_back(file.string());
  const auto names = texts_of(checkpoint.files, name);
  result.tensors.reserve(checkpoint.tensors.size());
  for (const auto& tensor : checkpoint.tensors)
    result.tensors.push_back({tensor.name,
                              tensor.dtype,
                              tensor.shape,
                              tensor.elements(),
                              tensor.bytes(),
                              files_of_tensor(tensor, names),
                              tensor.role});
  return result;
}

/// Adds the environment's fault thrown by `check`, as a line.
template <class Check>
void add_fault(Inspection& result, const Check& check) {
  try {
    check();
  } catch (const std::runtime_error& error) {
    result.faults.emplace_back(error.what());
  }
}

/// Compares an export's files with the digests in its signature.
void check_seal(const fs::path& folder) {
  const auto file = folder / "signature.json";
  if (!fs::exists(file)) return;
  const auto text = InputFile(file).text(JsonLimits{}.bytes);
  checkpoints::require_seal(parse_ordered_json(text, file.string()), file);
}

void add_report(Inspection& result, CheckReport report) {
  std::ranges::move(report.faults, std::back_inserter(result.faults));
  std::ranges::move(report.remarks, std::back_inserter(result.remarks));
}

void add_check(Inspection& result, const Checkpoint& checkpoint, const Reading& reading) {
  add_report(result, check_places(checkpoint));
  add_fault(result, [&] { add_report(result, check_values(checkpoint, reading)); });
  if (checkpoint.frozen) add_fault(result, [&] { checkpoint.frozen->verify(); });
  if (!fs::is_directory(checkpoint.path)) return;
  add_fault(result, [&] { check_seal(checkpoint.path); });
  add_fault(result, [&] { checkpoints::require_converted(checkpoint.path); });
}

ResultPlace manifest_place(const fs::path& file, std::vector<fs::path> inputs) {
  return {.path = file,
          .option = "--write_manifest",
          .mark = {.what = "manifest of dimred inspect", .text = std::string(manifest_head)},
          .inputs = std::move(inputs)};
}

std::vector<FileDigest> file_digests(const Inspection& result,
                                     const Checkpoint& checkpoint,
                                     const fs::path& manifest,
                                     const std::vector<FileDigest>& listed,
                                     const Reading& reading) {
  const auto names = manifest_files(
      result.folder, fs::is_directory(checkpoint.path), own_files(checkpoint), manifest, listed);
  return digest_files(result.folder, names, reading);
}

void count_manifest(Inspection& result, const Manifest& manifest) {
  result.manifest_files = manifest.files.size();
  result.manifest_tensors = manifest.tensors.size();
}

void write_manifest(Inspection& result,
                    const Checkpoint& checkpoint,
                    const InspectionOptions& options) {
  const auto& [check, none, file, reading] = options;
  const auto place = manifest_place(file, own_files(checkpoint));
  require_result_place(place);
  const Manifest manifest{file_digests(result, checkpoint, file, {}, reading),
                          digest_tensors(checkpoint, reading)};
  checkpoint.guard.require_unchanged(inspect_scope);
  write_result(place, manifest_text(manifest));
  count_manifest(result, manifest);
}

Manifest read_manifest(const fs::path& file) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  return parse_manifest(InputFile(file).text(most_bytes), path_text(file));
}

void compare_manifest(Inspection& result,
                      const Checkpoint& checkpoint,
                      const Manifest& manifest,
                      const InspectionOptions& options) {
  Manifest now{file_digests(result, checkpoint, options.manifest, manifest.files, options.reading),
               {}};
  const bool read = !checkpoint.tensors.empty();
  if (!manifest.tensors.empty() && read)
    add_fault(result, [&] { now.tensors = digest_tensors(checkpoint, options.reading); });
  auto expected = manifest;
  if (now.tensors.empty()) expected.tensors.clear();  // a fault says why none was read
  add_report(result, differences(expected, now));
  count_manifest(result, manifest);
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::weight:
      return "weight";
    case Role::adapter:
      return "adapter";
    case Role::buffer:
      return "buffer";
    case Role::statistic:
      return "statistic";
    case Role::quantised:
      return "quantised";
    case Role::training_state:
      return "training state";
    case Role::beside:
      return "beside";
  }
  return "unknown";
}

Inspection inspect(const fs::path& path, const InspectionOptions& options) {
  const bool writes = !options.write_manifest.empty();
  const bool compares = !options.manifest.empty();
  require(!writes || !compares,
          "[inspect] needs either --write_manifest or --manifest, received both");
  const auto manifest = compares ? read_manifest(options.manifest) : Manifest();
  if (writes) require_result_place(manifest_place(options.write_manifest, {}));
  auto [checkpoint, faults] = opened_with_faults(path, options, manifest);
  require_environment(!writes || faults.empty(),
                      "[inspect] a manifest needs an undamaged checkpoint: {}",
                      faults.empty() ? "" : faults.front());
  auto result = contents_of(checkpoint);
  result.faults = std::move(faults);
  if (writes) write_manifest(result, checkpoint, options);
  if (options.check) add_check(result, checkpoint, options.reading);
  if (compares) compare_manifest(result, checkpoint, manifest, options);
  options.reading.count(0);  // whoever stops wants no findings of half a reading
  checkpoint.guard.require_unchanged(inspect_scope);
  return result;
}

}  // namespace dimred::verbs
