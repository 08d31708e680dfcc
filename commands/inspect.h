#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

// The contents of our files and folders, as text for a person. A damaged file is an exception; in a
// folder it is a line, so that the others are shown too.
namespace dimred::commands {

struct Inspection {
  std::string text;
  bool damaged = false;
};

/// A snapshot, .npy, safetensors or IDX file, or weights of PyTorch or MindSpore, recognised by its
/// content or name. Throws std::invalid_argument when it is none of ours, std::runtime_error when
/// it is damaged.
std::string inspect_file(const std::filesystem::path& file);

/// A run folder, a resume state, or a folder of states, snapshots or safetensors files. Throws
/// std::invalid_argument when it holds nothing of ours.
Inspection inspect_folder(const std::filesystem::path& folder);

/// The resume state in `folder`, all its vectors verified.
std::string inspect_state(const std::filesystem::path& folder);

/// Which snapshots of a run are gone, replaced or not its own; empty when none is.
Inspection missing_snapshots(const std::filesystem::path& folder);

/// A run folder: outcome, the last curve row, its snapshots and states.
Inspection inspect_run(const std::filesystem::path& folder);

// Parts of such texts.
std::string text_row(std::string_view name, std::string_view value);
std::string shape_text(const std::vector<std::int64_t>& shape);  // "32 x 1 x 3 x 3"
std::string config_rows(const std::string& toml);                // an option a line
std::string loss_text(double loss);                              // NaN: "not measured"

/// Contents of a JSON file. Throws std::runtime_error naming it when it cannot be read or parsed.
nlohmann::ordered_json read_json(const std::filesystem::path& file);

}  // namespace dimred::commands
