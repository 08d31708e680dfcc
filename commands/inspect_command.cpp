#include "commands/inspect_command.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "checkpoints/artifact.h"
#include "checkpoints/npy.h"
#include "checkpoints/run_config.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/sealed_json.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "checkpoints/step_names.h"
#include "checkpoints/weight_names.h"
#include "checkpoints/weights_file.h"
#include "commands/inspect_schedule.h"
#include "commands/inspect_trajectory.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/text_table.h"
#include "data/idx.h"
#include "merge/verify.h"
#include "pca/basis.h"
#include "pca/kinds.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/option_values.h"
#include "support/options.h"
#include "support/text.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

// The contents of our files and folders, as text for a person. A damaged file is an exception; in a
// folder it is a line, so that the others are shown too.
struct Inspection {
  std::string text;
  bool damaged = false;
  void add(const Inspection& part) {
    text += part.text;
    damaged = damaged || part.damaged;
  }
};

Inspection inspect_folder(const fs::path& folder);

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

/// The table that a snapshot carries, one parameter a line.
std::string layout_rows(const fs::path& file, const std::string& layout_json) {
  std::string text;
  const auto json = parse_json(layout_json, formatted("[inspect] the layout of {}", file));
  for (const auto& parameter : json.at("parameters")) {
    const auto shape = parameter.at("shape").get<std::vector<std::int64_t>>();
    text += text_row(formatted("  {}", parameter.at("name").get<std::string>()), shape_text(shape));
  }
  return text;
}

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
    text += text_row("without", checkpoints::count_and_names(missing) + ", frozen when recorded");
  const auto run = nlohmann::json::parse(info.run_json, nullptr, /*allow_exceptions=*/false);
  if (run.is_object() && run.contains("config"))
    text += config_rows(run.at("config").get<std::string>());
  return text + layout_rows(file, info.layout_json);
}

std::string inspect_safetensors(const fs::path& file) {
  std::string rows;
  std::int64_t count = 0, elements = 0;
  for (const auto& tensor : checkpoints::read_safetensors_header(file)) {
    ++count;
    elements += tensor.elements;
    rows +=
        text_row("  " + tensor.name, formatted("{}  {}", tensor.dtype, shape_text(tensor.shape)));
  }
  return text_rows({{"safetensors", file.string()},
                    {"whole", "yes, header and length verified (the format has no digest)"},
                    {"tensors", count_text(count)},
                    {"elements", count_text(elements)}}) +
         rows;
}

/// Another program's weights, all of them read.
std::string inspect_weights(const fs::path& file) {
  const auto weights = checkpoints::read_weights(file);
  std::string rows;
  std::int64_t elements = 0;
  for (const auto& tensor : weights.tensors) {
    elements += std::ssize(tensor.values) + std::ssize(tensor.integers);
    rows += text_row("  " + tensor.name,
                     (tensor.floating ? "float  " : "integer  ") + shape_text(tensor.shape));
  }
  return text_rows({{weights.format, file.string()},
                    {"tensors", count_text(std::ssize(weights.tensors))},
                    {"elements", count_text(elements)}}) +
         rows;
}

std::string explained_text(const std::vector<double>& ratios) {
  constexpr std::size_t shown = 5;
  std::string text;
  double sum = 0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    sum += ratios[i];
    if (i < shown) text += decimal_text(100 * ratios[i], 2) + " ";
  }
  return formatted(
      "{}{}% (sum {} %)", text, ratios.size() > shown ? "... " : "", decimal_text(100 * sum, 2));
}

/// max |P P' - I|; reading all of P also verifies its digests. Costs the memory of P.
double orthonormality_error(const fs::path& file, const pca::Sidecar& sidecar) {
  constexpr double any = 1e30;
  const auto layout = pca::layout_of(sidecar);
  const auto all = layout::shard_of(layout, 0, 1);
  return pca::load_basis(file, layout, all, {.tolerance = any}).header.orthonormality_error;
}

std::string blocks_text(const pca::Sidecar& sidecar) {
  if (sidecar.blocks.empty()) return "1, whole";
  const auto& rows = sidecar.block_components;
  const auto fewer =
      std::ranges::count_if(rows, [&](std::int64_t count) { return count < sidecar.components; });
  return formatted("{}, block-diagonal by layers, {} with fewer than {} rows that are not zero",
                   rows.size(),
                   fewer,
                   sidecar.components);
}

std::string spectrum_rows(const pca::Sidecar& sidecar) {
  if (sidecar.kind == pca::Kind::random) return {};
  std::string text;
  const auto& values = sidecar.singular_values;
  if (!values.empty())
    text = text_row(
        "singular values",
        formatted("{} ... {}", decimal_text(values.front(), 4), decimal_text(values.back(), 4)));
  const bool centred = sidecar.kind != pca::Kind::span;
  return text + text_row(centred ? "explained variance" : "of squared norm",
                         explained_text(sidecar.explained_variance_ratio));
}

std::string inspect_npy(const fs::path& file) {
  const auto header = checkpoints::read_npy_header(file);
  auto text = text_rows({{"npy", file.string()},
                         {"shape", shape_text(header.shape)},
                         {"values", header.item_bytes == 4 ? "float32" : "float64"},
                         {"order", header.fortran_order ? "Fortran" : "C"}});
  if (header.shape.size() != 2) return text;
  const auto sidecar = pca::read_basis_header(file);
  if (!sidecar.is_known())
    return text + text_row("sidecar", "none: which model it belongs to is not known");
  const auto seed = sidecar.seed ? formatted(", seed {}", *sidecar.seed) : "";
  return text +
         text_rows({{"whole", "yes, digests verified"},
                    {"kind", pca::name_of(sidecar.kind) + seed},
                    {"components", count_text(sidecar.components)},
                    {"blocks", blocks_text(sidecar)},
                    {"orthonormal to", number_text(orthonormality_error(file, sidecar))},
                    {"layout", sidecar.layout_hash.empty() ? "unknown" : sidecar.layout_hash}}) +
         spectrum_rows(sidecar);
}

std::string inspect_file(const fs::path& file) {
  if (file.extension() == ".npy") return inspect_npy(file);
  if (checkpoints::is_snapshot(file)) return inspect_snapshot(file);
  // A name that only our snapshots have: its head was overwritten, or it is empty.
  const bool of_a_snapshot = checkpoints::snapshot_file_names.matches(file.filename().string());
  require_environment(!of_a_snapshot,
                      "[inspect] {} is damaged: it does not start as a snapshot does{}",
                      file,
                      of_a_snapshot ? InputFile(file).placeholder_remark() : "");
  if (file.extension() == ".safetensors") return inspect_safetensors(file);
  for (const auto* name : {".pt", ".pth", ".ckpt", ".bin"})
    if (file.extension() == name) return inspect_weights(file);
  throw std::invalid_argument(
      formatted("[inspect] needs a snapshot (.h5), .npy, .safetensors, .pt, .ckpt, a state, a run "
                "folder or a folder of these, received {}{}",
                file,
                InputFile(file).placeholder_remark()));
}

/// describe(path), or one line, behind `indent`, that says why the path is damaged.
template <class Describe>
Inspection attempted(const fs::path& path, const std::string& indent, const Describe& describe) {
  try {
    return {describe(path)};
  } catch (const std::exception& error) {
    return {text_row(indent + path.filename().string(),
                     formatted("{}DAMAGED: {}", indent, error.what())),
            true};
  }
}

/// One line for each path: its name and what `describe` says, or why it is damaged.
Inspection inspect_each(const std::vector<fs::path>& paths,
                        const std::function<std::string(const fs::path&)>& describe) {
  Inspection result;
  for (const auto& path : paths)
    result.add(attempted(path, "  ", [&](const fs::path& one) {
      return text_row("  " + one.filename().string(), "  " + describe(one));
    }));
  return result;
}

/// Which snapshots of a run are gone, replaced or not its own; empty when none is.
Inspection missing_snapshots(const fs::path& folder) {
  const auto list = checkpoints::list_of_run(folder);
  const auto different = list ? checkpoints::difference(*list, folder) : "";
  if (different.empty()) return {};
  return {text_row("DAMAGED", different), true};
}

Inspection inspect_snapshots(const fs::path& folder, const std::vector<fs::path>& files) {
  std::set<std::string> layouts, sizes;
  const auto listed = inspect_each(files, [&](const fs::path& file) {
    const auto info = checkpoints::verify_snapshot(file);
    layouts.insert(info.layout_hash);
    sizes.insert(count_text(info.parameters));
    return formatted(
        "epoch {}, step {}, train loss {}", info.epoch, info.step, loss_text(info.train_loss));
  });
  Inspection result{
      text_rows({{"snapshots", folder.string()}, {"files", count_text(std::ssize(files))}})};
  for (const auto& size : sizes) result.text += text_row("weights", size + " float32");
  for (const auto& hash : layouts) result.text += text_row("layout", hash);
  if (layouts.size() > 1)
    result.text += text_row("", "of different models: a PCA of them is refused");
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

/// A row for each file of a run that has not the size which its manifest says.
Inspection inspect_sizes(const nlohmann::ordered_json& sizes, const fs::path& run) {
  Inspection result;
  for (const auto& [name, size] : sizes.items()) {
    const bool there = fs::is_regular_file(run / name);
    const auto now = there ? fs::file_size(run / name) : 0;
    if (there && now == size.get<std::uintmax_t>()) continue;
    result.add({text_row(name,
                         there ? formatted("DAMAGED: it has {} bytes, had {}", now, size.dump())
                               : "MISSING"),
                true});
  }
  return result;
}

/// A row for each file of a run that has not the digest which its manifest says.
Inspection inspect_digests(const nlohmann::ordered_json& manifest, const fs::path& run) {
  Inspection result;
  auto digests = manifest.value("digests", nlohmann::ordered_json::object());
  for (const fs::path table : {"curve.csv", "steps.csv"})
    if (const auto key = table.stem().string(); manifest.contains(key))
      digests[table.string()] = manifest[key].at("digest");
  for (const auto& [name, digest] : digests.items()) {
    const auto part = run / name;
    if (fs::is_regular_file(part) && file_digest(part) != digest.get<std::string>())
      result.add({text_row(name, "DAMAGED: it is not what the run wrote"), true});
  }
  return result;
}

/// The manifest of a run and its files.
Inspection inspect_manifest(const fs::path& file) {
  Inspection result;
  const auto text = InputFile(file).text(JsonLimits{}.bytes);
  const auto manifest = parse_ordered_json(text, formatted("[inspect] {} is damaged", file));
  require_environment(
      manifest.is_object() && manifest.contains("outcome") && manifest["outcome"].is_string(),
      "[inspect] needs an object with an outcome");
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

/// The last whole row; a line without its end is still being written.
std::string last_curve_row(const fs::path& file) {
  std::istringstream in(checkpoints::read_text(file));
  std::string header, last;
  std::size_t rows = 0;
  std::getline(in, header);
  require_environment(header.starts_with("stage,"), "[inspect] no header of ours");
  const auto commas = std::ranges::count(header, ',');
  for (std::string line; std::getline(in, line) && !in.eof(); ++rows, last = line) {
    require_environment(std::ranges::count(line, ',') == commas,
                        "[inspect] row {} has another number of fields than the header",
                        rows + 1);
  }
  std::string text = text_row("curve rows", std::to_string(rows));
  const auto names = split_list(header), values = split_list(last);
  for (std::size_t i = 0; i < std::min(names.size(), values.size()); ++i) {
    if (!values[i].empty()) text += text_row("  " + names[i], values[i]);
  }
  return text;
}

std::string configuration_row(const fs::path& file) {
  checkpoints::open_run(file.parent_path());
  return text_row("config.toml", "whole, digest verified");
}

Inspection inspect_part(const fs::path& folder) {
  if (fs::is_empty(folder)) return {text_row(folder.filename().string(), "empty")};
  return inspect_folder(folder);
}

/// The snapshots of a run, which may be gone with their folder.
Inspection inspect_own_snapshots(const fs::path& folder) {
  const bool any = fs::exists(folder) && !fs::is_empty(folder);
  return any ? inspect_folder(folder) : missing_snapshots(folder);
}

/// A run folder: outcome, the last curve row, its snapshots and states.
Inspection inspect_run(const fs::path& folder) {
  Inspection result{text_row("run", folder.string())};
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
  add("pca_mat.npy", inspect_file);
  add("start.h5", inspect_file);
  add("ema.h5", inspect_file);
  add("final.h5", inspect_file);
  return result;
}

std::string inspect_export(const fs::path& folder) {
  const auto file = folder / "signature.json";
  const auto damaged = formatted("[inspect] {} is damaged", file);
  const auto signature = parse_ordered_json(InputFile(file).text(JsonLimits{}.bytes), damaged);
  checkpoints::require_seal(signature, file);
  auto text = text_rows({{"export", folder.string()}, {"whole", "yes, digests verified"}});
  for (const auto& [name, value] : signature.items())
    if (name != "digest")
      text += text_row("  " + name, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

/// What `dimred merge` made the folder of.
std::string describe_merge(const fs::path& file) {
  const auto json = parse_ordered_json(InputFile(file).text(own_json_limits.bytes),
                                       formatted("[inspect] {} is damaged", file),
                                       own_json_limits);
  checkpoints::require_digest(json, file);
  require_environment(
      json.contains("tensors"),
      "[inspect] {} is of an earlier revision, which kept no digests of the weights",
      file);
  merge::verify(file.parent_path(), json);
  auto text = text_rows({{"merge.json", "whole, its digest and those of the weights verified"},
                         {"  kind", json.at("kind").get<std::string>()},
                         {"  copied_from", json.at("copied_from").get<std::string>()}});
  for (const auto& input : json.at("inputs"))
    text += text_row(
        formatted("  step {}", input.at("step").dump()),
        formatted("{} of {}", input.at("coefficient").dump(), input.at("path").get<std::string>()));
  return text;
}

Inspection inspect_folder(const fs::path& folder) {
  const auto listed = [&](const char* what, const auto& paths, const auto& describe) {
    Inspection result{text_row(what, folder.string())};
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
  if (fs::exists(folder / "signature.json")) return {inspect_export(folder)};
  if (const auto files = list_files(folder, {".safetensors"}); !files.empty()) {
    auto result = listed("safetensors", files, describe_safetensors);
    const auto merge = folder / "merge.json";
    if (fs::exists(merge)) result.add(attempted(merge, "", describe_merge));
    return result;
  }
  if (holds_idx(folder)) return {inspect_idx(folder)};
  throw std::invalid_argument(
      formatted("[inspect] needs a folder with a run, a state, snapshots, safetensors or IDX "
                "files, received {}",
                folder));
}

/// A snapshot, .npy, safetensors or IDX file, or weights of PyTorch or MindSpore, recognised by its
/// content or name; a run folder, a resume state, or a folder of states, snapshots or safetensors
/// files. A file that means something only together with its folder stands for that. Throws
/// std::invalid_argument when it is none of ours, std::runtime_error for a damaged file.
Inspection inspect(fs::path path) {
  require(fs::is_regular_file(path) || fs::is_directory(path),
          "[inspect] needs an existing file or folder, received {}",
          path);
  for (const auto* name : {"state.json", "config.toml", "manifest.json", "curve.csv", "merge.json"})
    if (path.filename() == name) path = fs::absolute(path).parent_path();
  // pca_mat.json belongs to pca_mat.npy.
  const auto matrix = fs::path(path).replace_extension(".npy");
  if (path.extension() == ".json" && fs::exists(matrix)) path = matrix;
  return fs::is_directory(path) ? inspect_folder(path) : Inspection{inspect_file(path)};
}

}  // namespace

bool needs_network(const std::vector<std::string>& arguments) {
  return asks_for(arguments, "landscape") || asks_for(arguments, "model");
}

int inspect_command(const std::vector<std::string>& arguments) {
  if (asks_for(arguments, "schedule")) return inspect_schedule(arguments);
  if (asks_for(arguments, "trajectory")) return inspect_trajectory(arguments);
  fs::path file, landscape, trajectory;
  std::string schedule, model;
  OptionTable table("dimred inspect",
                    "what a snapshot, state, run folder, matrix or data set holds, and whether it "
                    "is whole; exit code 1 when it is damaged");
  table.group("What");
  table.add("file", &file, "file or folder to look at").positional();
  table.add("schedule", &schedule, "draw a learning rate: see dimred inspect --schedule --help");
  table.add("landscape",
            &landscape,
            "the loss around a run in the plane of two components, as CSV: see dimred inspect "
            "--landscape --help");
  table.add("trajectory",
            &trajectory,
            "where a run's snapshots show more than a random walk: see dimred inspect --trajectory "
            "--help");
  table.add(
      "model",
      &model,
      "layers, parameters and compute of a network by name: see dimred inspect --model --help");
  add_store_options(table);
  if (printed_help(table, arguments)) return exit_success;
  for (const auto* field :
       std::initializer_list<const void*>{&landscape, &model, &schedule, &trajectory}) {
    const auto& row = table.at(field);
    require(!row.was_set(), "[inspect] {} needs to be a flag", row.name);
  }
  require(!file.empty(), "[inspect] needs a file or folder; see dimred inspect --help");
  const auto result = inspect(file);
  print(result.text);
  require_environment(!result.damaged, "[inspect] {} holds damaged files", file);
  return exit_success;
}

}  // namespace dimred::commands
