#include "checkpoints/verbs/convert.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "checkpoints/file_names.h"
#include "checkpoints/name_pattern.h"
#include "checkpoints/output.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/shard_plan.h"
#include "checkpoints/shard_writer.h"
#include "checkpoints/side_files.h"
#include "checkpoints/tied.h"
#include "checkpoints/verbs/convert_pass.h"
#include "checkpoints/weight_names.h"
#include "checkpoints/written_folder.h"
#include "support/counted.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/json.h"
#include "support/locations.h"
#include "support/printable.h"
#include "support/stopwatch.h"
#include "support/text.h"
#include "support/utf8.h"
#include "support/version.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;
using checkpoints::Checkpoint;
using checkpoints::PlannedTensor;
using RecordJson = nlohmann::ordered_json;

checkpoints::WrittenFolder written_folder(const ConvertWork& work) {
  return {"", &work.plan, work.side_files, "convert.json"};
}

bool is_one_file(const fs::path& output) { return output.extension() == ".safetensors"; }

/// The tensors that the expressions choose, by the names that the source has.
std::vector<PlannedTensor> chosen_tensors(const Checkpoint& source,
                                          const ConversionOptions& options,
                                          ConvertReport& report) {
  require(!source.tensors.empty(), "[convert] '{}' has no tensor", source.path);
  checkpoints::NameChoice choice(options.include, options.exclude);
  std::vector<PlannedTensor> chosen;
  for (auto& tensor : checkpoints::planned_tensors(source, "")) {
    if (choice.takes(tensor.name))
      chosen.push_back(std::move(tensor));
    else
      report.excluded.push_back(tensor.name);
  }
  require(!chosen.empty(),
          "[convert] --include and --exclude leave none of the {} in '{}'",
          counted(std::ssize(source.tensors), "tensor"),
          source.path);
  if (auto remark = choice.remark(); !remark.empty()) report.remarks.push_back(std::move(remark));
  return chosen;
}

void give_type(PlannedTensor& tensor, const std::string& dtype, ConvertReport& report) {
  if (dtype.empty() || dtype == tensor.dtype || !checkpoints::is_float_type(tensor.dtype)) return;
  report.cast.push_back(tensor.name);
  tensor.dtype = dtype;
  tensor.bytes = checkpoints::bytes_of(dtype, tensor.shape);
}

/// Gives the tensors their new names. Throws where two get the same one.
void rename_tensors(std::vector<PlannedTensor>& tensors,
                    const RenameRules& rules,
                    ConvertReport& report) {
  const auto names = texts_of(tensors, &PlannedTensor::name);
  auto changed = renamed(names, rules, "convert", "", report.remarks);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (changed[i] != names[i]) report.renamed.emplace_back(names[i], changed[i]);
    tensors[i].name = std::move(changed[i]);
  }
}

/// The tensor of the adapter that takes the place of one of the source.
std::optional<std::size_t> replacement_of(const ConvertWork& work, std::size_t tensor) {
  return tensor < work.folds.tensors.size() ? work.folds.tensors[tensor].instead : std::nullopt;
}

void report_tied(const ConvertWork& work,
                 const std::vector<PlannedTensor>& chosen,
                 ConvertReport& report) {
  std::set<std::size_t> written;
  for (const auto& tensor : chosen) written.insert(tensor.index);
  for (const auto& group : checkpoints::tied_groups(work.source.tensors)) {
    std::map<std::optional<std::size_t>, std::vector<std::string>> names;  // by what replaces them
    for (const auto tensor : group)
      if (written.contains(tensor))
        names[replacement_of(work, tensor)].push_back(work.source.tensors[tensor].name);
    for (auto& [replacement, tied] : names)
      if (tied.size() > 1) report.tied.push_back(std::move(tied));
  }
}

void open_fold(ConvertWork& work, const fs::path& folder, ConvertReport& report) {
  if (folder.empty()) return;
  work.adapter = open_adapter(folder);
  const auto& [adapter, guard, config] = *work.adapter;
  work.folds = checkpoints::lora_folds(adapter, config, work.source);
  std::ranges::copy(work.folds.remarks, std::back_inserter(report.remarks));
}

void report_folded(const ConvertWork& work,
                   const std::vector<PlannedTensor>& chosen,
                   ConvertReport& report) {
  if (!work.adapter) return;
  for (const auto& tensor : chosen)
    if (work.folds.tensors[tensor.index].changes())
      report.folded.push_back(work.source.tensors[tensor.index].name);
}

/// The texts in the header of a source's one file, as trainers of adapters write them; without
/// digests where what they are of changes. Those of several files are left out, and a line says so.
std::map<std::string, std::string> kept_metadata(const Checkpoint& source, ConvertReport& report) {
  const auto own = std::span(source.files).first(source.files.size() - source.lent);
  std::map<std::string, std::string> kept;
  for (const auto& file : own)
    if (file.extension() == ".safetensors")
      kept.merge(checkpoints::read_safetensors_metadata(file));
  kept.erase("format");
  const bool changes = !report.cast.empty() || !report.folded.empty() || !report.renamed.empty() ||
                       !report.excluded.empty();
  std::vector<std::string> left_out;
  for (const auto& [name, text] : kept)
    if (own.size() > 1 || (changes && name.find("hash") != name.npos)) left_out.push_back(name);
  for (const auto& name : left_out) kept.erase(name);
  if (!left_out.empty())
    report.remarks.push_back(formatted("left out of the metadata in the header: {}",
                                       first_names(texts_of(left_out, printable), 3)));
  return kept;
}

/// One file holds all tensors, under the output's name and without an index.
void plan_files(ConvertWork& work,
                std::vector<PlannedTensor> tensors,
                const fs::path& output,
                std::int64_t shard_size,
                ConvertReport& report) {
  if (work.one_file)
    for (auto& tensor : tensors) tensor.group = 0;
  work.plan = checkpoints::plan_shards(
      std::move(tensors), work.source, shard_size, kept_metadata(work.source, report));
  if (!work.one_file) return;
  check(work.plan.shards.size() == 1, "one group is one shard");
  work.plan.shards.front().name = output.filename();
  work.plan.index_name.clear();
}

/// The digest of everything that decides the output's bytes.
std::string plan_digest(const ConvertWork& work, const ConversionOptions& options) {
  auto json = RecordJson::array({std::string(version()), std::string(revision())});
  json.push_back({work.source.path.string(), work.source.guard.states()});
  json.push_back({options.dtype, options.take});
  if (work.adapter)
    json.push_back({work.adapter->checkpoint.guard.states(), work.adapter->guard.states()});
  for (const auto& shard : work.plan.shards) {
    auto tensors = RecordJson::array();
    for (const auto& tensor : shard.tensors) tensors.push_back(tensor.index);
    json.push_back({shard.name, shard.head, tensors});
  }
  return digest_of(json.dump(-1, ' ', false, RecordJson::error_handler_t::replace));
}

checkpoints::OutputPlan output_plan(const ConvertWork& work, const ConversionOptions& options) {
  checkpoints::OutputPlan plan{.command = "convert",
                               .digest = plan_digest(work, options),
                               .one_file = work.one_file,
                               .names = {}};
  if (work.one_file)
    plan.names.emplace_back(work.plan.shards.front().name);
  else
    plan.names = written_folder(work).names();
  return plan;
}

RecordJson record_of(const ConvertWork& work,
                     const ConversionOptions& options,
                     const ConvertReport& report,
                     const std::vector<std::string>& digests) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? RecordJson() : RecordJson(text);
  };
  auto renamed = RecordJson::object(), tensors = RecordJson::object();
  for (const auto& [from, to] : report.renamed) append_value(renamed, from, to);
  for (const auto& shard : work.plan.shards)
    for (const auto& tensor : shard.tensors)
      append_value(tensors, tensor.name, digests[tensor.index]);
  return {{"format", 1},
          {"program", formatted("dimred {} ({})", version(), revision())},
          {"source", location_text(work.source.path)},
          {"dtype", or_null(options.dtype)},
          {"include", or_null(options.include)},
          {"exclude", or_null(options.exclude)},
          {"take", or_null(options.take)},
          {"adapter", work.adapter ? RecordJson(location_text(options.adapter)) : RecordJson()},
          {"folded", report.folded},
          {"cast", report.cast},
          {"renamed", renamed},
          {"excluded", report.excluded},
          {"left_out", report.left_out},
          {"tied", report.tied},
          {"tensors", tensors}};
}

void write_beside(const ConvertWork& work,
                  const ConversionOptions& options,
                  const ConvertReport& report,
                  const std::vector<std::string>& digests,
                  const checkpoints::Output& output) {
  if (work.one_file) return;
  for (const auto& name : work.side_files)
    checkpoints::copy_side_file(
        work.source.folder() / name, output.path(name), {options.dtype, work.folds.unties});
  written_folder(work).write_index_and_record(output, record_of(work, options, report, digests));
}

void report_vanished(const ConvertWork& work,
                     const std::vector<std::size_t>& vanished,
                     ConvertReport& report) {
  const auto name_of = [&](std::size_t tensor) { return work.source.tensors[tensor].name; };
  if (auto remark = checkpoints::vanished_remark(texts_of(vanished, name_of)); !remark.empty())
    report.remarks.push_back(std::move(remark));
}

/// Writes all but the final name.
void write_files(const ConvertWork& work,
                 const ConversionOptions& options,
                 ConvertReport& report,
                 checkpoints::Output& output) {
  output.fill([&] {
    const auto bytes = write_converted(work, options, output);
    report.bytes_read = bytes.read;
    report.bytes_written = bytes.written;
    report_vanished(work, bytes.vanished, report);
    write_beside(work, options, report, bytes.digests, output);
  });
}

/// A later reader of a source folder would read the output, too; also where only the folder's file
/// of weights is named. Beside this file, readers pass over one file of another name.
void require_apart(const fs::path& source,
                   const ConversionOptions& options,
                   const fs::path& output) {
  const bool passed_over = is_one_file(output) && !checkpoints::is_customary_name(output);
  for (const auto& read : {source, options.adapter}) {
    if (read.empty()) continue;
    if (fs::is_directory(read)) checkpoints::require_outside("convert", output, read);
    const auto folder = checkpoints::name_of(fs::absolute(read));
    if (!passed_over && fs::is_directory(folder))
      checkpoints::require_outside("convert", output, folder);
  }
}

ConvertWork open_work(const fs::path& source,
                      const fs::path& output,
                      const ConversionOptions& options,
                      ConvertReport& report) {
  ConvertWork work{
      .source = checkpoints::open_checkpoint(source, {.scope = "convert", .take = options.take})};
  if (work.source.frozen) work.source.frozen->verify();
  work.one_file = is_one_file(output);
  require(!work.one_file || options.shard_size == 0,
          "[convert] --shard_size needs a folder as --output, received '{}'",
          output);
  require_apart(source, options, output);
  report.remarks = work.source.remarks;
  report.left_out = work.source.left_out;
  open_fold(work, options.adapter, report);
  auto tensors = chosen_tensors(work.source, options, report);
  report_tied(work, tensors, report);
  report_folded(work, tensors, report);
  for (auto& tensor : tensors) {
    checkpoints::require_unquantised(work.source.tensors[tensor.index], options.dtype);
    give_type(tensor, options.dtype, report);
  }
  rename_tensors(tensors, options.renames, report);
  plan_files(work, std::move(tensors), output, options.shard_size, report);
  if (work.source.in_folder()) {
    report.not_copied = checkpoints::left_behind(work.source);
    if (!work.one_file) work.side_files = checkpoints::side_files(work.source);
  }
  return work;
}

}  // namespace

ConvertReport convert(const fs::path& source,
                      const fs::path& output,
                      const ConversionOptions& options) {
  const Stopwatch watch;
  require(is_one_file(output) || checkpoints::bare_name(output) == output.filename(),
          "[convert] writes safetensors and needs a folder or FILE.safetensors as --output, "
          "received '{}'",
          location_text(output));
  ConvertReport report{.source = source, .output = output};
  const auto work = open_work(source, output, options, report);
  for (const auto& shard : work.plan.shards)
    for (const auto& tensor : shard.tensors) report.tensors.push_back(tensor.name);
  report.shards = work.plan.shards.size();
  checkpoints::Output written(output, output_plan(work, options));
  write_files(work, options, report, written);
  written.commit();
  report.seconds = watch.seconds();
  return report;
}

std::string describe(const ConvertReport& report) {
  using checkpoints::count_and_names;
  auto text = formatted("{}: {} of {} in {}\n",
                        path_text(location_text(report.output)),
                        counted(std::ssize(report.tensors), "tensor"),
                        path_text(location_text(report.source)),
                        counted(static_cast<std::int64_t>(report.shards), "file"));
  const auto add = [&](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) text += formatted("{}: {}\n", what, count_and_names(names));
  };
  add("changed by the adapter", report.folded);
  add("cast to another type", report.cast);
  std::vector<std::string> changes;
  for (const auto& [from, to] : report.renamed)
    changes.push_back(formatted("{} -> {}", printable(from), printable(to)));
  add("renamed", changes);
  add("left out by --include and --exclude", report.excluded);
  add("left out as training state", report.left_out);
  for (const auto& names : report.tied)
    text += formatted("tied, written under each name: {}\n", terminal_text(name_list(names), ""));
  if (!report.not_copied.empty())
    text += formatted("not copied: {}\n", terminal_text(name_list(report.not_copied), ""));
  for (const auto& remark : report.remarks) text += remark + "\n";
  return text + formatted("read {}, wrote {} in {}",
                          bytes_text(report.bytes_read),
                          bytes_text(report.bytes_written),
                          duration_text(report.seconds));
}

}  // namespace dimred::verbs
