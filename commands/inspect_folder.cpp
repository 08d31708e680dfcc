#include <functional>
#include <set>
#include <stdexcept>

#include "checkpoints/run_config.h"
#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "checkpoints/state.h"
#include "checkpoints/step_names.h"
#include "commands/inspect.h"
#include "data/idx.h"
#include "support/errors.h"
#include "support/human.h"
#include "support/list_files.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// One line for each path: its name and what `describe` says, or why it is damaged.
Inspection inspect_each(const std::vector<fs::path>& paths,
                        const std::function<std::string(const fs::path&)>& describe) {
  Inspection result;
  for (const auto& path : paths) {
    try {
      result.text += text_row("  " + path.filename().string(), "  " + describe(path));
    } catch (const std::exception& error) {
      result.text +=
          text_row("  " + path.filename().string(), formatted("  DAMAGED: {}", error.what()));
      result.damaged = true;
    }
  }
  return result;
}

Inspection inspect_snapshots(const fs::path& folder, const std::vector<fs::path>& files) {
  std::set<std::string> layouts, sizes;
  auto listed = inspect_each(files, [&](const fs::path& file) {
    const auto info = checkpoints::read_snapshot_info(file);
    layouts.insert(info.layout_hash);
    sizes.insert(count_text(info.parameters));
    return formatted(
        "epoch {}, step {}, train loss {}", info.epoch, info.step, loss_text(info.train_loss));
  });
  std::string text = text_row("snapshots", folder.string());
  text += text_row("files", count_text(std::ssize(files)));
  for (const auto& size : sizes) text += text_row("weights", size + " float32");
  for (const auto& hash : layouts) text += text_row("layout", hash);
  if (layouts.size() > 1) text += text_row("", "of different models: a PCA of them is refused");
  const auto missing = missing_snapshots(folder);
  return {text + missing.text + listed.text, listed.damaged || missing.damaged};
}

Inspection inspect_states(const fs::path& folder, const std::vector<fs::path>& states) {
  auto listed = inspect_each(states, [](const fs::path& path) {
    const auto state = checkpoints::read_state(path);
    return formatted("whole, {} vectors, {} counters", state.vectors.size(), state.counters.size());
  });
  return {text_row("states", folder.string()) + listed.text, listed.damaged};
}

Inspection inspect_safetensors_files(const fs::path& folder, const std::vector<fs::path>& files) {
  auto listed = inspect_each(files, [](const fs::path& file) {
    (void)inspect_file(file);  // throws when the header and the length disagree
    return formatted("{}", bytes_text(static_cast<std::int64_t>(fs::file_size(file))));
  });
  return {text_row("safetensors", folder.string()) + listed.text, listed.damaged};
}

bool holds_idx(const fs::path& folder) {
  return fs::exists(folder / "train-images-idx3-ubyte") ||
         fs::exists(folder / "train-images-idx3-ubyte.gz");
}

std::string inspect_idx(const fs::path& folder) {
  std::string text = text_row("data set", folder.string());
  for (const bool train : {true, false}) {
    text += text_row(train ? "train" : "test", data::open_idx(folder, train)->description());
  }
  return text;
}

}  // namespace

Inspection missing_snapshots(const fs::path& folder) {
  const auto list = checkpoints::list_of_run(folder);
  const auto different = list ? checkpoints::difference(*list, folder) : "";
  if (different.empty()) return {};
  return {text_row("DAMAGED", different), true};
}

std::string inspect_state(const fs::path& folder) {
  const auto state = checkpoints::read_state(folder);
  std::string text =
      text_row("state", folder.string()) + text_row("whole", "yes, digests verified");
  for (const auto& [name, value] : state.scalars.items()) {
    // Long arrays (H, curves) tell a person nothing; their size does.
    const bool is_long = value.is_structured() && value.dump().size() > 60;
    text +=
        name == "config"
            ? config_rows(value.get<std::string>())
            : text_row(name, is_long ? count_text(std::ssize(value)) + " values" : value.dump());
  }
  for (const auto& [name, values] : state.vectors) {
    text += text_row("  " + name, count_text(std::ssize(values)) + " float32");
  }
  for (const auto& [name, values] : state.counters) {
    text += text_row("  " + name, count_text(std::ssize(values)) + " int64");
  }
  return text;
}

Inspection inspect_folder(const fs::path& folder) {
  if (checkpoints::is_state(folder)) return {inspect_state(folder)};
  if (checkpoints::is_run(folder) || fs::exists(folder / "manifest.json")) {
    return inspect_run(folder);
  }
  if (const auto files = list_files(folder, {".h5"}); !files.empty()) {
    return inspect_snapshots(folder, files);
  }
  if (const auto states = checkpoints::list_steps(folder, checkpoints::kStateNames);
      !states.empty()) {
    return inspect_states(folder, states);
  }
  if (const auto files = list_files(folder, {".safetensors"}); !files.empty()) {
    return inspect_safetensors_files(folder, files);
  }
  if (holds_idx(folder)) return {inspect_idx(folder)};
  throw std::invalid_argument(
      formatted("[inspect] needs a folder with a run, a state, snapshots, safetensors or IDX "
                "files, received {}",
                folder.string()));
}

}  // namespace dimred::commands
