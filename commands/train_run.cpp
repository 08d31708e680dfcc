#include "commands/train_run.h"

#include "commands/run.h"
#include "training/signals.h"

namespace dimred::commands {

int train_run(const training::Setup& setup,
              const training::RunFolder& folder,
              const std::string& command,
              const std::function<training::EpochEnd()>& train) {
  training::catch_stop_signals();
  folder.write_manifest(setup, command, "running");
  try {
    const auto end = train();
    const bool finished = end == training::EpochEnd::finished;
    folder.write_manifest(setup, command, finished ? "finished" : "interrupted");
    return finished ? exit_success : training::stop_exit_code();
  } catch (const std::exception& error) {
    folder.write_manifest(setup, command, "failed", {{"error", error.what()}});
    folder.abandon();
    throw;
  }
}

}  // namespace dimred::commands
