#include "merge/merge.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/artifact.h"
#include "checkpoints/file_names.h"
#include "checkpoints/output.h"
#include "checkpoints/shard_plan.h"
#include "checkpoints/side_files.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/steps.h"
#include "checkpoints/weight_names.h"
#include "checkpoints/written_folder.h"
#include "merge/adapter_fold.h"
#include "merge/adapters.h"
#include "merge/pass.h"
#include "support/atomic_file.h"
#include "support/counted.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/locations.h"
#include "support/named.h"
#include "support/parallel.h"
#include "support/printable.h"
#include "support/stopwatch.h"
#include "support/text.h"
#include "support/utf8.h"
#include "support/version.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

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
  if (recipe.given) return "coefficients";
  if (!recipe.file.empty()) return "coefficients of " + recipe.file.filename().string();
  const auto& [kind, decay, alpha, gamma] = recipe.coefficients;
  const auto& name = listed_name(kind_names(), kind);
  if (kind == Kind::ema) return formatted("{} {}", name, number_text(decay));
  if (kind == Kind::power) return formatted("{} {}", name, number_text(gamma));
  return kind == Kind::pma_ema ? formatted("{} {}", name, number_text(alpha)) : name;
}

/// Kinds and windows that go by steps need some.
void require_order_for(const Recipe& recipe, const checkpoints::Series& series) {
  const bool by_kind = recipe.file.empty() && !recipe.given;
  const auto kind = recipe.coefficients.kind;
  if (by_kind && kind != Kind::mean)
    checkpoints::require_order(series, "merge", "--kind " + listed_name(kind_names(), kind));
  require(!by_kind || kind != Kind::power || !series.counted,
          "[merge] --kind power needs a step in the name of each checkpoint, received names "
          "without a step, such as '{}'",
          series.members.front().path);
  if (recipe.window.needs_order()) checkpoints::require_order(series, "merge", "a window of steps");
}

void require_order_for(const Options& options, const checkpoints::Series& series) {
  if (options.sweep.empty()) return require_order_for(options.recipe, series);
  for (const auto& recipe : options.sweep) require_order_for(recipe, series);
}

/// Says that the numbers of the checkpoints are no steps.
void remark_on_order(checkpoints::Series& series) {
  if (!series.counted || series.unordered.empty()) return;
  auto remark = formatted("the checkpoints have no order: {}", series.unordered);
  if (std::ranges::find(series.remarks, remark) == series.remarks.end())
    series.remarks.push_back(std::move(remark));
}

std::vector<checkpoints::MemberFacts> facts_of(const std::vector<Input>& inputs) {
  std::vector<checkpoints::MemberFacts> facts;
  for (const auto& input : inputs)
    facts.push_back({input.path, input.held_step, input.run, input.averaging});
  return facts;
}

/// Refuses kinds and windows that go by steps where snapshots hold other steps than their names
/// say, and says so for others.
void settle_held_steps(const Options& options,
                       const std::vector<Input>& inputs,
                       checkpoints::Series& series) {
  const auto difference = checkpoints::step_difference(facts_of(inputs));
  if (difference.empty()) return;
  series.remarks.push_back(difference);
  series.unordered = difference;
  require_order_for(options, series);
}

void take_coefficients(Part& part, const Recipe& recipe, const std::vector<std::int64_t>& steps) {
  if (!recipe.given && recipe.file.empty()) {
    part.coefficients = coefficients_of(steps, recipe.coefficients);
    return;
  }
  auto given = recipe.given ? *recipe.given : read_coefficients(recipe.file, steps.size());
  require_coefficients(given, steps.size(), "coefficients");
  part.coefficients = std::move(given.all);
  part.rules = std::move(given.rules);
}

/// The place of the part's input that a caller names: by its path or URL, or by the last name of
/// its path alone. Returns the end of the part's inputs where there is none.
std::vector<std::size_t>::const_iterator named_input(const Part& part,
                                                     const std::vector<Input>& inputs,
                                                     std::string_view name) {
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  auto whole = name.empty() ? fs::path() : fs::absolute(name).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const auto by_path = std::ranges::find_if(part.inputs, [&](std::size_t input) {
    const auto& path = inputs[input].path;
    return path.lexically_normal() == whole || place_text(path) == name;
  });
  if (by_path != part.inputs.end()) return by_path;
  return std::ranges::find_if(
      part.inputs, [&](std::size_t input) { return inputs[input].path.filename() == name; });
}

Part planned_part(const Recipe& recipe,
                  const std::vector<Input>& inputs,
                  std::string_view copy_from) {
  Part part{.kind = kind_text(recipe), .inputs = chosen(inputs, recipe.window)};
  std::vector<std::int64_t> steps;
  for (const auto input : part.inputs) steps.push_back(inputs[input].step);
  take_coefficients(part, recipe, steps);
  const auto named = named_input(part, inputs, copy_from);
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
  if (options.sweep.empty()) return {planned_part(options.recipe, inputs, options.copy_from)};
  std::vector<Part> parts;
  const auto digits = std::max<std::size_t>(2, std::to_string(options.sweep.size()).size());
  for (const auto& recipe : options.sweep) {
    parts.push_back(planned_part(recipe, inputs, options.copy_from));
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

void read_all_tensors(std::vector<Input>& inputs, const Options& options) {
  in_parallel(std::ssize(inputs), options.threads, [&](std::int64_t i) {
    // With a base the choice is the base's: adapters hold no average.
    read_tensors(inputs[i], options.base.empty() ? options.take : "");
  });
  require_different_files(inputs);
}

void require_one_form(const std::vector<Input>& inputs, const Input& like, const Options& options) {
  for (const auto& input : inputs) {
    if (&input == &like) continue;
    require_same_tensors(like, input);
    if (!options.allow_different_config) require_same_configuration(like, input);
  }
  require_one_frozen_part(inputs);
}

struct Work {
  std::vector<Input> inputs;
  std::vector<Part> parts;
  std::vector<checkpoints::ShardPlan> plans;  // of each part, or one for all
  const Input* like = nullptr;                // whose tensors the output has
  std::optional<Adapters> adapters;           // whose updates are averaged
  std::vector<Input> base;                    // that these are folded into: none or one
  checkpoints::LoraFolds folded;              // of the base's tensors
  PassResult written;

  /// Whose tensors the inputs have.
  const Input& read_like() const { return adapters ? inputs.front() : *like; }
  const checkpoints::ShardPlan& plan_of(std::size_t part) const {
    return plans[std::min(part, plans.size() - 1)];
  }
  checkpoints::WrittenFolder folder_of(std::size_t part) const {
    return {parts[part].folder, &plan_of(part), parts[part].side_files, "merge.json"};
  }
  /// Whose side files a part copies.
  const Input& copied_from(const Part& part) const {
    return base.empty() ? inputs[part.copied_from] : base.front();
  }
};

/// Whether the factors of adapters need another mean than their own.
bool averages_adapters(const Work& work, const Options& options) {
  const auto is_mean = [](const Part& part) { return part.inputs.size() > 1; };
  const bool mean = std::ranges::any_of(work.parts, is_mean);
  const auto other = std::ranges::find_if_not(work.inputs, &Input::is_adapter);
  require(options.base.empty() || other == work.inputs.end(),
          "[merge] --base needs LoRA adapters with adapter_config.json, received '{}'",
          other == work.inputs.end() ? fs::path() : other->path);
  return other == work.inputs.end() && (mean || !options.base.empty());
}

/// Refuses factors whose scales are unknown: their mean is not that of their products.
void require_no_factors(const Work& work) {
  for (const auto& tensor : work.like->tensors)
    for (const auto& part : work.parts)
      require(tensor.role != checkpoints::Role::adapter || part.inputs.size() == 1,
              "[merge] '{}' has the LoRA factor \"{}\", but the folder has no adapter_config.json, "
              "and a mean of factors is not a mean of updates; save the adapters with PEFT's "
              "save_pretrained, or fold each adapter into the base weights first",
              work.like->path,
              printable(tensor.name));
}

void open_base(Work& work, const Options& options) {
  Input base;
  static_cast<checkpoints::Checkpoint&>(base) =
      checkpoints::open_checkpoint(options.base, {.scope = "merge", .take = options.take});
  if (base.frozen) base.frozen->verify();
  work.base.push_back(std::move(base));
  work.folded = fold_plan(work.inputs, *work.adapters, work.base.front());
}

/// Reads where tensors lie, and holds the inputs against one another.
void read_headers(Work& work, const Options& options) {
  read_all_tensors(work.inputs, options);
  if (averages_adapters(work, options)) {
    work.adapters = read_adapters(work.inputs, options.allow_different_config);
    work.like = &work.inputs.front();
    if (options.base.empty()) return;
    open_base(work, options);
    work.like = &work.base.front();
    return;
  }
  work.like = &work.inputs[work.parts.back().copied_from];
  checkpoints::require_one_averaging(facts_of(work.inputs), "merge");
  require_one_form(work.inputs, *work.like, options);
  require_no_factors(work);
}

/// Lays out what is written.
void make_plans(Work& work, const Options& options) {
  const bool means = work.adapters && work.base.empty();
  require(!means || options.shard_size == 0,
          "[merge] --shard_size needs --base, because PEFT reads an adapter only from one file");
  if (!means) {
    work.plans.push_back(checkpoints::plan_shards(
        checkpoints::planned_tensors(*work.like, options.dtype), *work.like, options.shard_size));
    return;
  }
  for (const auto& part : work.parts)
    work.plans.push_back(checkpoints::plan_shards(
        planned_mean(part, work.inputs, *work.adapters, options.dtype), *work.like, 0));
}

/// Decides which rule each tensor follows; tensors that are not summed follow none.
void take_rules(Part& part, const Input& like) {
  if (part.rules.empty()) return;
  std::vector<std::string> summed;
  for (const auto& tensor : like.tensors)
    if (checkpoints::is_summed(tensor)) summed.push_back(tensor.name);
  const auto rules = rules_of(summed, part.rules, part.kind);
  part.rule_of.assign(like.tensors.size(), 0);
  std::size_t next = 0;
  for (std::size_t i = 0; i < like.tensors.size(); ++i)
    if (checkpoints::is_summed(like.tensors[i])) part.rule_of[i] = rules[next++];
}

std::vector<RuleReport> reports_of(const Part& part, const Input& like) {
  std::vector<RuleReport> reports;
  for (const auto& rule : part.rules)
    reports.push_back({rule.pattern.text(), rule.coefficients.values()});
  for (std::size_t i = 0; i < part.rule_of.size(); ++i)
    if (checkpoints::is_summed(like.tensors[i])) ++reports[part.rule_of[i]].tensors;
  return reports;
}

/// Coefficients as texts that keep their bits, and the rule of each tensor.
OrderedJson shares_of(const Part& part) {
  auto json = OrderedJson::array({texts_of(part.coefficients.values(), number_text)});
  for (const auto& rule : part.rules)
    json.push_back(texts_of(rule.coefficients.values(), number_text));
  json.push_back(part.rule_of);
  return json;
}

/// The digest of everything that decides the output's bytes.
std::string plan_digest(const Work& work, const Options& options) {
  auto json = OrderedJson::array({std::string(version()), std::string(revision())});
  json.push_back(options.copy_from_given);
  json.push_back(options.take);
  for (const auto& base : work.base) json.push_back({base.path.string(), base.guard.states()});
  for (const auto& input : work.inputs)
    json.push_back({input.path.string(), input.step, input.guard.states()});
  for (const auto& part : work.parts)
    json.push_back({part.inputs, shares_of(part), part.copied_from});
  for (const auto& plan : work.plans)
    for (const auto& shard : plan.shards) json.push_back({shard.name, shard.head});
  return digest_of(json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

checkpoints::OutputPlan output_plan(const Work& work, const Options& options) {
  checkpoints::OutputPlan plan{.command = "merge", .digest = plan_digest(work, options)};
  for (std::size_t i = 0; i < work.parts.size(); ++i)
    std::ranges::copy(work.folder_of(i).names(), std::back_inserter(plan.names));
  return plan;
}

/// Refuses a source whose next reading would find the output among its checkpoints.
void require_apart(const std::vector<fs::path>& sources,
                   const std::vector<Input>& inputs,
                   const fs::path& output,
                   const checkpoints::OutputPlan& plan) {
  std::set<fs::path> read(sources.begin(), sources.end());
  for (const auto& source : sources) {
    read.insert(checkpoints::snapshots_of(source));
    read.insert(checkpoints::name_of(fs::absolute(source)));
  }
  for (const auto& input : inputs) {
    read.insert(input.path);
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

/// The base that adapters were folded into, without the tensors that these bring.
OrderedJson recorded_base(const Input& base, const std::vector<std::string>& digests) {
  auto own = named_digests(base, digests);
  for (const auto& tensor : base.tensors)
    if (!base.owns(tensor)) own.erase(tensor.name);
  return {{"path", place_text(base.path)}, {"tensors", own}};
}

/// An input's share in a part; null where tensors have their own.
OrderedJson recorded_share(const Part& part, std::size_t place) {
  return part.rules.empty() ? OrderedJson(part.coefficients.values()[place]) : OrderedJson();
}

OrderedJson rules_json(const std::vector<RuleReport>& rules) {
  auto json = OrderedJson::array();
  for (const auto& [pattern, coefficients, tensors] : rules)
    json.push_back({{"pattern", pattern}, {"coefficients", coefficients}, {"tensors", tensors}});
  return json;
}

OrderedJson provenance(const Work& work,
                       std::size_t place,
                       const Options& options,
                       const Report& report) {
  const auto& part = work.parts[place];
  OrderedJson json{{"format", 3},
                   {"program", formatted("dimred {} ({})", version(), revision())},
                   {"kind", part.kind},
                   {"take", options.take.empty() ? OrderedJson() : OrderedJson(options.take)},
                   {"copied_from", place_text(work.copied_from(part).path)},
                   {"copied", report.copied},
                   {"left_out", report.left_out},
                   {"tensors", named_digests(*work.like, work.written.written[place])}};
  if (!part.rules.empty()) json["rules"] = rules_json(report.parts[place].rules);
  if (!work.base.empty()) json["base"] = recorded_base(work.base.front(), work.written.base_read);
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    const auto& input = work.inputs[part.inputs[i]];
    json["inputs"].push_back(
        {{"path", place_text(input.path)},
         {"step", input.step},
         {"coefficient", recorded_share(part, i)},
         {"tensors", named_digests(work.read_like(), work.written.read[part.inputs[i]])}});
  }
  return json;
}

void write_beside(const Work& work,
                  const Options& options,
                  const Report& report,
                  const checkpoints::Output& output) {
  for (std::size_t i = 0; i < work.parts.size(); ++i) {
    const auto& part = work.parts[i];
    const auto from = work.copied_from(part).folder();
    const bool is_mean = work.adapters && work.base.empty();
    for (const auto& name : part.side_files) {
      const auto to = output.path(part.folder / name);
      if (is_mean && name == checkpoints::adapter_config_name)
        write_file_atomically(to, mean_config_text(part, work.inputs, *work.adapters));
      else
        checkpoints::copy_side_file(from / name, to, {options.dtype, work.folded.unties});
    }
    work.folder_of(i).write_index_and_record(output, provenance(work, i, options, report));
  }
}

void report_tensors(Report& report, const Work& work) {
  report.tensors = work.like->tensors.size();
  std::set<std::string> left_out;
  const auto& folds = work.folded.tensors;  // none without a base
  for (std::size_t i = 0; i < work.like->tensors.size(); ++i) {
    const auto& tensor = work.like->tensors[i];
    const bool own = i >= folds.size() || !folds[i].changes();  // not an adapter's
    if (own && !checkpoints::is_summed(tensor)) report.copied.push_back(tensor.name);
    report.statistics |= tensor.role == checkpoints::Role::statistic;
  }
  for (const auto& input : work.inputs) {
    report.inputs.push_back({input.path, input.step});
    left_out.insert(input.left_out.begin(), input.left_out.end());
  }
  for (const auto& base : work.base) left_out.insert(base.left_out.begin(), base.left_out.end());
  report.left_out.assign(left_out.begin(), left_out.end());
}

void report_parts(Report& report, const Work& work, const fs::path& output) {
  for (const auto& part : work.parts)
    report.parts.push_back({part.folder.empty() ? output : output / part.folder,
                            part.kind,
                            part.inputs,
                            part.rules.empty() ? part.coefficients.values() : std::vector<double>(),
                            reports_of(part, work.read_like()),
                            work.copied_from(part).path,
                            {}});
  for (std::size_t i = 0; i < work.parts.size(); ++i) {
    const auto& from = work.copied_from(work.parts[i]);
    if (from.in_folder()) report.parts[i].not_copied = checkpoints::left_behind(from);
  }
}

/// Remarks on the choice in files, on rules without effect, and on a merge that changes nothing.
void add_remarks(Report& report, const Work& work) {
  std::set<std::string> said;
  for (const auto* inputs : {&work.inputs, &work.base})
    for (const auto& input : *inputs)
      for (const auto& remark : input.remarks)
        if (said.insert(remark).second) report.remarks.push_back(remark);
  if (auto remark = checkpoints::runs_remark(facts_of(work.inputs)); !remark.empty())
    report.remarks.push_back(std::move(remark));
  std::ranges::copy(work.folded.remarks, std::back_inserter(report.remarks));
  for (const auto& part : report.parts) {
    for (const auto& rule : part.rules)
      if (rule.tensors == 0)
        report.remarks.push_back(
            formatted("the pattern \"{}\" matches no tensor, so its coefficients have no effect",
                      printable(rule.pattern)));
    if (part.inputs.size() == 1 && work.base.empty())
      report.remarks.push_back(
          formatted("{} is only a copy of one checkpoint; `dimred convert` makes such copies",
                    place_text(part.folder)));
  }
}

/// A copy of a checkpoint under another step counts twice.
void report_equal(Report& report, const checkpoints::TensorDigests& digests) {
  std::map<std::vector<std::string>, std::size_t> first;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    const auto [at, fresh] = first.emplace(digests[i], i);
    if (!fresh) report.equal.emplace_back(at->second, i);
  }
}

void report_vanished(Report& report, const Work& work) {
  const std::set<std::size_t> vanished(work.written.vanished.begin(), work.written.vanished.end());
  const auto name_of = [&](std::size_t tensor) { return work.like->tensors[tensor].name; };
  if (auto remark = checkpoints::vanished_remark(texts_of(vanished, name_of)); !remark.empty())
    report.remarks.push_back(std::move(remark));
}

PassOptions pass_options(const Options& options) {
  return {options.threads, options.block, options.copy_from_given, options.progress};
}

PassResult write_sums(const Work& work,
                      const PassOptions& options,
                      const checkpoints::Output& output) {
  const auto& plan = work.plan_of(0);
  auto writer = writer_of(work.inputs, work.parts, plan, *work.like, output);
  expect_bytes(options.progress, bytes_to_read(work.inputs, *work.like, writer));
  return write_shards(work.inputs, work.parts, plan, *work.like, options, writer);
}

/// Writes the base with the mean of the adapters in it, as a merge of one with something added.
PassResult write_folded(const Work& work,
                        const PassOptions& options,
                        checkpoints::ShardWriter& writer) {
  std::vector<Part> parts;
  for (const auto& part : work.parts) {
    parts.push_back(
        {.kind = part.kind, .folder = part.folder, .inputs = {0}, .coefficients = {{1}}});
    parts.back().addend = addend_of(part, work.inputs, *work.adapters, work.folded);
    parts.back().replacement =
        replacement_of(part, work.inputs, *work.adapters, work.folded, work.base.front());
  }
  auto result = write_shards(work.base, parts, work.plan_of(0), work.base.front(), options, writer);
  result.base_read = std::move(result.read.front());
  return result;
}

PassResult write_means(const Work& work,
                       const PassOptions& options,
                       std::vector<checkpoints::ShardWriter>& writers) {
  PassResult result;
  for (std::size_t i = 0; i < work.parts.size(); ++i) {
    write_mean(work.parts[i], work.inputs, *work.adapters, options, writers[i]);
    result.written.push_back(writers[i].written().front());
    result.bytes_written += writers[i].bytes_left();
    std::ranges::copy(writers[i].vanished(), std::back_inserter(result.vanished));
  }
  return result;
}

/// One for the base with all means in it, or one for each mean, as their tensors differ in size.
std::vector<checkpoints::ShardWriter> writers_of(const Work& work,
                                                 const checkpoints::Output& output) {
  if (!work.base.empty())
    return {writer_of(work.base, work.parts, work.plan_of(0), work.base.front(), output)};
  std::vector<checkpoints::ShardWriter> writers;
  const auto tensors = work.inputs.front().tensors.size();
  for (std::size_t i = 0; i < work.parts.size(); ++i)
    writers.emplace_back(
        output, work.plan_of(i), std::vector{work.parts[i].folder}, std::size_t{0}, tensors);
  return writers;
}

/// Bytes of tensors that the writers need, beside what the adapters' digests do.
std::int64_t bytes_to_write_from(const Work& work,
                                 const std::vector<checkpoints::ShardWriter>& writers) {
  if (!work.base.empty()) return bytes_to_read(work.base, work.base.front(), writers.front());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < work.parts.size(); ++i)
    bytes += bytes_to_read(work.parts[i], work.inputs, *work.adapters, writers[i]);
  return bytes;
}

PassResult write_adapters(const Work& work,
                          const Options& options,
                          const checkpoints::Output& output) {
  const auto pass = pass_options(options);
  auto writers = writers_of(work, output);
  std::int64_t bytes = 0;  // of the adapters
  for (const auto& input : work.inputs)
    for (const auto& tensor : input.tensors) bytes += tensor.bytes();
  expect_bytes(options.progress, bytes + bytes_to_write_from(work, writers));
  auto read = digests_of(work.inputs, *work.adapters, pass);
  for (const auto& part : work.parts)
    if (!options.copy_from_given) require_equal_copies(part, work.inputs, read);
  auto result = work.base.empty() ? write_means(work, pass, writers)
                                  : write_folded(work, pass, writers.front());
  for (const auto& input : work.inputs) input.guard.require_unchanged("merge");
  result.bytes_read += bytes;
  result.read = std::move(read);
  return result;
}

/// Writes all but the final name.
void write_files(Work& work,
                 const Options& options,
                 const Report& report,
                 checkpoints::Output& output) {
  output.fill([&] {
    work.written = work.adapters ? write_adapters(work, options, output)
                                 : write_sums(work, pass_options(options), output);
    write_beside(work, options, report, output);
  });
}

}  // namespace

Report merge(const std::vector<fs::path>& sources, const fs::path& output, const Options& given) {
  const Stopwatch watch;
  require(!checkpoints::is_weight_name(output),
          "[merge] needs a folder as --output, received the file name '{}'; leave out {}; "
          "afterwards, dimred convert can write the folder into one file",
          location_text(output),
          output.filename().string().substr(checkpoints::bare_name(output).size()));
  auto options = given;
  if (options.threads == 0) options.threads = available_threads();
  auto found = find_inputs(sources);
  require_order_for(options, found.series);
  remark_on_order(found.series);
  Work work{.inputs = std::move(found.inputs)};
  work.parts = parts_of(options, work.inputs);
  keep_needed(work.inputs, work.parts);
  read_headers(work, options);
  settle_held_steps(options, work.inputs, found.series);
  for (auto& part : work.parts) {
    take_rules(part, work.read_like());
    if (work.adapters) {
      require_one_rule(part, work.read_like());
      part.kind += work.base.empty() ? " of updates" : " of updates in the base";
    }
    if (const auto& from = work.copied_from(part); !from.folder().empty())
      part.side_files = checkpoints::side_files(from);
  }
  make_plans(work, options);
  require_open_files(work.parts, work.plan_of(0));
  Report report{.counted = found.series.counted && found.series.unordered.empty(),
                .by_name = sources.size() == 1 && sources[0].extension() != ".txt",
                .remarks = found.series.remarks};
  report_tensors(report, work);
  report_parts(report, work, output);
  add_remarks(report, work);
  const auto files = output_plan(work, options);
  auto places = sources;
  for (const auto& base : work.base) places.push_back(base.path);
  require_apart(places, work.inputs, output, files);
  checkpoints::Output written(output, files);
  write_files(work, options, report, written);
  report_equal(report, work.written.read);
  report_vanished(report, work);
  report.bytes_read = work.written.bytes_read;
  report.bytes_written = work.written.bytes_written;
  written.commit();
  report.seconds = watch.seconds();
  return report;
}

namespace {

std::string coefficient_text(double value) { return significant_text(value, 6); }

/// The place on one line, whatever its name holds.
std::string printed_place(const fs::path& path) { return path_text(place_text(path)); }

/// The inputs of a part, a line each, and the rules of its tensors.
std::string describe_shares(const Report& report, const PartReport& part) {
  std::string text;
  for (std::size_t i = 0; i < part.inputs.size(); ++i)
    text += formatted("  {}{} (step {})\n",
                      part.rules.empty() ? coefficient_text(part.coefficients[i]) + " of " : "",
                      printed_place(report.inputs[part.inputs[i]].path),
                      report.inputs[part.inputs[i]].step);
  for (const auto& rule : part.rules)
    text += formatted("  {}: {} ({})\n",
                      printable(rule.pattern),
                      joined(rule.coefficients, " ", coefficient_text),
                      counted(static_cast<std::int64_t>(rule.tensors), "tensor"));
  return text;
}

}  // namespace

std::vector<std::string> remarks_on(const Report& report) {
  auto remarks = report.remarks;
  if (report.counted)
    remarks.push_back(
        formatted("the names have no steps, so dimred takes the checkpoints in the {}",
                  report.by_name ? "order of their names" : "given order"));
  for (const auto& [one, other] : report.equal)
    remarks.push_back(formatted("{} and {} hold the same values",
                                printed_place(report.inputs[one].path),
                                printed_place(report.inputs[other].path)));
  return remarks;
}

std::string describe(const Report& report) {
  std::string text;
  for (const auto& part : report.parts) {
    text += formatted("{}: {} of {}\n",
                      printed_place(part.folder),
                      part.kind,
                      counted(std::ssize(part.inputs), "checkpoint"));
    text += describe_shares(report, part);
    if (!report.copied.empty())
      text += formatted("  copied from {}: {}{}\n",
                        part.copied_from.filename(),
                        checkpoints::count_and_names(report.copied),
                        report.statistics ? "; recalibrate the statistics of BatchNorm" : "");
    if (!part.not_copied.empty())
      text += formatted("  not copied from {}: {}\n",
                        part.copied_from.filename(),
                        terminal_text(name_list(part.not_copied), ""));
  }
  for (const auto& remark : remarks_on(report)) text += remark + "\n";
  if (!report.left_out.empty())
    text += formatted("left out as training state: {}\n",
                      checkpoints::count_and_names(report.left_out));
  return text + formatted("read {}, wrote {} in {}",
                          bytes_text(report.bytes_read),
                          bytes_text(report.bytes_written),
                          duration_text(report.seconds));
}

}  // namespace dimred::merge
