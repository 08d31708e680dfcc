#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/column_ranges.h"

// Full resume state: a folder with one raw little-endian file per global vector (file order;
// <name>.f32, <name>.i64) and a state.json with the scalars, every file's length and digest, and in
// its first line the digest of its own remaining bytes. Independent of the number of ranks.
namespace dimred::checkpoints {

struct State {
  nlohmann::json scalars = nlohmann::json::object();  // epoch, step, H, curve length, ...
  std::map<std::string, std::vector<float>> vectors;  // "weights", "momentum", "buffers", ...
  std::map<std::string, std::vector<std::int64_t>> counters;
};

/// Writes `folder` durably: everything into <folder>.tmp, each file fsynced, the folder renamed,
/// its parent fsynced; an older folder of that name is replaced in one step. A NaN or infinite
/// scalar becomes null. Throws std::invalid_argument if a vector holds a
/// non-finite value or a name is not made of letters, digits, '_', '-', '.'; std::runtime_error on
/// I/O errors. One writer at a time.
void write_state(const std::filesystem::path& folder, const State& state);

/// Throws std::invalid_argument when missing, std::runtime_error when damaged, which a vector that
/// is not finite is, too (names the file). `choose` says, by the state's scalars, which parts of a
/// vector are kept; all bytes are read for the digest, 1 MB at a time. Without it, all.
using VectorChoice =
    std::function<ColumnRanges(const std::string& vector, const nlohmann::json& scalars)>;
State read_state(const std::filesystem::path& folder, const VectorChoice& choose = nullptr);

/// state.json alone, unverified vectors; for `inspect`: {"files": {file: {"elements", "digest"}},
/// "scalars"}. Throws like read_state.
nlohmann::json read_state_header(const std::filesystem::path& folder);

/// A scalar of a state that counts something: steps, epochs, bytes. Throws std::runtime_error
/// unless it is a whole number in [0, 2^53].
std::int64_t count_of(const nlohmann::json& scalars, const std::string& name);

bool is_state(const std::filesystem::path& folder);

/// A folder of states, named state_<step, 8 digits>.
class StateStore {
 public:
  StateStore(std::filesystem::path folder, std::int64_t keep);
  /// scalars must hold "step". Deletes the oldest beyond `keep` after the new one is durable, and
  /// temporary folders that an earlier crash left.
  std::filesystem::path save(const State& state) const;
  /// Newest state that passes verification; `skipped` receives a line for each damaged one.
  std::optional<State> newest_valid(std::vector<std::string>* skipped = nullptr,
                                    const VectorChoice& choose = nullptr) const;
  std::vector<std::filesystem::path> list() const;  // oldest first; empty when there is no folder

 private:
  std::filesystem::path folder_;
  std::int64_t keep_;
};

/// The states of a run, oldest first.
std::vector<std::filesystem::path> states_of(const std::filesystem::path& run);

}  // namespace dimred::checkpoints
