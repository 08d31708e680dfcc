#include "commands/train_run.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands/remote.h"
#include "commands/run.h"
#include "distributed/agreement.h"
#include "support/errors.h"
#include "support/locations.h"
#include "support/options_file.h"
#include "training/builtin_hooks.h"
#include "training/signals.h"

namespace dimred::commands {
namespace fs = std::filesystem;

namespace {

/// A stream_cache that was adopted is of the run's data, at a URL; other data may be on this
/// machine.
void leave_out_stream_cache(OptionTable& table,
                            const fs::path& source,
                            std::vector<std::string>& overridden) {
  const auto& cache = *table.row("stream_cache");
  if (looks_like_url(table.row("data")->text) || cache.show() == cache.default_value) return;
  const auto there = cache.show();
  table.read_words("stream_cache=0", source.string());
  overridden.push_back(
      formatted("stream_cache = {} overrides {}, as data is on this machine", cache.show(), there));
}

/// An adopted precision that this device does not compute in gives way, and so do the lists that
/// float32 does not use; a flag stays.
void fit_precision(const OptionTable& table,
                   training::ModelOptions& model,
                   bool on_gpu,
                   bool native,
                   std::vector<std::string>& overridden) {
  using enum training::PrecisionChoice;
  const auto is_flag = [&](const char* name) { return table.origin(name) == OptionOrigin::flag; };
  if (model.precision == float16 && !on_gpu && !is_flag("precision")) {
    model.precision = native ? bfloat16 : float32;
    overridden.push_back(formatted("precision = {} overrides float16, which needs CUDA",
                                   native ? "bfloat16" : "float32"));
  }
  if (model.precision == bfloat16 && !native && !is_flag("precision")) {
    model.precision = float32;
    overridden.emplace_back("precision = float32 overrides bfloat16, which is not native here");
  }
  for (auto [name, list] :
       {std::pair("amp_allow", &model.amp_allow), std::pair("amp_deny", &model.amp_deny)}) {
    if (model.precision != float32 || list->empty() || is_flag(name)) continue;
    list->clear();
    overridden.push_back(formatted("{} is left out in float32", name));
  }
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
  const bool native = models::has_native_bfloat16(training::parse_device(common.run.device));
  auto& precision = common.model.precision;
  if (precision == PrecisionChoice::automatic)
    precision = native ? PrecisionChoice::bfloat16 : PrecisionChoice::float32;
  const bool own_cache = table.was_set("stream_cache");
  // Behind the line of the digest, for the places in messages.
  auto overridden =
      table.adopt(read_toml(opened.source, '\n' + opened.config), checkpoints::persistent_groups);
  if (!own_cache) leave_out_stream_cache(table, opened.source, overridden);
  // The run's own copy of a module: the file that it was made from may be gone or another one.
  const auto module = opened.folder / training::module_file;
  if (!opened.folder.empty() && fs::exists(module) && table.origin("model") != OptionOrigin::flag)
    common.model.model = module.string();
  const bool on_gpu = training::parse_device(common.run.device).is_cuda();
  fit_precision(table, common.model, on_gpu, native, overridden);
  for (auto& line : overridden) line.insert(0, otherwise);
  if (!opened.warning.empty()) overridden.insert(overridden.begin(), opened.warning);
  return overridden;
}

checkpoints::RunConfig run_config(const training::CommonOptions& common, const OptionTable& table) {
  return {.toml = table.to_toml(),
          .defaults = table.defaults(),
          .module = training::module_of(common.model),
          .persistent = checkpoints::persistent_options(table)};
}

void choose_network_by_data(const OptionTable& table, training::ModelOptions& model) {
  if (!table.was_set("model")) model.for_photographs = "resnet18";
}

std::string describe_choice(const std::optional<data::Recipe>& asked,
                            const training::CommonOptions& common) {
  const auto chosen = *common.data.preprocessing_name;
  if (asked || chosen == data::Recipe::none) return {};
  const auto named = std::ranges::find(
      data::recipe_names(), chosen, &std::pair<std::string, data::Recipe>::second);
  return formatted(
      "images of differing sizes: {}--preprocessing_name {} --image_size {}, as {} was "
      "made for",
      common.model.for_photographs.empty() ? "" : formatted("--model {} ", common.model.model),
      named->first,
      common.data.image_size,
      common.model.model);
}

void keep_earlier_values(OptionTable& table, const fs::path& run) {
  // The defaults of these were others in earlier versions; 0 alone is an image_size of then, and
  // convnet alone a model. Stage 2's start is chosen by snapshots that may be gone.
  constexpr std::array changed{"image_size",
                               "model",
                               "learning_rate",
                               "opt_epsilon",
                               "adagrad_initial_accumulator_value",
                               "adadelta_rho",
                               "rmsprop_momentum",
                               "rmsprop_decay",
                               "preset",
                               "start",
                               "start_latest"};
  const auto config = run / "config.toml";
  if (!fs::exists(config)) return;
  std::istringstream in(checkpoints::read_text(config));
  for (std::string line; std::getline(in, line);) {
    const auto name = line.substr(0, line.find(" = "));
    const bool known = std::ranges::find(changed, name) != changed.end() &&
                       table.row(name) != nullptr && !table.was_set(name);
    if (!known || (name == "image_size" && line != "image_size = 0")) continue;
    if (name == "model" && line != "model = \"convnet\"") continue;
    if (line == "start = \"file\"" || line == "start_latest = 0") continue;
    if (name == "start_latest" && table.origin("start") == OptionOrigin::flag) continue;
    auto value = line.substr(line.find(" = ") + 3);
    std::erase(value, '"');
    table.read_words(formatted("{}={}", name, value), config.string());
  }
}

namespace {

/// True on every rank when torchrun starts anew what a signal stopped.
bool stopped_before(const distributed::Ranks& ranks) {
  const auto answer = distributed::on_rank_0(*ranks.communicator, [&]() -> std::string {
    return distributed::was_stopped(ranks.rank_info) ? "yes" : "no";
  });
  return answer == "yes";
}

/// Calls, bytes and seconds of each kind of collective, of rank 0.
nlohmann::json traffic(const distributed::Communicator& communicator) {
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
    console.warn(formatted(
        "[file] the lock of '{}' {}: start no second job in this folder", folder.path(), limit));
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
