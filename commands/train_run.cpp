#include "commands/train_run.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints/artifact.h"
#include "checkpoints/output.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "data/image_files.h"
#include "data/open.h"
#include "data/splits.h"
#include "options/effects.h"
#include "options/options_file.h"
#include "run/builtin_hooks.h"
#include "run/signals.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/named.h"
#include "support/text.h"
#include "support/url.h"

namespace dimred::commands {
namespace fs = std::filesystem;

namespace {

/// A stream_cache that was adopted is of the run's data, at a URL; other data may be on this
/// machine.
void leave_out_stream_cache(OptionTable& table,
                            const engine::DataOptions& data,
                            std::vector<std::string>& overridden) {
  const auto& cache = table.at(&data.dataset.stream_cache);
  if (looks_like_url(table.at(&data.dataset.path).text) || cache.show() == cache.default_value)
    return;
  const auto there = cache.show();
  table.set(&data.dataset.stream_cache, "0");
  overridden.push_back(formatted("{} = {} overrides {}, because the data is on this machine",
                                 cache.name,
                                 cache.show(),
                                 there));
}

/// An adopted precision that this device does not compute in gives way, and so do the lists that
/// float32 does not use; a flag stays.
void fit_precision(const OptionTable& table,
                   engine::ModelOptions& model,
                   bool on_gpu,
                   bool native,
                   std::vector<std::string>& overridden) {
  using enum engine::PrecisionChoice;
  const auto is_flag = [&](const void* field) {
    return table.at(field).origin == OptionOrigin::flag;
  };
  if (model.precision == float16 && !on_gpu && !is_flag(&model.precision)) {
    model.precision = native ? bfloat16 : float32;
    overridden.push_back(formatted("precision = {} overrides float16, which needs CUDA",
                                   native ? "bfloat16" : "float32"));
  }
  if (model.precision == bfloat16 && !native && !is_flag(&model.precision)) {
    model.precision = float32;
    overridden.emplace_back(
        "precision = float32 overrides bfloat16, because this machine has no native bfloat16");
  }
  for (auto* list : {&model.amp_allow, &model.amp_deny}) {
    if (model.precision != float32 || list->empty() || is_flag(list)) continue;
    list->clear();
    overridden.push_back(
        formatted("{} is ignored, because float32 does not use this list", table.at(list).name));
  }
}

/// The run's own copy of a module: the file that it was made from may be gone or another one.
void use_own_module(const OptionTable& table, const fs::path& run, engine::ModelOptions& model) {
  const auto module = run / run::module_file;
  const bool is_flag = table.at(&model.model).origin == OptionOrigin::flag;
  if (!run.empty() && fs::exists(module) && !is_flag) model.model = module.string();
}

}  // namespace

std::vector<std::string> adopt_run(OptionTable& table,
                                   const checkpoints::OpenedRun& opened,
                                   run::CommonOptions& common,
                                   const std::string& otherwise) {
  if (opened.config.empty()) {
    table.locate_all();
    return {};
  }
  using engine::PrecisionChoice;
  const auto device = engine::parse_device(common.run.device);
  const bool native = models::has_native_bfloat16(device);
  auto& precision = common.model.precision;
  if (precision == PrecisionChoice::automatic)
    precision = native ? PrecisionChoice::bfloat16 : PrecisionChoice::float32;
  const bool own_cache = table.was_set(&common.data.dataset.stream_cache);
  auto overridden = table.adopt(checkpoints::entries_of(opened));
  if (!own_cache) leave_out_stream_cache(table, common.data, overridden);
  use_own_module(table, opened.folder, common.model);
  fit_precision(table, common.model, device.is_cuda(), native, overridden);
  for (auto& line : overridden) line.insert(0, otherwise);
  return overridden;
}

std::string default_data_remark(const OptionTable& table,
                                const checkpoints::OpenedRun& run,
                                const fs::path& weights,
                                const engine::DataOptions& data) {
  const bool is_named = table.was_set(&data.dataset.path) || table.was_set(&data.dataset.kind);
  if (is_named || !run.config.empty()) return {};
  return formatted(
      "no run folder records the training data of {}, so {} come from the default data, "
      "Fashion-MNIST; give other data with --{}",
      weights,
      data.trained_mean.empty() ? "normalisation, classes and samples" : "classes and samples",
      table.at(&data.dataset.path).name);
}

void print_default_data(const OptionTable& table,
                        const checkpoints::OpenedRun& run,
                        const fs::path& weights,
                        const engine::DataOptions& data) {
  const auto remark = default_data_remark(table, run, weights, data);
  if (!remark.empty()) print(remark + "\n");
}

namespace {

/// Says what a run held out, by the options that it recorded as TOML, if the command's validation
/// set has samples of the run's training; empty: it has none, or the record does not say.
std::string other_held_out(const OptionTable& table,
                           const std::string& config,
                           const engine::DataOptions& data) {
  if (data.validation_fraction == 0) return {};
  const auto entries = read_toml(checkpoints::config_name, config);
  const auto recorded = [&](const void* field) {
    const auto found = std::ranges::find(entries, table.at(field).name, &ConfigEntry::name);
    return found == entries.end() ? std::string() : found->text;
  };
  const auto fraction = recorded(&data.validation_fraction);
  if (fraction.empty()) return {};
  const double trained = std::stod(fraction);
  // A smaller part is held out of a larger one, if the seed and the samples are the same.
  const auto differs = [&](const void* field) {
    const auto text = recorded(field);
    return !text.empty() && text != table.at(field).value();
  };
  const bool same_choice = !differs(&data.split_seed) && !differs(&data.train_samples);
  if (same_choice && data.validation_fraction <= trained) return {};
  if (trained == 0) return "no samples";
  return formatted("samples with validation_fraction = {}, split_seed = {}, train_samples = {}",
                   fraction,
                   recorded(&data.split_seed),
                   recorded(&data.train_samples));
}

/// The command's own choice of held-out samples.
std::string validation_text(const OptionTable& table, const engine::DataOptions& data) {
  return formatted("validation_fraction = {}, split_seed = {}, train_samples = {}",
                   table.at(&data.validation_fraction).value(),
                   table.at(&data.split_seed).value(),
                   table.at(&data.train_samples).value());
}

/// The options of a run that was trained on samples of the same data set; empty: of no such run.
std::string config_of_same_data(const std::string& run_json, const engine::DataSets& sets) {
  if (run_json.empty()) return {};
  const auto saved = nlohmann::json::parse(run_json);
  const auto record = saved.value("data", nlohmann::json());
  if (record.is_null() || !engine::other_training_samples(record, sets.record).empty()) return {};
  return saved.value("config", "");
}

/// Whether the caller has chosen the held-out samples. Adopted values, such as those of a mean's
/// first run, are no choice of theirs.
bool chooses_validation(const OptionTable& table, const engine::DataOptions& data) {
  return data.validation_fraction > 0 &&
         (table.at(&data.validation_fraction).was_given() ||
          table.at(&data.split_seed).was_given() || table.at(&data.train_samples).was_given());
}

/// The records of the runs that weights come from: a mean's, their own, or else that of the run
/// they lie in, as an export does.
std::vector<std::string> records_of(const run::Weights& weights, const fs::path& path) {
  if (!weights.runs.empty()) return weights.runs;
  return {weights.run_json.empty() ? checkpoints::record_of(path) : weights.run_json};
}

}  // namespace

void require_unseen_validation(const OptionTable& table,
                               const std::string& config,
                               const engine::DataOptions& data) {
  if (!chooses_validation(table, data)) return;
  const auto was = other_held_out(table, config, data);
  require(was.empty(),
          "[{}] the validation set would have samples that the weights were trained on: the run "
          "held out {}, received {}; give --{} 0 for no validation set",
          table.scope(),
          was,
          validation_text(table, data),
          table.at(&data.validation_fraction).name);
}

std::string seen_validation_remark(const OptionTable& table,
                                   const run::Weights& weights,
                                   const fs::path& path,
                                   const engine::DataSets& sets,
                                   const engine::DataOptions& data) {
  if (data.validation_fraction == 0) return {};
  const bool mean = !weights.runs.empty();
  for (const auto& record : records_of(weights, path)) {
    const auto was = other_held_out(table, config_of_same_data(record, sets), data);
    if (was.empty()) continue;
    return formatted("the validation set ({}) has samples that {} trained on: {} held out {}",
                     validation_text(table, data),
                     mean ? "some of the averaged weights were" : "the weights were",
                     mean ? "one of the runs" : "the run",
                     was);
  }
  return {};
}

std::string checked_validation(const OptionTable& table,
                               const run::Weights& weights,
                               const fs::path& path,
                               const engine::DataSets& sets,
                               const engine::DataOptions& data) {
  if (chooses_validation(table, data))
    for (const auto& record : records_of(weights, path))
      require_unseen_validation(table, config_of_same_data(record, sets), data);
  return seen_validation_remark(table, weights, path, sets, data);
}

namespace {

// 5.0 and 5 are the same value.
bool same_value(const std::string& now, const std::string& was) {
  if (now == was) return true;
  const auto number = number_in<double>(now);
  return number && number == number_in<double>(was);
}

}  // namespace

std::string differences_from(const OptionTable& table, const checkpoints::OpenedRun& continued) {
  if (continued.config.empty()) return {};
  std::map<std::string, std::string> before;
  for (const auto& entry : checkpoints::entries_of(continued))
    before[entry.name] = toml_value(entry);
  const auto text = [](const std::string& value) { return value.empty() ? "unset" : value; };
  std::string differences;
  for (const auto& row : table.rows()) {
    if (row.persists || row.role == OptionRole::input || holds(row.may_change, table)) continue;
    const auto now = row.show();
    // An older version's config.toml does not have the options that came later.
    if (!before.contains(row.name) && now == row.default_value) continue;
    const auto& was = before[row.name];
    if (same_value(now, was) || !(holds(row.needs, table) || row.was_set())) continue;
    differences += formatted(
        "{}{} = {} (was {})", differences.empty() ? "" : ", ", row.name, text(now), text(was));
  }
  if (differences.empty()) return {};
  return formatted("unlike the run of {}: {}", continued.source, differences);
}

std::string moved_run_remark(const OptionTable& table, const fs::path& output) {
  const fs::path config = table.config().text;
  const auto* row = table.row(OptionRole::output);
  if (config.filename() != checkpoints::config_name || row == nullptr ||
      row->origin != OptionOrigin::file)
    return {};
  const auto folder = fs::absolute(config).parent_path().lexically_normal();
  std::error_code ignored;
  if (!checkpoints::is_run(folder) ||
      fs::weakly_canonical(folder, ignored) == fs::weakly_canonical(fs::absolute(output), ignored))
    return {};
  return formatted(
      "the output of {} is {}, not the folder of this file; to continue the run in this folder, "
      "give --output {}",
      config,
      output,
      folder);
}

checkpoints::RunConfig run_config(const run::CommonOptions& common, const OptionTable& table) {
  auto config = checkpoints::run_config(table);
  config.module = run::module_of(common.model);
  return config;
}

void choose_network_by_data(const OptionTable& table, engine::ModelOptions& model) {
  if (!table.was_set(&model.model)) model.for_photographs = "resnet18";
}

std::string describe_choice(const std::optional<data::Recipe>& asked,
                            const run::CommonOptions& common) {
  const auto chosen = *common.data.preprocessing_name;
  if (asked || chosen == data::Recipe::none) return {};
  return formatted(
      "the images differ in size, so this run uses {}--preprocessing_name {} --image_size {}, the "
      "usual settings of {}",
      common.model.for_photographs.empty() ? "" : formatted("--model {} ", common.model.model),
      listed_name(data::recipe_names(), chosen),
      common.data.image_size,
      common.model.model);
}

MissingData missing_data(const OptionTable& table, const engine::DataOptions& data) {
  for (const auto* path : {&data.dataset.path, &data.dataset.test_path}) {
    const auto& row = table.at(path);
    const bool here =
        path->empty() || looks_like_url(row.text) || is_pattern(*path) || fs::exists(*path);
    if (!here && row.origin == OptionOrigin::file) return {row.name, *path};
  }
  return {};
}

void require_data(const OptionTable& table, const engine::DataOptions& data) {
  const auto missing = missing_data(table, data);
  require(missing.option.empty(),
          "[data] the run's {} is no longer at {}; give the new place with --{} PATH",
          missing.option == "data" ? "data" : "test data",
          missing.path,
          missing.option);
}

namespace {

/// The folders whose folders are the classes of images; none of other data.
std::vector<fs::path> class_roots(const data::DatasetOptions& data) {
  std::vector<fs::path> roots;
  for (const auto& path : {data.path, data.test_path}) {
    if (path.empty() || !fs::is_directory(path)) continue;
    if ((data.kind == "auto" ? data::kind_of(path) : data.kind) != "folder") continue;
    const auto train = data::split_folder(path, /*train=*/true);
    const auto test = data::split_folder(path, /*train=*/false);
    if (train.empty() && test.empty()) roots.push_back(path);
    for (const auto& split : {train, test})
      if (!split.empty()) roots.push_back(split);
  }
  return roots;
}

}  // namespace

void require_outside_classes(const OptionTable& table, const run::CommonOptions& common) {
  const auto& output = common.run.output;
  if (output.empty()) return;
  for (const auto& root : class_roots(common.data.dataset)) {
    const auto inner = fs::weakly_canonical(output).lexically_relative(fs::weakly_canonical(root));
    // The reader of class folders passes over hidden ones.
    const bool hidden = std::ranges::any_of(
        inner, [](const fs::path& part) { return data::is_left_out(part.string()); });
    if (!hidden) checkpoints::require_outside(table.scope(), output, root);
  }
}

void keep_values(OptionTable& table,
                 const fs::path& run,
                 std::initializer_list<const void*> fields) {
  if (run.empty() || !fs::exists(run / checkpoints::config_name)) return;
  const auto entries =
      checkpoints::entries_of({.folder = run, .config = checkpoints::read_config(run)});
  for (const auto* field : fields) {
    const auto& row = table.at(field);
    const auto found = std::ranges::find(entries, row.name, &ConfigEntry::name);
    if (!row.was_set() && found != entries.end()) table.set(field, found->text);
  }
}

namespace {

/// True on every rank when torchrun restarts what a signal stopped.
bool stopped_before(const distributed::Ranks& ranks) {
  return on_rank_0(*ranks.communicator, [&] { return distributed::was_stopped(ranks.rank_info); });
}

/// Calls, bytes and seconds of each kind of collective, of rank 0.
nlohmann::json traffic(const distributed::TensorCommunicator& communicator) {
  nlohmann::json list = nlohmann::json::object();
  for (std::size_t i = 0; i < distributed::collective_count; ++i) {
    const auto kind = static_cast<distributed::Collective>(i);
    const auto& one = communicator.traffic(kind);
    if (one.calls == 0) continue;
    list[distributed::name(kind)] = {{"calls", one.calls},
                                     {"bytes_sent", one.bytes_sent},
                                     {"bytes_between_nodes", one.bytes_between_nodes},
                                     {"seconds", one.seconds}};
  }
  return list;
}

}  // namespace

int train_run(const distributed::Ranks& ranks,
              const engine::Setup& setup,
              const run::RunFolder& folder,
              const std::string& command,
              Console& console,
              const std::function<run::EpochEnd()>& train) {
  constexpr int stopped = 143;
  if (stopped_before(ranks)) {
    console.line(
        "a signal has stopped this run, so this restart trains nothing; start the command again to "
        "continue");
    return stopped;
  }
  if (const auto limit = folder.lock_limit(); !limit.empty())
    console.warn(formatted(
        "[file] the lock of '{}' {}; start no second job in this folder", folder.path(), limit));
  folder.write_manifest(setup, command, "running", nlohmann::json::object());
  CheckpointUploads uploads(folder.path());  // after a failure, ended when all is written
  try {
    const auto end = train();
    const bool finished = end == run::EpochEnd::finished;
    const auto memory = run::peak_memory(setup.model);
    nlohmann::json details{
        {"traffic", traffic(*setup.communicator)},
        {"peak_memory_bytes", {{"process", memory.process}, {"device", memory.device}}}};
    if (auto sent = uploads.finish(); !sent.is_null())
      details["checkpoint_uploads"] = std::move(sent);
    folder.write_manifest(setup, command, finished ? "finished" : "interrupted", details);
    if (finished) return exit_success;
    if (ranks.rank_info.rank == 0 && !run::stopped_by_launcher())
      distributed::mark_stopped(ranks.rank_info);
    console.line(
        "stopped by a signal; everything is saved, and the same command continues from here");
    return run::stop_exit_code();
  } catch (const std::exception& error) {
    std::error_code hidden;  // another host's rank may not see the folder at all
    require_environment(
        ranks.rank_info.rank != 0 || fs::exists(folder.path(), hidden) || hidden,
        "[run] the run folder {} is gone; another process removed the folder during the run",
        folder.path());
    try {
      folder.write_manifest(setup, command, "failed", {{"error", error.what()}});
      folder.abandon();
    } catch (const std::exception&) {  // a full disk, say: the first error is what counts
    }
    throw;
  }
}

}  // namespace dimred::commands
