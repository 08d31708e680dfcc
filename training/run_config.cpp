#include "training/run_config.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>

#include "support/digest.h"
#include "support/errors.h"

namespace dimred::training {
namespace {

namespace fs = std::filesystem;

/// Options that may change when a run is taken up again: they do not alter what was computed so
/// far. The batch of a rank follows from the global one and the ranks. `threads` stays where the
/// run is deterministic.
constexpr std::array free_options{"epochs",
                                  "gradient_accumulation",
                                  "threads",
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

}  // namespace

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  require_environment(in.good(), "training::run_folder", "cannot read ", file.string());
  return text.str();
}

std::string with_digest(const std::string& toml) {
  return concat(kDigestLine, digest(std::as_bytes(std::span(toml))), '\n', toml);
}

std::string read_config(const fs::path& folder) {
  const auto path = folder / "config.toml";
  auto text = read_text(path);
  const std::string head = kDigestLine;
  if (!text.starts_with(head)) return text;  // of a version that wrote none
  const auto line_end = std::min(text.find('\n'), text.size() - 1);
  const auto written = text.substr(head.size(), line_end - head.size());
  text.erase(0, line_end + 1);
  require_environment(digest(std::as_bytes(std::span(text))) == written,
                      "training::run_folder",
                      path.string(),
                      " is damaged, or was changed after the run wrote it: its digest differs");
  return text;
}

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
            "training::run_folder",
            folder.string(),
            " belongs to another configuration: it has ",
            key,
            " = ",
            was,
            ", received ",
            value,
            key == "global_batch_size" ? " (batch_size x ranks unless given)" : "",
            "; choose another --output");
  }
}

}  // namespace dimred::training
