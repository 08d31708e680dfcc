#include "checkpoints/run_config.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string_view>

#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// Options that may change when a run is taken up again: they do not alter what was computed so
/// far. The batch of a rank follows from the global one and the ranks. `threads` stays where the
/// run is deterministic.
constexpr std::array free_options{"epochs",
                                  "gradient_accumulation",
                                  "threads",
                                  "module_timeout",
                                  "prefetch",
                                  "prefetch_memory",
                                  "num_preprocessing_threads",
                                  "num_parallel_batches",
                                  "data_on_device",
                                  "cuda_graphs",
                                  "datasets_use_caching",
                                  "cache_memory",
                                  "data_cache",
                                  "stream_cache",
                                  "stream_fetches",
                                  "quiet",
                                  "stop_at_step",
                                  "yes",
                                  "log_loss_every_n_iters",
                                  "profile_every_n_iters",
                                  "profile_at_task",
                                  "time_history",
                                  "print_model_statistics",
                                  "tensorboard",
                                  "tensorboard_steps",
                                  "output",
                                  "batch_size",
                                  "backend",
                                  "rendezvous_timeout",
                                  "collective_timeout",
                                  "heartbeat_timeout",
                                  "store_cache",
                                  "store_timeout",
                                  "store_attempts",
                                  "store_first_wait",
                                  "store_longest_wait",
                                  "store_hadoop",
                                  "upload_checkpoints"};

/// key -> value text of a config.toml that OptionTable::to_toml wrote: one assignment a line.
std::map<std::string, std::string> assignments(const std::string& toml) {
  std::map<std::string, std::string> result;
  std::istringstream lines(toml);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find(" = ");
    if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
    result[line.substr(0, equals)] = line.substr(equals + 3);
  }
  return result;
}

void erase_free(std::map<std::string, std::string>& options) {
  const auto found = options.find("deterministic");
  const bool fixed = found != options.end() && found->second == "true";
  for (const std::string_view name : free_options) {
    const bool stays = fixed && name == "threads";
    if (!stays) options.erase(std::string(name));
  }
}

constexpr auto kDigestLine = "# Written by dimred; XXH3-128 of what follows: ";

/// The remedy where a run's config.toml is missing.
constexpr auto remedy =
    "; put the run's own config.toml back, or copy one of its states or snapshots to a place "
    "outside the run, where it is used by what it says itself";

/// persistent_options as a state or snapshot keeps them; empty when it is of an earlier version, or
/// neither.
std::string recorded_options(const fs::path& path) {
  nlohmann::json record;
  if (is_state(path)) {
    record = read_state_header(path).at("scalars");
  } else if (fs::is_regular_file(path) && is_snapshot(path)) {
    record = nlohmann::json::parse(read_snapshot_info(path).run_json, nullptr, false);
  }
  return record.is_object() ? record.value("config", "") : "";
}

/// The record that a state, a snapshot, or the first snapshot of a folder holds.
std::string options_outside_run(const fs::path& path) {
  if (!fs::is_directory(path) || is_state(path)) return recorded_options(path);
  const auto files = list_files(path, {".h5"});
  return files.empty() ? "" : recorded_options(files.front());
}

/// The newest state of the run that can be read; the path itself where it is a state or snapshot
/// with a record.
fs::path recorded_at(const fs::path& run, const fs::path& path, std::string& options) {
  if (options = recorded_options(path); !options.empty()) return path;
  auto states = states_of(run);
  for (; !states.empty(); states.pop_back()) {
    try {
      options = recorded_options(states.back());
      return states.back();
    } catch (const std::exception&) {  // a reader that needs this state itself will say so
      continue;
    }
  }
  return {};
}

void require_recorded(const fs::path& run,
                      const std::string& config,
                      const fs::path& from,
                      const std::string& recorded) {
  const auto now = assignments(config);
  for (const auto& [key, was] : assignments(recorded)) {
    const auto found = now.find(key);
    require_environment(
        found != now.end() && found->second == was,
        "[run] {} is not what {} was trained with: that has {} = {}, config.toml {}{}",
        run / "config.toml",
        from,
        key,
        was,
        found == now.end() ? "does not say it" : found->second,
        remedy);
  }
}

}  // namespace

std::string read_text(const fs::path& file) {
  const InputFile in(file);
  return in.text(in.size());
}

std::string with_digest(const std::string& toml) {
  return formatted("{}{}\n{}", kDigestLine, digest(toml), toml);
}

std::string read_config(const fs::path& folder) {
  const auto path = folder / "config.toml";
  require_environment(
      fs::is_regular_file(path), "[run] {} is missing, or is no file{}", path, remedy);
  auto text = read_text(path);
  const std::string head = kDigestLine;
  const bool has_digest = text.starts_with(head);
  require_environment(has_digest || !assignments(text).empty(),
                      "[run] {} is damaged: it is empty, or no option is left in it{}",
                      path,
                      remedy);
  if (!has_digest) return text;  // of a version that wrote none
  const auto line_end = std::min(text.find('\n'), text.size() - 1);
  const auto written = text.substr(head.size(), line_end - head.size());
  text.erase(0, line_end + 1);
  require_environment(
      digest(text) == written,
      "[run] {} is damaged, or was changed after the run wrote it: its digest differs{}",
      path,
      remedy);
  return text;
}

std::string persistent_options(const OptionTable& table) {
  std::string text;
  for (const auto& row : table.rows()) {
    const auto value = row.show();
    if (value.empty() ||
        std::ranges::find(persistent_groups, row.group) == persistent_groups.end() ||
        std::ranges::find(free_options, row.name) != free_options.end())
      continue;
    text += formatted("{} = {}\n", row.name, value);
  }
  return text;
}

bool is_run(const fs::path& folder) {
  return fs::exists(folder / "config.toml") || !states_of(folder).empty();
}

fs::path run_of(const fs::path& path) {
  if (path.empty()) return {};
  auto folder = fs::absolute(path).lexically_normal();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path()) {
    if (is_run(folder)) return folder;
  }
  return {};
}

void require_own(const fs::path& file) {
  const auto manifest = file.parent_path() / "manifest.json";
  if (file.extension() != ".h5" || !fs::is_regular_file(file) || !fs::is_regular_file(manifest))
    return;
  const auto json = parse_json(read_text(manifest), formatted("{} is damaged", manifest));
  const auto at = nlohmann::json::json_pointer("/weights") / file.filename().string();
  require_environment(!json.contains(at) || json.at(at) == snapshot_digest(file),
                      "{} is damaged or another's: manifest.json beside it has another digest",
                      file);
}

OpenedRun open_run(const fs::path& path) {
  if (path.empty()) return {};
  require_own(path);
  if (is_snapshot_list(path)) return open_run(snapshots_at(path, {}).front());
  OpenedRun run{.folder = run_of(path), .source = path};
  if (run.folder.empty()) {
    run.config = options_outside_run(path);
    return run;
  }
  run.source = run.folder / "config.toml";
  run.config = read_config(run.folder);
  std::string recorded;
  const auto from = recorded_at(run.folder, path, recorded);
  require_recorded(run.folder, run.config, from, recorded);
  if (!from.empty() && recorded.empty())
    run.warning = formatted(
        "{} is taken as it is: the states of this run are of an earlier version, which kept "
        "nothing to check it by",
        run.folder / "config.toml");
  return run;
}

namespace {

/// The way on for who meant something else by the option `key`, which was `was`.
std::string way_on(const std::string& key, const std::string& was) {
  if (key == "total_epochs")
    return formatted(
        "; its schedule ends there: with --total_epochs {} more --epochs go on at the last rate, "
        "and another --output starts anew",
        was);
  return formatted("{}; choose another --output",
                   key == "global_batch_size" ? " (batch_size x ranks unless given)" : "");
}

}  // namespace

void require_same_configuration(const fs::path& folder,
                                const std::string& earlier,
                                const RunConfig& config) {
  auto before = assignments(earlier);
  for (const auto& [key, value] : config.defaults) {
    if (!value.empty()) before.try_emplace(key, value);
  }
  auto now = assignments(config.toml);
  erase_free(before);
  erase_free(now);
  for (const auto& [key, value] : before) now.try_emplace(key, "(unset)");
  for (const auto& [key, value] : now) {
    const auto found = before.find(key);
    const auto was = found == before.end() ? "(unset)" : found->second;
    require(was == value,
            "[run] {} belongs to another configuration: it has {} = {}, received {}{}",
            folder,
            key,
            was,
            value,
            way_on(key, was));
  }
}

}  // namespace dimred::checkpoints
