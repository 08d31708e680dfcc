#include "merge/merge.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/output.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/shard_plan.h"
#include "checkpoints/side_files.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/weight_names.h"
#include "merge/pass.h"
#include "support/atomic_file.h"
#include "support/counted.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/locations.h"
#include "support/named.h"
#include "support/option_values.h"
#include "support/parallel.h"
#include "support/scope_exit.h"
#include "support/stopwatch.h"
#include "support/text.h"
#include "support/version.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr auto provenance_name = "merge.json";

/// The path, or the URL that it stands for.
std::string place_text(const fs::path& path) {
  auto whole = path.string();
  for (auto folder = path; folder.has_relative_path(); folder = folder.parent_path()) {
    const auto text = location_text(folder);
    if (text != folder.string()) return text + whole.substr(folder.string().size());
  }
  return whole;
}

std::string kind_text(const Recipe& recipe) {
  if (!recipe.file.empty()) return "coefficients of " + recipe.file.filename().string();
  const auto& [kind, decay, alpha] = recipe.coefficients;
  const auto& name = listed_name(kind_names(), kind);
  if (kind == Kind::ema) return formatted("{} {}", name, number_text(decay));
  return kind == Kind::pma_ema ? formatted("{} {}", name, number_text(alpha)) : name;
}

/// Kinds and windows that go by steps need some.
void require_order_for(const Recipe& recipe, const checkpoints::Series& series) {
  if (recipe.file.empty() && recipe.coefficients.kind != Kind::mean)
    checkpoints::require_order(
        series, "merge", "--kind " + listed_name(kind_names(), recipe.coefficients.kind));
  if (recipe.window.needs_order()) checkpoints::require_order(series, "merge", "a window of steps");
}

Part part_of(const Recipe& recipe, const std::vector<Input>& inputs, std::string_view copy_from) {
  while (copy_from.size() > 1 && copy_from.ends_with('/')) copy_from.remove_suffix(1);
  Part part{.kind = kind_text(recipe), .inputs = chosen(inputs, recipe.window)};
  std::vector<std::int64_t> steps;
  for (const auto input : part.inputs) steps.push_back(inputs[input].step);
  part.coefficients = recipe.file.empty() ? coefficients_of(steps, recipe.coefficients)
                                          : read_coefficients(recipe.file, steps.size());
  const auto is_it = [&](std::size_t input) {
    const auto& path = inputs[input].path;
    return path == copy_from || path.filename() == copy_from;
  };
  const auto named = std::ranges::find_if(part.inputs, is_it);
  if (copy_from == "latest" || copy_from == "oldest") {
    part.copied_from = copy_from == "latest" ? part.inputs.back() : part.inputs.front();
  } else {
    require(named != part.inputs.end(),
            "[merge] needs --copy_from latest, oldest or one of the merged checkpoints, received "
            "'{}'",
            copy_from);
    part.copied_from = *named;
  }
  return part;
}

/// One for each output, in numbered folders where there are several.
std::vector<Part> parts_of(const Options& options, const std::vector<Input>& inputs) {
  if (options.sweep.empty()) return {part_of(options.recipe, inputs, options.copy_from)};
  std::vector<Part> parts;
  const auto digits = std::max<std::size_t>(2, std::to_string(options.sweep.size()).size());
  for (const auto& recipe : options.sweep) {
    parts.push_back(part_of(recipe, inputs, options.copy_from));
    parts.back().folder = padded(std::ssize(parts), digits);
  }
  return parts;
}

/// Leaves out the inputs that no part needs.
void keep_needed(std::vector<Input>& inputs, std::vector<Part>& parts) {
  std::set<std::size_t> needed;
  for (const auto& part : parts) needed.insert(part.inputs.begin(), part.inputs.end());
  const std::vector<std::size_t> order(needed.begin(), needed.end());
  const auto place_of = [&](std::size_t input) -> std::size_t {
    return std::ranges::lower_bound(order, input) - order.begin();
  };
  for (auto& part : parts) {
    for (auto& input : part.inputs) input = place_of(input);
    part.copied_from = place_of(part.copied_from);
  }
  std::vector<Input> kept;
  for (const auto input : order) kept.push_back(std::move(inputs[input]));
  inputs = std::move(kept);
}

void read_headers(std::vector<Input>& inputs, const Input& like, const Options& options) {
  in_parallel(
      std::ssize(inputs), options.threads, [&](std::int64_t i) { read_tensors(inputs[i]); });
  require_different_files(inputs);
  for (const auto& input : inputs) {
    if (&input == &like) continue;
    require_same_tensors(like, input);
    if (!options.allow_different_config) require_same_configuration(like, input);
  }
  require_one_frozen_part(inputs);
}

/// Name, size and time of all files of an input, from before they were read.
OrderedJson state_of(const Input& input) {
  auto json = OrderedJson::array();
  for (const auto& [file, state] : input.guard.files()) {
    const auto known = state.value_or(FileState{});
    json.push_back({file.filename().string(), known.bytes, known.seconds, known.nanoseconds});
  }
  return json;
}

struct Work {
  std::vector<Input> inputs;
  std::vector<Part> parts;
  checkpoints::ShardPlan plan;
  const Input* like = nullptr;
  PassResult written;
};

/// The digest of everything that decides the output's bytes.
std::string plan_digest(const Work& work, const Options& options) {
  auto json = OrderedJson::array({std::string(version()), std::string(revision())});
  json.push_back(options.copy_from_given);
  for (const auto& input : work.inputs)
    json.push_back({input.path.string(), input.step, state_of(input)});
  for (const auto& part : work.parts)
    json.push_back(
        {part.inputs, texts_of(part.coefficients.values(), number_text), part.copied_from});
  for (const auto& shard : work.plan.shards) json.push_back({shard.name, shard.head});
  return digest_of(json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

checkpoints::OutputPlan output_plan(const Work& work, const Options& options) {
  checkpoints::OutputPlan plan{.command = "merge", .digest = plan_digest(work, options)};
  for (const auto& part : work.parts) {
    const auto add = [&](const fs::path& name) { plan.names.push_back(part.folder / name); };
    for (const auto& shard : work.plan.shards) add(shard.name);
    if (!work.plan.index_name.empty()) add(work.plan.index_name);
    std::ranges::for_each(part.side_files, add);
    add(provenance_name);
  }
  return plan;
}

/// What would find the output among its checkpoints when it is read again.
void require_apart(const std::vector<fs::path>& sources,
                   const std::vector<Input>& inputs,
                   const fs::path& output,
                   const checkpoints::OutputPlan& plan) {
  std::set<fs::path> read(sources.begin(), sources.end()), named;
  for (const auto& source : sources) named.insert(fs::absolute(source).lexically_normal());
  for (const auto& source : sources) read.insert(checkpoints::snapshots_of(source));
  for (const auto& input : inputs) {
    if (!named.contains(input.weights)) read.insert(input.path);  // beside a file that is named
    if (const auto run = checkpoints::run_above(input.path.parent_path()); !run.empty())
      read.insert(input.path.parent_path());
  }
  for (const auto& source : read) {
    checkpoints::require_outside(plan.command, output, source);
    checkpoints::require_unmatched(plan.command, output, source);
    for (const auto& name : plan.names)
      checkpoints::require_unmatched(plan.command, output / name, source);
  }
}

/// The digest of each tensor by its name.
OrderedJson named_digests(const Input& like, const std::vector<std::string>& digests) {
  auto json = OrderedJson::object();
  for (std::size_t t = 0; t < like.tensors.size(); ++t)
    append_value(json, like.tensors[t].name, digests[t]);
  return json;
}

OrderedJson provenance(const Work& work, std::size_t place, const Report& report) {
  const auto& part = work.parts[place];
  OrderedJson json{{"format", 3},
                   {"program", formatted("dimred {} ({})", version(), revision())},
                   {"kind", part.kind},
                   {"copied_from", place_text(work.inputs[part.copied_from].path)},
                   {"copied", report.copied},
                   {"left_out", report.left_out},
                   {"tensors", named_digests(*work.like, work.written.written[place])}};
  const auto coefficients = part.coefficients.values();
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    const auto& input = work.inputs[part.inputs[i]];
    json["inputs"].push_back(
        {{"path", place_text(input.path)},
         {"step", input.step},
         {"coefficient", coefficients[i]},
         {"tensors", named_digests(*work.like, work.written.read[part.inputs[i]])}});
  }
  checkpoints::add_digest(json);
  return json;
}

void write_beside(const Work& work,
                  const Options& options,
                  const Report& report,
                  const checkpoints::Output& output) {
  for (std::size_t i = 0; i < work.parts.size(); ++i) {
    const auto& part = work.parts[i];
    const auto from = work.inputs[part.copied_from].folder();
    for (const auto& name : part.side_files)
      checkpoints::copy_side_file(from / name, output.path(part.folder / name), options.dtype);
    if (!work.plan.index_name.empty())
      write_file_atomically(output.path(part.folder / work.plan.index_name), work.plan.index);
    write_file_atomically(
        output.path(part.folder / provenance_name),
        provenance(work, i, report).dump(1, ' ', false, OrderedJson::error_handler_t::replace) +
            "\n");
  }
}

void report_tensors(Report& report, const Work& work) {
  report.tensors = work.like->tensors.size();
  std::set<std::string> left_out;
  for (const auto& tensor : work.like->tensors) {
    if (!checkpoints::is_summed(tensor)) report.copied.push_back(tensor.name);
    report.statistics |= tensor.role == checkpoints::Role::statistic;
  }
  for (const auto& input : work.inputs) {
    report.inputs.push_back({input.path, input.step});
    left_out.insert(input.left_out.begin(), input.left_out.end());
  }
  report.left_out.assign(left_out.begin(), left_out.end());
}

void report_parts(Report& report, const Work& work, const fs::path& output) {
  for (const auto& part : work.parts)
    report.parts.push_back({part.folder.empty() ? output : output / part.folder,
                            part.kind,
                            part.inputs,
                            part.coefficients.values(),
                            work.inputs[part.copied_from].path,
                            {}});
  for (std::size_t i = 0; i < work.parts.size(); ++i) {
    const auto& from = work.inputs[work.parts[i].copied_from];
    if (from.in_folder())
      report.parts[i].not_copied = checkpoints::left_behind(from.path, from.files);
  }
}

/// A copy of a checkpoint under another step counts twice.
void report_equal(Report& report, const Digests& digests) {
  std::map<std::vector<std::string>, std::size_t> first;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const auto [at, fresh] = first.emplace(digests[i], i);
    if (!fresh) report.equal.emplace_back(at->second, i);
  }
}

/// Writes all but the final name; what a refused value leaves is removed.
void write_files(Work& work,
                 const Options& options,
                 const Report& report,
                 checkpoints::Output& output) {
  try {
    work.written =
        write_shards(work.inputs,
                     work.parts,
                     work.plan,
                     *work.like,
                     {options.threads, options.block, options.copy_from_given, options.stop},
                     output);
    write_beside(work, options, report, output);
  } catch (const std::invalid_argument&) {
    undo_after_error([&] { output.discard(); });
    throw;
  }
}

}  // namespace

Report merge(const std::vector<fs::path>& sources, const fs::path& output, const Options& given) {
  const Stopwatch watch;
  auto options = given;
  if (options.threads == 0) options.threads = available_threads();
  auto found = find_inputs(sources);
  for (const auto& recipe : options.sweep.empty() ? std::vector{options.recipe} : options.sweep)
    require_order_for(recipe, found.series);
  Work work{.inputs = std::move(found.inputs)};
  work.parts = parts_of(options, work.inputs);
  keep_needed(work.inputs, work.parts);
  work.like = &work.inputs[work.parts.back().copied_from];
  read_headers(work.inputs, *work.like, options);
  for (auto& part : work.parts)
    if (const auto from = work.inputs[part.copied_from].folder(); !from.empty())
      part.side_files = checkpoints::side_files(from);
  work.plan = checkpoints::plan_shards(
      checkpoints::planned_tensors(*work.like, options.dtype), *work.like, options.shard_size);
  require_open_files(work.parts, work.plan);
  Report report{.counted = found.series.counted, .remarks = found.series.remarks};
  report_tensors(report, work);
  report_parts(report, work, output);
  const auto files = output_plan(work, options);
  require_apart(sources, work.inputs, output, files);
  checkpoints::Output written(output, files);
  write_files(work, options, report, written);
  report_equal(report, work.written.read);
  report.bytes_read = work.written.bytes_read;
  report.bytes_written = work.written.bytes_written;
  written.commit();
  report.seconds = watch.seconds();
  return report;
}

std::string describe(const Report& report) {
  std::string text;
  for (const auto& part : report.parts) {
    text += formatted("{}: {} of {}\n",
                      place_text(part.folder),
                      part.kind,
                      counted(std::ssize(part.inputs), "checkpoint"));
    for (std::size_t i = 0; i < part.inputs.size(); ++i)
      text += formatted("  {} of {} (step {})\n",
                        significant_text(part.coefficients[i], 6),
                        place_text(report.inputs[part.inputs[i]].path),
                        report.inputs[part.inputs[i]].step);
    if (!report.copied.empty())
      text += formatted("  copied from {}: {}{}\n",
                        part.copied_from.filename(),
                        checkpoints::count_and_names(report.copied),
                        report.statistics ? "; statistics of BatchNorm want recalibration" : "");
    if (!part.not_copied.empty())
      text += formatted("  not copied from {}: {}\n",
                        part.copied_from.filename(),
                        printable(name_list(part.not_copied)));
  }
  for (const auto& remark : report.remarks) text += remark + "\n";
  if (report.counted) text += "the names carry no steps: checkpoints count in the order given\n";
  for (const auto& [one, other] : report.equal)
    text += formatted("{} and {} hold the same values\n",
                      place_text(report.inputs[one].path),
                      place_text(report.inputs[other].path));
  if (!report.left_out.empty())
    text += formatted("left out as training state: {}\n",
                      checkpoints::count_and_names(report.left_out));
  return text + formatted("read {}, wrote {} in {}",
                          bytes_text(report.bytes_read),
                          bytes_text(report.bytes_written),
                          duration_text(report.seconds));
}

}  // namespace dimred::merge
