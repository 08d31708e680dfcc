#include "commands/train_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/artifact.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "options/options_file.h"
#include "support/agreement.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/named.h"
#include "support/url.h"
#include "training/builtin_hooks.h"
#include "training/signals.h"

namespace dimred::commands {
namespace fs = std::filesystem;

namespace {

/// A stream_cache that was adopted is of the run's data, at a URL; other data may be on this
/// machine.
void leave_out_stream_cache(OptionTable& table,
                            const training::DataOptions& data,
                            std::vector<std::string>& overridden) {
  const auto& cache = table.at(&data.stream_cache);
  if (looks_like_url(table.at(&data.data).text) || cache.show() == cache.default_value) return;
  const auto there = cache.show();
  table.set(&data.stream_cache, "0");
  overridden.push_back(formatted(
      "{} = {} overrides {}, as data is on this machine", cache.name, cache.show(), there));
}

/// An adopted precision that this device does not compute in gives way, and so do the lists that
/// float32 does not use; a flag stays.
void fit_precision(const OptionTable& table,
                   training::ModelOptions& model,
                   bool on_gpu,
                   bool native,
                   std::vector<std::string>& overridden) {
  using enum training::PrecisionChoice;
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
    overridden.emplace_back("precision = float32 overrides bfloat16, which is not native here");
  }
  for (auto* list : {&model.amp_allow, &model.amp_deny}) {
    if (model.precision != float32 || list->empty() || is_flag(list)) continue;
    list->clear();
    overridden.push_back(formatted("{} is left out in float32", table.at(list).name));
  }
}

/// The run's own copy of a module: the file that it was made from may be gone or another one.
void use_own_module(const OptionTable& table, const fs::path& run, training::ModelOptions& model) {
  const auto module = run / training::module_file;
  const bool is_flag = table.at(&model.model).origin == OptionOrigin::flag;
  if (!run.empty() && fs::exists(module) && !is_flag) model.model = module.string();
}

}  // namespace

std::vector<std::string> adopt_run(OptionTable& table,
                                   const checkpoints::OpenedRun& opened,
                                   training::CommonOptions& common,
                                   const std::string& otherwise) {
  if (opened.config.empty()) {
    table.locate_all();
    return {};
  }
  using training::PrecisionChoice;
  const auto device = training::parse_device(common.run.device);
  const bool native = models::has_native_bfloat16(device);
  auto& precision = common.model.precision;
  if (precision == PrecisionChoice::automatic)
    precision = native ? PrecisionChoice::bfloat16 : PrecisionChoice::float32;
  const bool own_cache = table.was_set(&common.data.stream_cache);
  auto overridden = table.adopt(checkpoints::entries_of(opened));
  if (!own_cache) leave_out_stream_cache(table, common.data, overridden);
  use_own_module(table, opened.folder, common.model);
  fit_precision(table, common.model, device.is_cuda(), native, overridden);
  for (auto& line : overridden) line.insert(0, otherwise);
  return overridden;
}

std::string default_data_remark(const OptionTable& table,
                                const fs::path& weights,
                                const training::DataOptions& data) {
  const bool is_named = table.was_set(&data.data) || table.was_set(&data.dataset);
  if (is_named || !checkpoints::open_run(weights).config.empty()) return {};
  return formatted(
      "no run says what {} was trained on: normalisation, classes and samples are those of the "
      "default data, Fashion-MNIST; --{} names others",
      weights,
      table.at(&data.data).name);
}

void print_default_data(const OptionTable& table,
                        const fs::path& weights,
                        const training::DataOptions& data) {
  const auto remark = default_data_remark(table, weights, data);
  if (!remark.empty()) print(remark + "\n");
}

checkpoints::RunConfig run_config(const training::CommonOptions& common, const OptionTable& table) {
  auto config = checkpoints::run_config(table);
  config.module = training::module_of(common.model);
  return config;
}

void choose_network_by_data(const OptionTable& table, training::ModelOptions& model) {
  if (!table.was_set(&model.model)) model.for_photographs = "resnet18";
}

std::string describe_choice(const std::optional<data::Recipe>& asked,
                            const training::CommonOptions& common) {
  const auto chosen = *common.data.preprocessing_name;
  if (asked || chosen == data::Recipe::none) return {};
  return formatted(
      "images of differing sizes: {}--preprocessing_name {} --image_size {}, as {} was "
      "made for",
      common.model.for_photographs.empty() ? "" : formatted("--model {} ", common.model.model),
      listed_name(data::recipe_names(), chosen),
      common.data.image_size,
      common.model.model);
}

MissingData missing_data(const OptionTable& table, const training::DataOptions& data) {
  for (const auto* path : {&data.data, &data.test_data}) {
    const auto& row = table.at(path);
    const bool here =
        path->empty() || looks_like_url(row.text) || is_pattern(*path) || fs::exists(*path);
    if (!here && row.origin == OptionOrigin::file) return {row.name, *path};
  }
  return {};
}

void require_data(const OptionTable& table, const training::DataOptions& data) {
  const auto missing = missing_data(table, data);
  require(missing.option.empty(),
          "[data] the run's {} is no longer at {}; give its place with --{} PATH",
          missing.option == "data" ? "data" : "test data",
          missing.path,
          missing.option);
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
              const training::Setup& setup,
              const training::RunFolder& folder,
              const std::string& command,
              Console& console,
              const std::function<training::EpochEnd()>& train) {
  constexpr int stopped = 143;
  if (stopped_before(ranks)) {
    console.line("stopped by a signal before this restart; a new start goes on from here");
    return stopped;
  }
  if (const auto limit = folder.lock_limit(); !limit.empty())
    console.warn(formatted("[file] the lock of '{}' {}; do not start a second job in this folder",
                           folder.path(),
                           limit));
  folder.write_manifest(setup, command, "running", nlohmann::json::object());
  CheckpointUploads uploads(folder.path());  // after a failure, ended when all is written
  try {
    const auto end = train();
    const bool finished = end == training::EpochEnd::finished;
    const auto memory = training::peak_memory(setup.model);
    nlohmann::json details{
        {"traffic", traffic(*setup.communicator)},
        {"peak_memory_bytes", {{"process", memory.process}, {"device", memory.device}}}};
    if (auto sent = uploads.finish(); !sent.is_null())
      details["checkpoint_uploads"] = std::move(sent);
    folder.write_manifest(setup, command, finished ? "finished" : "interrupted", details);
    if (finished) return exit_success;
    if (ranks.rank_info.rank == 0 && !training::stopped_by_launcher())
      distributed::mark_stopped(ranks.rank_info);
    console.line("stopped by a signal, all saved; the same command goes on from here");
    return training::stop_exit_code();
  } catch (const std::exception& error) {
    std::error_code hidden;  // another host's rank may not see the folder at all
    require_environment(ranks.rank_info.rank != 0 || fs::exists(folder.path(), hidden) || hidden,
                        "[run] the run folder {} is gone: it was removed while the run wrote to it",
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
