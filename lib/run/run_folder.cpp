#include "run/run_folder.h"

#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <tuple>

#include "checkpoints/artifact.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/state.h"
#include "models/script.h"
#include "run/curve.h"
#include "run/data_report.h"
#include "run/state.h"
#include "run/weights/frozen_file.h"
#include "run/weights/transfer.h"
#include "support/agreement.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/open_file.h"
#include "support/result_file.h"
#include "support/version.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;

constexpr auto lock_file = checkpoints::FolderLock::file_name;

/// Files that a run writes before it has trained: of no use without the files that would have
/// followed.
constexpr std::array beginnings{"config.toml",
                                "manifest.json",
                                "curve.csv",
                                "steps.csv",
                                "step_times.csv",
                                module_file,
                                lock_file,
                                frozen_file_name,
                                initialization_file_name};

bool is_beginning(const fs::directory_entry& item) {
  const auto name = item.path().filename().string();
  if (item.is_directory()) return fs::is_empty(item);
  return name.starts_with("events.out.tfevents") ||
         std::ranges::find(beginnings, name) != beginnings.end();
}

/// Files that a run leaves, apart from its snapshots, which its states list.
constexpr std::array parts{"config.toml",
                           "curve.csv",
                           "steps.csv",
                           "step_times.csv",
                           module_file,
                           frozen_file_name,
                           initialization_file_name,
                           "pca_mat.npy",
                           "pca_mat.json",
                           "ema.h5",
                           "start.h5",
                           "final.h5"};

/// The files that carry no digest of their own and have none elsewhere in the manifest.
constexpr std::array without_digest{
    "step_times.csv", module_file, frozen_file_name, initialization_file_name};

/// Bytes of each file, so that a missing, empty, cut or longer file is known.
nlohmann::json sizes_of_parts(const fs::path& run) {
  auto sizes = nlohmann::json::object();
  for (const auto* name : parts)
    if (fs::exists(run / name)) sizes[name] = fs::file_size(run / name);
  for (const auto* folder : {"best", "checkpoints"}) {
    if (!fs::exists(run / folder)) continue;
    for (const auto& item : fs::recursive_directory_iterator(run / folder))
      if (item.is_regular_file())
        sizes[item.path().lexically_relative(run).string()] = item.file_size();
  }
  return sizes;
}

/// The sizes and digests of a run's files.
void add_files(nlohmann::ordered_json& manifest, const fs::path& run) {
  manifest["files"] = sizes_of_parts(run);
  for (const auto* name : without_digest)
    if (fs::exists(run / name)) manifest["digests"][name] = file_digest(run / name);
  for (const auto* name : {"start.h5", "final.h5"})
    if (fs::exists(run / name))
      manifest["weights"][name] = checkpoints::snapshot_digest(run / name);
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

void require_run_place(const fs::path& path) {
  require(!path.empty(), "[output] needs --output FOLDER");
  require(!fs::exists(path) || fs::is_directory(path), "[output] {} is not a folder", path);
  require(checkpoints::is_run(path) || checkpoints::holds_nothing(path),
          "[output] {} holds files, but no run of dimred; choose another --output",
          path);
  if (!checkpoints::is_run(path)) require_outside_runs(path, "--output");
}

RunFolder::RunFolder(fs::path path,
                     const checkpoints::RunConfig& config,
                     Communicator& communicator,
                     const EventOptions& events)
    : path_(std::move(path)),
      record_{.config = config.persistent, .run = config.run},
      events_(events),
      writes_(communicator.rank() == 0) {
  on_rank_0(communicator, [&] { take(config); });
}

void RunFolder::take(const checkpoints::RunConfig& wanted) {
  require_run_place(path_);
  const auto config = path_ / "config.toml";
  created_ = create_folders(path_);
  lock_ = std::make_unique<checkpoints::FolderLock>(path_);
  new_run_ = !checkpoints::is_run(path_);
  if (!new_run_) {
    earlier_config_ = checkpoints::open_run(path_).config;
    checkpoints::require_same_configuration(path_, earlier_config_, wanted);
    if (fs::exists(manifest())) earlier_manifest_ = checkpoints::read_text(manifest());
  }
  earlier_work_ = work();
  write_file_atomically(
      config, checkpoints::with_digest(checkpoints::continued_toml(wanted, earlier_config_)));
  if (!wanted.module.empty() && !fs::exists(path_ / module_file))
    write_file_atomically(path_ / module_file, checkpoints::read_text(wanted.module));
}

fs::path module_of(const engine::ModelOptions& options) {
  return models::is_script(options.model) ? fs::path(options.model) : fs::path();
}

LineFile RunFolder::curve() const {
  LineFile file(writes_ ? path_ / "curve.csv" : "");
  if (events_.tensorboard) file.event_folder = path_;
  return file;
}

LineFile RunFolder::steps() const {
  LineFile file(writes_ ? path_ / "steps.csv" : "");
  if (events_.tensorboard_steps > 0) {
    file.event_folder = path_ / "steps";
    file.event_every = events_.tensorboard_steps;
  }
  return file;
}

std::string RunFolder::work() const {
  std::string text;
  const auto curve =
      fs::exists(path_ / "curve.csv") ? checkpoints::read_text(path_ / "curve.csv") : "";
  if (std::ranges::count(curve, '\n') > 1)
    text += std::to_string(curve.size());  // the header alone
  if (fs::exists(path_ / "pca_mat.npy")) text += " basis";
  for (const auto& state : checkpoints::states_of(path_)) text += ' ' + state.filename().string();
  return text;
}

void RunFolder::require_states_of_earlier() const {
  if (earlier_manifest_.empty()) return;
  const auto manifest_before = parse_json(earlier_manifest_, manifest().string());
  if (!manifest_before.is_object() || !manifest_before.contains("files")) return;
  for (const auto& [name, size] : manifest_before["files"].items())
    require(!name.starts_with("checkpoints/"),
            "[state] {} has no state, but manifest.json lists {}, so the run would start again and "
            "replace its files; restore the folder checkpoints/, or choose another --output",
            path_,
            name);
}

void RunFolder::abandon() const {
  if (!writes_ || work() != earlier_work_) return;
  if (!new_run_) {
    write_file_atomically(path_ / "config.toml", checkpoints::with_digest(earlier_config_));
    if (!earlier_manifest_.empty()) write_file_atomically(manifest(), earlier_manifest_);
    return;
  }
  const std::vector items(fs::directory_iterator(path_), fs::directory_iterator{});
  if (!std::ranges::all_of(items, is_beginning)) return;  // snapshots, say: the run stays as it is
  for (const auto& item : items)
    if (item.path().filename() != lock_file) fs::remove(item);
  fs::remove(path_ / lock_file);  // last: it keeps others out
  if (created_ && fs::is_empty(path_)) fs::remove(path_);
}

void RunFolder::write_manifest(const engine::Setup& setup,
                               const std::string& command,
                               const std::string& outcome,
                               const nlohmann::json& details) const {
  if (!writes_) return;
  const auto& [data, model] = std::tie(setup.data, setup.model);
  nlohmann::ordered_json manifest;
  manifest["command"] = command;
  manifest["outcome"] = outcome;
  // So that a table that is cut afterwards, at the end of a line too, or changed is known.
  for (const fs::path table : {"curve.csv", "steps.csv"})
    if (outcome == "finished" && fs::exists(path_ / table))
      manifest[table.stem().string()] = to_json(prefix_of(path_ / table));
  manifest["seed"] = setup.seed;
  manifest["revision"] = revision();
  manifest["versions"] = {{"dimred", version()}, {"torch", TORCH_VERSION}};
  manifest["device"] = model.device.str();
  manifest["processor"] = processor();
  manifest["threads"] = torch::get_num_threads();
  manifest["precision"] = models::name_of(model.precision);
  if (model.loss_scale.active()) manifest["loss_scale"] = to_json(model.loss_scale.state());
  manifest["ranks"] = setup.communicator->size();
  manifest["global_batch_size"] = data.global_batch_size;
  manifest["train_data"] = data.train->description();
  manifest["test_data"] = nullptr;
  if (data.test) manifest["test_data"] = data.test->description();
  manifest["sample_order"] = data.sample_order;
  manifest["class_names"] = data.train->class_names();
  manifest["data_pipeline"] = to_json(data.report, data.validation != nullptr);
  // A run that had ended already has read nothing in this start: what it read is still true.
  if (outcome == "finished" && !earlier_manifest_.empty() && work() == earlier_work_) {
    const auto earlier = parse_ordered_json(earlier_manifest_, (path_ / "manifest.json").string());
    if (earlier.contains("data_pipeline")) manifest["data_pipeline"] = earlier["data_pipeline"];
  }
  manifest["image_shape"] = {
      data.image_shape.channels, data.image_shape.height, data.image_shape.width};
  manifest["mean"] = data.preprocessing.mean;
  manifest["deviation"] = data.preprocessing.deviation;
  manifest["parameters"] = model.flat.layout.global_size;
  if (const auto frozen = model.flat.frozen_layout.file_size; frozen > 0)
    manifest["frozen_values"] = frozen;
  manifest["layout_hash"] = model.flat.layout.hash;
  manifest["details"] = details;
  // Only where the run has ended: a run that goes on writes these files again before its next
  // manifest.
  if (outcome == "finished" || outcome == "interrupted") add_files(manifest, path_);
  checkpoints::add_digest(manifest);
  write_file_atomically(
      path_ / "manifest.json",
      manifest.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace dimred::run
