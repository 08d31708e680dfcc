#include "commands/inspect_run.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "checkpoints/artifact.h"
#include "checkpoints/last_rate.h"
#include "checkpoints/run_config.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "checkpoints/step_names.h"
#include "checkpoints/weight_names.h"
#include "checkpoints/weights_format.h"
#include "commands/inspect_matrix.h"
#include "data/idx.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/text.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

std::string loss_text(double loss) { return std::isnan(loss) ? "not measured" : number_text(loss); }

/// A run's config.toml, an option a line.
std::string config_rows(const std::string& toml) {
  std::istringstream lines(toml);
  auto text = text_row("config", "");
  for (std::string line; std::getline(lines, line);)
    text += text_row("  " + line.substr(0, line.find(" = ")),
                     line.substr(std::min(line.size(), line.find(" = ") + 3)));
  return text;
}

/// Which snapshots of a run are gone, replaced or not its own; empty when none is.
InspectedText missing_snapshots(const fs::path& folder) {
  const auto list = checkpoints::list_of_run(folder);
  const auto different = list ? checkpoints::difference(*list, folder) : "";
  if (different.empty()) return {};
  return {text_row("DAMAGED", different), true};
}

InspectedText inspect_snapshots(const fs::path& folder, const std::vector<fs::path>& files) {
  std::set<std::string> layouts, sizes;
  const auto listed = inspect_each(files, [&](const fs::path& file) {
    const auto info = checkpoints::verify_snapshot(file);
    layouts.insert(info.layout_hash);
    sizes.insert(count_text(info.parameters));
    return formatted(
        "epoch {}, step {}, train loss {}", info.epoch, info.step, loss_text(info.train_loss));
  });
  InspectedText result{
      text_rows({{"snapshots", folder.string()}, {"files", count_text(std::ssize(files))}})};
  for (const auto& size : sizes) result.text += text_row("weights", size + " float32");
  for (const auto& hash : layouts) result.text += text_row("layout", hash);
  if (layouts.size() > 1)
    result.text +=
        text_row("", "the snapshots belong to different models, so dimred refuses a PCA");
  result.add(missing_snapshots(folder));
  result.add(listed);
  return result;
}

std::string describe_state(const fs::path& folder) {
  const auto state = checkpoints::read_state(folder);
  return formatted("whole, {} vectors, {} counters", state.vectors.size(), state.counters.size());
}

std::string describe_safetensors(const fs::path& file) {
  checkpoints::read_safetensors_header(file);  // throws when the header and the length disagree
  return bytes_text(static_cast<std::int64_t>(fs::file_size(file)));
}

/// Data, too, may lie in files .bin.
bool has_weights(const fs::path& file) { return checkpoints::has_weights_format(InputFile(file)); }

/// The size, and the format that the first bytes say.
std::string describe_weights(const fs::path& file) {
  return formatted("{}, {}",
                   bytes_text(static_cast<std::int64_t>(fs::file_size(file))),
                   checkpoints::weights_format(file).name);
}

bool holds_idx(const fs::path& folder) {
  return fs::exists(folder / "train-images-idx3-ubyte") ||
         fs::exists(folder / "train-images-idx3-ubyte.gz");
}

std::string inspect_idx(const fs::path& folder) {
  return text_rows({{"data set", folder.string()},
                    {"train", data::open_idx(folder, /*train=*/true)->description()},
                    {"test", data::open_idx(folder, /*train=*/false)->description()}});
}

/// The resume state in `folder`, all its vectors verified.
std::string inspect_state(const fs::path& folder) {
  const auto state = checkpoints::read_state(folder);
  auto text = text_rows({{"state", folder.string()}, {"whole", "yes, digests verified"}});
  for (const auto& [name, value] : state.scalars.items()) {
    // Long arrays (H, curves) tell a person nothing; their size does.
    const bool is_long = value.is_structured() && value.dump().size() > 60;
    text +=
        name == "config"
            ? config_rows(value.get<std::string>())
            : text_row(name, is_long ? count_text(std::ssize(value)) + " values" : value.dump());
  }
  for (const auto& [name, values] : state.vectors)
    text += text_row("  " + name, count_text(std::ssize(values)) + " float32");
  for (const auto& [name, values] : state.counters)
    text += text_row("  " + name, count_text(std::ssize(values)) + " int64");
  return text;
}

/// A file of a run's own weights.
std::string inspect_own(const fs::path& file) {
  require_whole_snapshot(file);
  return inspect_snapshot(file);
}

/// A row for each file of a run that has not the size which its manifest says.
InspectedText inspect_sizes(const nlohmann::ordered_json& sizes, const fs::path& run) {
  InspectedText result;
  for (const auto& [name, size] : sizes.items()) {
    const bool there = fs::is_regular_file(run / name);
    const auto now = there ? fs::file_size(run / name) : 0;
    if (there && now == size.get<std::uintmax_t>()) continue;
    result.add({text_row(name,
                         there ? formatted("DAMAGED: the file has {} bytes, but the run wrote {}",
                                           now,
                                           size.dump())
                               : "MISSING"),
                true});
  }
  return result;
}

/// A row for each file of a run that has not the digest which its manifest says.
InspectedText inspect_digests(const nlohmann::ordered_json& manifest, const fs::path& run) {
  InspectedText result;
  auto digests = manifest.value("digests", nlohmann::ordered_json::object());
  for (const fs::path table : {"curve.csv", "steps.csv"})
    if (const auto key = table.stem().string(); manifest.contains(key))
      digests[table.string()] = manifest[key].at("digest");
  for (const auto& [name, digest] : digests.items()) {
    const auto part = run / name;
    if (fs::is_regular_file(part) && file_digest(part) != digest.get<std::string>())
      result.add({text_row(name, "DAMAGED: the file is not what the run wrote"), true});
  }
  return result;
}

/// The manifest of a run and its files.
InspectedText inspect_manifest(const fs::path& file) {
  InspectedText result;
  const auto text = InputFile(file).text(JsonLimits{}.bytes);
  const auto manifest = parse_ordered_json(text, formatted("[inspect] {} is damaged", file));
  require_environment(
      manifest.is_object() && manifest.contains("outcome") && manifest["outcome"].is_string(),
      "[inspect] {} is damaged: the file needs a JSON object with the key outcome",
      file);
  checkpoints::require_digest(manifest, file);
  result.text = text_row("manifest.json", "whole, digest verified");
  for (const auto& [name, value] : manifest.items()) {
    if (name == "files" || name == "digest" || name == "digests" ||
        (value.is_structured() && value.empty()))
      continue;
    result.text +=
        text_row("  " + name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (manifest.contains("files")) result.add(inspect_sizes(manifest["files"], file.parent_path()));
  result.add(inspect_digests(manifest, file.parent_path()));
  return result;
}

/// The number of rows, and the last one.
std::string last_curve_row(const fs::path& file) {
  const auto lines = checkpoints::curve_lines(file);
  require_environment(
      !lines.empty() && lines.front().starts_with("stage,"),
      "[inspect] {} is damaged: the file needs to begin with the header \"stage,...\"",
      file);
  const auto rows = lines.size() - 1;
  const auto names = split_list(lines.front());
  std::vector<std::string> values;
  for (std::size_t row = 1; row <= rows; ++row) {
    values = split_list(lines[row]);
    require_environment(
        values.size() == names.size(),
        "[inspect] {} is damaged: row {} and the header have different numbers of fields",
        file,
        row);
  }
  std::string text = text_row("curve rows", std::to_string(rows));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i].empty()) text += text_row("  " + names[i], values[i]);
  return text;
}

std::string configuration_row(const fs::path& file) {
  checkpoints::open_run(file.parent_path());
  return text_row("config.toml", "whole, digest verified");
}

InspectedText inspect_part(const fs::path& folder) {
  if (fs::is_empty(folder)) return {text_row(folder.filename().string(), "empty")};
  return inspect_folder(folder);
}

/// The snapshots of a run, which may be gone with their folder.
InspectedText inspect_own_snapshots(const fs::path& folder) {
  const bool any = fs::exists(folder) && !fs::is_empty(folder);
  return any ? inspect_folder(folder) : missing_snapshots(folder);
}

/// A run folder: outcome, the last curve row, its snapshots and states.
InspectedText inspect_run(const fs::path& folder) {
  InspectedText result{text_row("run", folder.string())};
  for (const auto* name : {"config.toml", "manifest.json"})
    if (!fs::exists(folder / name)) result.add({text_row(name, "MISSING"), true});
  const auto add = [&](const char* name, const auto& describe) {
    if (fs::exists(folder / name)) result.add(attempted(folder / name, "", describe));
  };
  add("config.toml", configuration_row);
  add("manifest.json", inspect_manifest);
  add("curve.csv", last_curve_row);
  add("checkpoints", inspect_part);
  result.add(attempted(folder / "snapshots", "", inspect_own_snapshots));
  add("best", inspect_part);
  add("pca_mat.npy", inspect_npy);
  add("start.h5", inspect_own);
  add("ema.h5", inspect_own);
  add("final.h5", inspect_own);
  return result;
}

}  // namespace

std::string inspect_snapshot(const fs::path& file) {
  checkpoints::require_own(file);
  const auto info = checkpoints::verify_snapshot(file);
  auto text = text_rows(
      {{"snapshot", file.string()},
       {"whole", "yes, digest verified"},
       {"epoch", count_text(info.epoch)},
       {"step", count_text(info.step)},
       {"train loss", loss_text(info.train_loss)},
       {"validation loss", loss_text(info.validation_loss)},
       {"weights", count_text(info.parameters) + " float32"},
       {"buffers",
        formatted(
            "{} float32, {} int64", count_text(info.buffer_count), count_text(info.counter_count))},
       {"layout", info.layout_hash}});
  const auto missing = checkpoints::missing_parameters(info.layout_json);
  if (!missing.empty())
    text += text_row("without",
                     checkpoints::count_and_names(missing) + ", frozen during the recording");
  const auto run = nlohmann::json::parse(info.run_json, nullptr, /*allow_exceptions=*/false);
  if (run.is_object() && run.contains("config"))
    text += config_rows(run.at("config").get<std::string>());
  return text;
}

void require_whole_snapshot(const fs::path& file) {
  if (checkpoints::is_snapshot(file)) return;
  // A name that only our snapshots have: its head was overwritten, or it is empty.
  const bool of_a_snapshot = checkpoints::snapshot_file_names.matches(file.filename().string());
  require_environment(!of_a_snapshot,
                      "[inspect] {} is damaged: the first bytes are not the header of a snapshot{}",
                      file,
                      of_a_snapshot ? InputFile(file).placeholder_remark() : "");
}

InspectedText inspect_folder(const fs::path& folder) {
  const auto listed = [&](const char* what, const auto& paths, const auto& describe) {
    InspectedText result{text_row(what, folder.string())};
    result.add(inspect_each(paths, describe));
    return result;
  };
  if (checkpoints::is_state(folder)) return {inspect_state(folder)};
  if (checkpoints::is_run(folder) || fs::exists(folder / "manifest.json"))
    return inspect_run(folder);
  if (const auto files = list_files(folder, {".h5"}); !files.empty())
    return inspect_snapshots(folder, files);
  const auto states = checkpoints::list_steps(folder, checkpoints::state_folder_names);
  if (!states.empty()) return listed("states", states, describe_state);
  if (const auto files = list_files(folder, {".safetensors"}); !files.empty())
    return listed("safetensors", files, describe_safetensors);
  if (holds_idx(folder)) return {inspect_idx(folder)};
  const auto files = list_files(folder, {".pt", ".pth", ".bin", ".ckpt", ".pth.tar"});
  if (std::ranges::any_of(files, has_weights))
    return listed("weight files", files, describe_weights);
  throw std::invalid_argument(
      formatted("[inspect] needs a folder with a run, a state, snapshots, weight files or IDX "
                "files, received {}; dimred data inspect shows the images of a data set",
                folder));
}

}  // namespace dimred::commands
