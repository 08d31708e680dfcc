#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoints/run_config.h"
#include "commands/inspect.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  return fields;
}

std::string manifest_rows(const fs::path& file) {
  std::string text;
  const auto manifest = read_json(file);
  require_environment(
      manifest.is_object() && manifest.contains("outcome") && manifest["outcome"].is_string(),
      "[inspect] needs an object with an outcome");
  for (const auto& [name, value] : manifest.items()) {
    if (name == "files" || (value.is_structured() && value.empty())) continue;
    text += text_row("  " + name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

/// The last whole row; a line without its end is still being written.
std::string last_curve_row(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string header, last;
  std::size_t rows = 0;
  std::getline(in, header);
  require_environment(header.starts_with("stage,"), "[inspect] no header of ours");
  const auto commas = std::count(header.begin(), header.end(), ',');
  for (std::string line; std::getline(in, line) && !in.eof(); ++rows, last = line) {
    require_environment(std::count(line.begin(), line.end(), ',') == commas,
                        "[inspect] row {} has another number of fields than the header",
                        rows + 1);
  }
  std::string text = text_row("curve rows", std::to_string(rows));
  const auto names = split(header), values = split(last);
  for (std::size_t i = 0; i < std::min(names.size(), values.size()); ++i) {
    if (!values[i].empty()) text += text_row("  " + names[i], values[i]);
  }
  return text;
}

/// A row for each file that has not the size which the manifest of a run that has ended says.
std::string changed_files(const fs::path& run) {
  const auto manifest = read_json(run / "manifest.json");
  std::string text;
  if (!manifest.contains("files")) return text;
  for (const auto& [name, size] : manifest.at("files").items()) {
    const bool there = fs::is_regular_file(run / name);
    const auto now = there ? fs::file_size(run / name) : 0;
    if (there && now == size.get<std::uintmax_t>()) continue;
    text += text_row(name,
                     there ? formatted("DAMAGED: it has {} bytes, had {}", now, size.dump())
                           : std::string("MISSING"));
  }
  return text;
}

std::string configuration_row(const fs::path& file) {
  const auto run = checkpoints::open_run(file.parent_path());
  return text_row("config.toml", run.warning.empty() ? "whole, digest verified" : run.warning);
}

}  // namespace

Inspection inspect_run(const fs::path& folder) {
  Inspection result{text_row("run", folder.string())};
  const auto attempt = [&](const fs::path& path, const auto& describe) {
    try {
      result.text += describe(path);
    } catch (const std::exception& error) {
      result.text += text_row(path.filename().string(), formatted("DAMAGED: {}", error.what()));
      result.damaged = true;
    }
  };
  const auto add = [&](const fs::path& path, const auto& describe) {
    if (fs::exists(path)) attempt(path, describe);
  };
  const auto missing = [&](const char* name) {
    if (fs::exists(folder / name)) return;
    result.text += text_row(name, "MISSING");
    result.damaged = true;
  };
  const auto describe_folder = [&](const fs::path& path) -> std::string {
    if (fs::is_empty(path)) return text_row(path.filename().string(), "empty");
    auto inner = inspect_folder(path);
    result.damaged = result.damaged || inner.damaged;
    return inner.text;
  };
  const auto describe_snapshots = [&](const fs::path& path) -> std::string {
    if (fs::exists(path) && !fs::is_empty(path)) return describe_folder(path);
    const auto inner = missing_snapshots(path);
    result.damaged = result.damaged || inner.damaged;
    return inner.text;
  };
  const auto describe_manifest = [&](const fs::path& path) {
    const auto changed = changed_files(folder);
    result.damaged = result.damaged || !changed.empty();
    return manifest_rows(path) + changed;
  };
  for (const auto* name : {"config.toml", "manifest.json"}) missing(name);
  add(folder / "config.toml", configuration_row);
  add(folder / "manifest.json", describe_manifest);
  add(folder / "curve.csv", last_curve_row);
  add(folder / "checkpoints", describe_folder);
  attempt(folder / "snapshots", describe_snapshots);
  add(folder / "best", describe_folder);
  add(folder / "pca_mat.npy", inspect_file);
  add(folder / "final.h5", inspect_file);
  return result;
}

}  // namespace dimred::commands
