#include "commands/train_run.h"

#include "commands/run.h"
#include "training/signals.h"

namespace dimred::commands {
namespace fs = std::filesystem;

fs::path run_of(const fs::path& path) {
  if (path.empty()) return {};
  auto folder = fs::absolute(path).lexically_normal();
  for (int level = 0; level < 3; ++level, folder = folder.parent_path()) {
    if (fs::exists(folder / "config.toml")) return folder;
  }
  return {};
}

std::vector<std::string> adopt_run(OptionTable& table,
                                   const fs::path& run,
                                   training::CommonOptions& common) {
  using training::PrecisionChoice;
  const bool native = models::has_native_bfloat16(training::parse_device(common.run.device));
  auto& precision = common.model.precision;
  if (precision == PrecisionChoice::automatic)
    precision = native ? PrecisionChoice::bfloat16 : PrecisionChoice::float32;
  auto overridden = table.adopt_file(run / "config.toml", {"Data", "Model", "Loss"});
  const bool demanded = table.origin("precision") == OptionOrigin::flag;
  if (precision == PrecisionChoice::bfloat16 && !native && !demanded) {
    precision = PrecisionChoice::float32;
    overridden.emplace_back("precision = float32 overrides bfloat16, which is not native here");
  }
  return overridden;
}

int train_run(const training::Setup& setup,
              const training::RunFolder& folder,
              const std::string& command,
              Console& console,
              const std::function<training::EpochEnd()>& train) {
  folder.write_manifest(setup, command, "running");
  try {
    const auto end = train();
    const bool finished = end == training::EpochEnd::finished;
    folder.write_manifest(setup, command, finished ? "finished" : "interrupted");
    if (finished) return exit_success;
    console.line("stopped by a signal, all saved; the same command goes on from here");
    return training::stop_exit_code();
  } catch (const std::exception& error) {
    try {
      folder.write_manifest(setup, command, "failed", {{"error", error.what()}});
      folder.abandon();
    } catch (const std::exception&) {  // a full disk, say: the first error is what counts
    }
    throw;
  }
}

}  // namespace dimred::commands
