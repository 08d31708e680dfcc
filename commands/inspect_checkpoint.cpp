#include "commands/inspect_checkpoint.h"

#include <chrono>
#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints/artifact.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/weight_names.h"
#include "commands/text_table.h"
#include "merge/verify.h"
#include "options/option_values.h"
#include "support/atomic_file.h"
#include "support/console.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/text.h"
#include "support/utf8.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

std::string inspect_export(const fs::path& folder) {
  const auto file = folder / "signature.json";
  const auto damaged = formatted("[inspect] {} is damaged", file);
  const auto signature = parse_ordered_json(InputFile(file).text(JsonLimits{}.bytes), damaged);
  checkpoints::require_seal(signature, file);
  auto text = text_rows({{"export", folder.string()}, {"whole", "yes, digests verified"}});
  for (const auto& [name, value] : signature.items())
    if (name != "digest")
      text += text_row("  " + name, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

/// The inputs that `dimred merge` made the folder of.
std::string describe_merge(const fs::path& file) {
  const auto json = merge::verified_record(file.parent_path());
  auto text = text_rows({{"merge.json", "whole, its digest and those of the weights verified"},
                         {"  kind", json.at("kind").get<std::string>()},
                         {"  copied_from", json.at("copied_from").get<std::string>()}});
  for (const auto& input : json.at("inputs"))
    text += text_row(
        formatted("  step {}", input.at("step").dump()),
        formatted("{} of {}",
                  input.at("coefficient").is_null() ? "by name" : input.at("coefficient").dump(),
                  input.at("path").get<std::string>()));
  return text;
}

struct Amount {
  std::int64_t tensors = 0, elements = 0, bytes = 0;
  void add(const verbs::InspectedTensor& tensor) {
    ++tensors;
    elements += tensor.elements;
    bytes += tensor.bytes;
  }
};

std::string amount_text(const Amount& amount) {
  return formatted("{}, {}, {}",
                   counted(amount.tensors, "tensor"),
                   counted(amount.elements, "element"),
                   bytes_text(amount.bytes));
}

/// A row for each type and each role, in the order of the first tensor of each.
std::string amounts(const verbs::Inspection& inspection) {
  std::map<std::string, Amount> types;
  std::map<checkpoints::Role, Amount> roles;
  for (const auto& tensor : inspection.tensors) {
    types[tensor.dtype].add(tensor);
    roles[tensor.role].add(tensor);
  }
  std::string text;
  for (const auto& [type, amount] : types) text += text_row("  " + type, amount_text(amount));
  for (const auto& [role, amount] : roles)
    text += text_row(formatted("  {}", verbs::role_name(role)), amount_text(amount));
  return text;
}

std::string summary_text(const verbs::Inspection& inspection) {
  auto text = text_rows({{"checkpoint", inspection.path.string()},
                         {"format", inspection.format},
                         {"files", first_of_all(inspection.files, 6)},
                         {"tensors", count_text(std::ssize(inspection.tensors))},
                         {"parameters", count_text(inspection.parameters)}}) +
              amounts(inspection);
  if (!inspection.left_out.empty())
    text += text_row("left out", checkpoints::count_and_names(inspection.left_out));
  if (!inspection.side_files.empty())
    text += text_row("side files", first_of_all(inspection.side_files, 6));
  return text;
}

/// Runs `work`, which a progress line follows on a terminal once it takes a while.
template <class Work>
auto with_progress(ByteProgress& progress, const Work& work) {
  if (terminal_columns(stderr) == 0) return work();
  using std::chrono::milliseconds;
  auto done = std::async(std::launch::async, work);
  Console console(/*quiet=*/false);
  constexpr milliseconds patience(2000), between(200);
  for (auto wait = patience; done.wait_for(wait) != std::future_status::ready; wait = between)
    console.progress({.label = "reading", .done = progress.done, .total = progress.total});
  return done.get();
}

std::string manifest_rows(const verbs::Inspection& inspection,
                          const CheckpointQuestions& questions) {
  const bool wrote = !questions.write_manifest.empty();
  const auto amount =
      formatted("{}, {}",
                counted(static_cast<std::int64_t>(inspection.manifest_files), "file"),
                counted(static_cast<std::int64_t>(inspection.manifest_tensors), "tensor"));
  if (wrote)
    return text_row("wrote",
                    formatted("{}: {} of {}", questions.write_manifest, amount, inspection.folder));
  return text_row("manifest", formatted("{}: {}", questions.manifest, amount));
}

std::string findings(const verbs::Inspection& inspection, const CheckpointQuestions& questions) {
  std::string text;
  for (const auto& remark : inspection.remarks) text += text_row("note", remark);
  if (!questions.manifest.empty() || !questions.write_manifest.empty())
    text += manifest_rows(inspection, questions);
  for (const auto& fault : inspection.faults) text += text_row("FAULT", fault);
  const bool looked = questions.check || !questions.manifest.empty();
  if (looked && inspection.faults.empty()) text += text_row("faults", "none");
  return text;
}

}  // namespace

std::string tensor_table(const verbs::Inspection& inspection) {
  constexpr std::size_t left = 3;
  constexpr auto nothing = "";  // no letter of a name ends its line
  std::vector<std::vector<std::string>> rows{
      {"tensor", "dtype", "shape", "elements", "bytes", "role", "file"}};
  rows.reserve(inspection.tensors.size() + 1);
  for (const auto& tensor : inspection.tensors)
    rows.push_back({terminal_text(tensor.name, nothing),
                    tensor.dtype,
                    shape_text(tensor.shape),
                    count_text(tensor.elements),
                    count_text(tensor.bytes),
                    std::string(verbs::role_name(tensor.role)),
                    terminal_text(tensor.file, nothing)});
  return aligned(rows, left);
}

InspectedText own_records(const fs::path& folder) {
  InspectedText result;
  if (fs::exists(folder / "signature.json")) result.add({inspect_export(folder)});
  if (const auto merge = folder / "merge.json"; fs::exists(merge))
    result.add(attempted(merge, "", describe_merge));
  return result;
}

InspectedText inspect_checkpoint(const fs::path& path, const CheckpointQuestions& questions) {
  ByteProgress progress;
  const verbs::InspectionOptions options{.check = questions.check,
                                         .manifest = questions.manifest,
                                         .write_manifest = questions.write_manifest,
                                         .reading = {.progress = &progress}};
  const auto inspection = with_progress(progress, [&] { return verbs::inspect(path, options); });
  InspectedText result{summary_text(inspection)};
  if (checkpoints::look(path).kind == checkpoints::ArtifactKind::folder)
    result.add(own_records(path));
  result.add({findings(inspection, questions), !inspection.faults.empty()});
  if (!inspection.faults.empty())
    result.verdict = "has " + counted(std::ssize(inspection.faults), "fault");
  if (questions.tensors) result.text += tensor_table(inspection);
  return result;
}

}  // namespace dimred::commands
