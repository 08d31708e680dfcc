#include "commands/inspect_command.h"

#include <algorithm>
#include <filesystem>

#include "commands/inspect.h"
#include "commands/inspect_scale.h"
#include "commands/inspect_schedule.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "support/errors.h"
#include "support/options.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// Files that only mean something together with the folder they lie in.
bool stands_for_its_folder(const fs::path& file) {
  for (const auto* name : {"state.json", "config.toml", "manifest.json", "curve.csv"}) {
    if (file.filename() == name) return true;
  }
  return false;
}

Inspection inspect(fs::path path) {
  require(fs::is_regular_file(path) || fs::is_directory(path),
          "[inspect] needs an existing file or folder, received {}",
          path.string());
  if (stands_for_its_folder(path)) path = fs::absolute(path).parent_path();
  // pca_mat.json belongs to pca_mat.npy.
  const auto matrix = fs::path(path).replace_extension(".npy");
  if (path.extension() == ".json" && fs::exists(matrix)) path = matrix;
  if (fs::is_directory(path)) return inspect_folder(path);
  return {inspect_file(path)};
}

}  // namespace

bool needs_network(const std::vector<std::string>& arguments) {
  return asks_for(arguments, "landscape") || asks_for(arguments, "model");
}

int inspect_command(const std::vector<std::string>& arguments) {
  if (asks_for(arguments, "schedule")) return inspect_schedule(arguments);
  fs::path file;
  std::string scale;
  std::string schedule;
  fs::path landscape;
  OptionTable table("dimred inspect",
                    "what a snapshot, state, run folder, matrix or data set holds, and whether it "
                    "is whole; exit code 1 when it is damaged; or what R ranks would cost");
  table.group("What");
  table.add("file", &file, "file or folder to look at");
  table.positional("file");
  table.add(
      "scale", &scale, "predict bytes, memory and seconds: M=25.6e6 k=32 R=8 bandwidth=300e9");
  table.add("schedule", &schedule, "draw a learning rate: see dimred inspect --schedule --help");
  table.add("landscape",
            &landscape,
            "the loss around a run in the plane of two components, as CSV: see dimred inspect "
            "--landscape --help");
  std::string model;
  table.add(
      "model",
      &model,
      "layers, parameters and compute of a network by name: see dimred inspect --model --help");
  add_store_options(table);
  if (const auto help = table.parse(join_scale_words(arguments))) {
    print(*help + scale_help());
    return exit_success;
  }
  for (const auto* flag : {"landscape", "model", "schedule"})
    require(!table.was_set(flag), "[inspect] {} needs to be a flag", flag);
  if (table.was_set("scale")) {
    require(file.empty(), "[inspect] needs a file or --scale, received both");
    print(inspect_scale(scale));
    return exit_success;
  }
  require(!file.empty(), "[inspect] needs a file or folder; see dimred inspect --help");
  const auto result = inspect(file);
  print(result.text);
  require_environment(!result.damaged, "[inspect] {} holds damaged files", file.string());
  return exit_success;
}

}  // namespace dimred::commands
