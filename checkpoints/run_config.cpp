#include "checkpoints/run_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/artifact.h"
#include "checkpoints/series.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "options/effects.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// The values of a config.toml, or of what a state or snapshot keeps of one, as TOML.
std::map<std::string, std::string> values_in(const fs::path& file, const std::string& toml) {
  std::map<std::string, std::string> values;
  for (const auto& entry : read_toml(file, toml)) values[entry.name] = toml_value(entry);
  return values;
}

constexpr auto digest_line = "# Written by dimred; XXH3-128 of what follows: ";

/// The remedy where a run's config.toml is missing.
constexpr auto remedy =
    "; put the run's own config.toml back, or copy a state or snapshot of the run to a folder "
    "outside of the run and use this copy";

/// RunConfig::persistent as the record of a state or snapshot keeps it; empty where it does not.
std::string options_in(const std::string& record) {
  const auto json = nlohmann::json::parse(record, nullptr, false);
  return json.is_object() ? json.value("config", "") : "";
}

/// Returns the JSON that a state or snapshot records of its run; empty where it does not, or is
/// neither.
std::string record_in(const Artifact& artifact) {
  if (artifact.kind == ArtifactKind::state)
    return read_state_header(artifact.path).at("scalars").dump();
  return artifact.kind == ArtifactKind::snapshot ? read_snapshot_info(artifact.path).run_json : "";
}

/// The record that a state, a snapshot, or the first snapshot of a folder or pattern holds.
std::string record_outside_run(const Artifact& artifact) {
  if (artifact.kind == ArtifactKind::pattern)
    return record_in(look(members({artifact.path}, "weights").members.front().weights));
  if (artifact.kind != ArtifactKind::series) return record_in(artifact);
  const auto files = list_files(artifact.path, {".h5"});
  return files.empty() ? "" : record_in(look(files.front()));
}

/// The newest state of the run that can be read; the path itself where it is a state or snapshot
/// that records options.
fs::path recorded_at(const fs::path& run, const fs::path& path, std::string& record) {
  if (record = record_in(look(path)); !options_in(record).empty()) return path;
  auto states = states_of(run);
  for (; !states.empty(); states.pop_back()) {
    try {
      record = read_state_header(states.back()).at("scalars").dump();
      return states.back();
    } catch (const std::exception&) {  // a reader that needs this state itself will say so
      continue;
    }
  }
  return {};
}

void require_recorded(const OpenedRun& run, const fs::path& from, const std::string& recorded) {
  require_environment(!recorded.empty(),
                      "[run] {} records no options, so dimred cannot check {}; use the revision of "
                      "dimred that wrote the file",
                      from,
                      run.source);
  const auto now = values_in(run.source, run.config);
  for (const auto& [key, was] : values_in(from, recorded)) {
    const auto found = now.find(key);
    require_environment(found != now.end() && found->second == was,
                        "[run] {} does not match the options recorded in {}: the run had {} = {}, "
                        "but config.toml {}{}",
                        run.source,
                        from,
                        key,
                        was,
                        found == now.end() ? "lacks this option" : "has " + found->second,
                        remedy);
  }
}

}  // namespace

std::string read_text(const fs::path& file) {
  const InputFile in(file);
  return in.text(in.size());
}

std::string with_digest(const std::string& toml) {
  return formatted("{}{}\n{}", digest_line, digest(toml), toml);
}

std::string read_config(const fs::path& folder) {
  const auto path = folder / config_name;
  require_environment(
      fs::is_regular_file(path), "[run] {} is missing, or is not a file{}", path, remedy);
  auto text = read_text(path);
  const std::string head = digest_line;
  require_environment(text.starts_with(head),
                      "[run] {} is damaged, or another revision of dimred wrote the file: the "
                      "first line is not a digest{}",
                      path,
                      remedy);
  const auto line_end = std::min(text.find('\n'), text.size() - 1);
  const auto written = text.substr(head.size(), line_end - head.size());
  text.erase(0, line_end + 1);
  require_environment(digest(text) == written,
                      "[run] {} is damaged or was changed after the training: the text does not "
                      "match the digest in the first line{}",
                      path,
                      remedy);
  return text;
}

namespace {

/// Runs whose options give one course are one run, so that twins stay equal to the byte.
RunIdentity first_identity(const RunConfig& config, const OptionTable& table) {
  std::string course = config.command + '\n';
  RunIdentity run;
  for (const auto& row : table.rows()) {
    const auto value = row.show();
    if (row.role != OptionRole::retention && !config.may_change.contains(row.name))
      course += formatted("{} = {}\n", row.name, value);
    if (row.name == "seed") run.seed = std::stoll(value);
  }
  run.id = digest(course);
  return run;
}

}  // namespace

RunConfig run_config(const OptionTable& table) {
  RunConfig config{.toml = table.to_toml()};
  config.command = table.command().substr(table.command().rfind(' ') + 1);
  config.removed = table.removed_options();
  for (const auto& row : table.rows()) {
    if (!row.way_on.empty()) config.ways_on[row.name] = row.way_on;
    if (holds(row.may_change, table)) {
      config.may_change.insert(row.name);
    } else if (row.persists && !row.show().empty()) {
      config.persistent += formatted("{} = {}\n", row.name, row.show());
    }
  }
  config.run = first_identity(config, table);
  return config;
}

std::vector<ConfigEntry> entries_of(const OpenedRun& run) {
  return read_toml(run.source, '\n' + run.config);  // behind the line of the digest
}

void require_own(const fs::path& file) {
  const auto manifest = file.parent_path() / "manifest.json";
  if (file.extension() != ".h5" || !fs::is_regular_file(file) || !fs::is_regular_file(manifest))
    return;
  const auto json = parse_json(read_text(manifest), formatted("{} is damaged", manifest));
  const auto at = nlohmann::json::json_pointer("/weights") / file.filename().string();
  require_environment(!json.contains(at) || json.at(at) == snapshot_digest(file),
                      "{} is damaged or from another run: manifest.json in the same folder has "
                      "another digest for this file",
                      file);
}

OpenedRun open_run(const fs::path& path) {
  if (path.empty()) return {};
  require_own(path);
  const auto artifact = look(path);
  if (artifact.kind == ArtifactKind::list) return open_run(listed_paths(path).front());
  OpenedRun run{.folder = run_of(path), .source = path};
  if (run.folder.empty()) {
    run.config = options_in(record_outside_run(artifact));
    return run;
  }
  run.source = run.folder / config_name;
  run.config = read_config(run.folder);
  std::string record;
  const auto from = recorded_at(run.folder, path, record);
  if (!from.empty()) require_recorded(run, from, options_in(record));
  return run;
}

std::string record_of(const fs::path& path) {
  if (path.empty()) return {};
  const auto artifact = look(path);
  if (artifact.kind == ArtifactKind::list) return record_of(listed_paths(path).front());
  const auto run = run_of(path);
  if (run.empty()) return record_outside_run(artifact);
  std::string record;
  recorded_at(run, path, record);
  return record;
}

namespace {

/// The command that made a run, by its manifest; empty where that does not say.
std::string command_of(const fs::path& run) {
  const auto manifest = run / "manifest.json";
  if (!fs::is_regular_file(manifest)) return {};
  const auto json = parse_json(read_text(manifest), formatted("{} is damaged", manifest));
  const bool says = json.is_object() && json.contains("command") && json["command"].is_string();
  return says ? json["command"].get<std::string>() : std::string();
}

/// The way on for who meant something else by an option that was `was`.
std::string way_on(const RunConfig& config, const std::string& option, const std::string& was) {
  const auto found = config.ways_on.find(option);
  auto text = found == config.ways_on.end() ? "; choose another --output" : found->second;
  for (auto place = text.find("{}"); place != std::string::npos; place = text.find("{}", place))
    text.replace(place, 2, was);
  return text;
}

const Removed* find_removed(const RunConfig& config, const std::string& option) {
  const auto found = std::ranges::find(config.removed, option, &Removed::name);
  return found == config.removed.end() ? nullptr : &*found;
}

/// The values of `earlier` that options of today have. Throws std::invalid_argument for a removed
/// option that has another value than its old default.
std::map<std::string, std::string> values_before(const fs::path& file,
                                                 const std::string& earlier,
                                                 const RunConfig& config) {
  std::map<std::string, std::string> values;
  for (const auto& entry : read_toml(file, earlier)) {
    if (const auto* gone = find_removed(config, entry.name)) {
      require_old_default(*gone, formatted("[run] {}: {}:", file, entry.name), entry.text);
    } else {
      values[entry.name] = toml_value(entry);
    }
  }
  return values;
}

/// In TOML, "cuda:1" as "cuda": devices of a kind compute the same. "auto", which earlier revisions
/// wrote, says none.
bool same_device(const std::string& was, const std::string& is) {
  const auto kind = [](const std::string& device) {
    return device.substr(0, device.find_first_of(":\"", 1));
  };
  return was == "\"auto\"" || kind(was) == kind(is);
}

}  // namespace

void require_same_configuration(const fs::path& folder,
                                const std::string& earlier,
                                const RunConfig& config) {
  const auto command = command_of(folder);
  require(command.empty() || config.command.empty() || command == config.command,
          "[run] {} is a run of {}; choose another --output for {}",
          folder,
          command,
          config.command);
  const std::string unset = "(unset)";
  auto before = values_before(folder / config_name, earlier, config);
  auto now = values_in(folder / config_name, config.toml);
  for (const auto& [option, value] : before) now.try_emplace(option, unset);
  for (const auto& [option, value] : now) {
    const auto was = before.try_emplace(option, unset).first->second;
    const bool same = option == "device" ? same_device(was, value) : was == value;
    require(same || config.may_change.contains(option),
            "[run] {} belongs to another configuration: the run has {} = {}, received {}{}",
            folder,
            option,
            was,
            value,
            way_on(config, option, was));
  }
}

std::string continued_toml(const RunConfig& config, const std::string& earlier) {
  std::string removed;
  for (const auto& entry : read_toml(config_name, earlier))
    if (find_removed(config, entry.name) != nullptr)
      removed += formatted("{} = {}\n", entry.name, toml_value(entry));
  return config.toml + (removed.empty() ? "" : "\n# Options that were removed since\n" + removed);
}

}  // namespace dimred::checkpoints
