#include "commands/inspect_command.h"

#include <filesystem>

#include "checkpoints/artifact.h"
#include "checkpoints/snapshot.h"
#include "commands/inspect_checkpoint.h"
#include "commands/inspect_matrix.h"
#include "commands/inspect_run.h"
#include "commands/inspect_schedule.h"
#include "commands/inspect_trajectory.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "options/options.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

using checkpoints::ArtifactKind;

struct InspectArguments {
  fs::path file, landscape, trajectory;
  std::string schedule, model;
  CheckpointQuestions questions;
};

/// Returns the folder of a file that has a meaning only together with it.
fs::path meant_by(fs::path path) {
  for (const auto* name : {"state.json", "config.toml", "manifest.json", "curve.csv", "merge.json"})
    if (path.filename() == name) path = fs::absolute(path).parent_path();
  // pca_mat.json belongs to pca_mat.npy.
  const auto matrix = fs::path(path).replace_extension(".npy");
  return path.extension() == ".json" && fs::exists(matrix) ? matrix : path;
}

[[noreturn]] void refuse_unknown(const fs::path& file) {
  refuse(
      "[inspect] needs a checkpoint, a snapshot (.h5), .npy, a state, a run folder or a folder of "
      "these, received {}{}",
      file,
      InputFile(file).placeholder_remark());
}

/// Returns the contents of a file or folder, recognised by content or name. Throws
/// std::invalid_argument where it is nothing of ours and no checkpoint, std::runtime_error for a
/// damaged file.
InspectedText inspect(const fs::path& named, const CheckpointQuestions& questions) {
  require(fs::is_regular_file(named) || fs::is_directory(named),
          "[inspect] needs an existing file or folder, received {}",
          named);
  const auto path = meant_by(named);
  if (fs::is_regular_file(path)) require_whole_snapshot(path);
  const auto kind = checkpoints::look(path).kind;
  if (questions.any()) return inspect_checkpoint(path, questions);
  switch (kind) {
    case ArtifactKind::matrix:
      return {inspect_npy(path)};
    case ArtifactKind::snapshot:
      if (!checkpoints::is_snapshot(path)) refuse_unknown(path);
      return {inspect_snapshot(path)};
    case ArtifactKind::list:
    case ArtifactKind::pattern:
    case ArtifactKind::unknown:
      refuse_unknown(path);
    case ArtifactKind::run:
    case ArtifactKind::state:
      return inspect_folder(path);
    case ArtifactKind::series: {
      auto result = inspect_folder(path);
      result.add(own_records(path));  // the weights of a merge may be gone
      return result;
    }
    default:
      return inspect_checkpoint(path, questions);
  }
}

OptionTable inspection_table(InspectArguments& arguments) {
  auto& [file, landscape, trajectory, schedule, model, questions] = arguments;
  OptionTable table(
      "dimred inspect",
      "print the contents of a checkpoint, state, run, matrix or data set. Exit code 1 for damage");
  table.group("What");
  table.add("file", &file, "file or folder to inspect").positional();
  table.add("tensors", &questions.tensors, "list the checkpoint's tensors, one per line");
  table.add(
      "check",
      &questions.check,
      "read all values; exit code 1 for NaN, infinities or an index that contradicts the shards");
  table
      .add("write_manifest",
           &questions.write_manifest,
           "write SHA-256 of files and tensors to this file, for sha256sum -c")
      .of_this_machine();
  table
      .add("manifest",
           &questions.manifest,
           "compare files and tensors with this manifest; exit code 1 if they differ")
      .of_this_machine();
  table.add("schedule", &schedule, "plot a learning rate; see dimred inspect --schedule --help");
  table.add("landscape",
            &landscape,
            "compute the loss in the plane of two components; see dimred inspect --landscape "
            "--help");
  table.add("trajectory",
            &trajectory,
            "test a run's snapshots against a random walk; see dimred inspect --trajectory --help");
  table.add(
      "model",
      &model,
      "list a network's layers, parameters and multiply-adds; see dimred inspect --model --help");
  table.removed("scale",
                "",
                "8b694755",
                "docs/explanation/scaling.md has its formulas, and "
                "experiments/benchmarks/rank_model.py computes them");
  add_store_options(table);
  return table;
}

}  // namespace

bool needs_network(const std::vector<std::string>& arguments) {
  return asks_for(arguments, "landscape") || asks_for(arguments, "model");
}

int inspect_command(const std::vector<std::string>& arguments) {
  if (asks_for(arguments, "schedule")) return inspect_schedule(arguments);
  if (asks_for(arguments, "trajectory")) return inspect_trajectory(arguments);
  InspectArguments given;
  auto table = inspection_table(given);
  if (printed_help(table, arguments)) return exit_success;
  for (const auto* field : std::initializer_list<const void*>{
           &given.landscape, &given.model, &given.schedule, &given.trajectory}) {
    const auto& row = table.at(field);
    require(!row.was_set(),
            "[inspect] {} works only as a flag on the command line, not in a configuration file",
            row.name);
  }
  const auto& file = given.file;
  require(!file.empty(), "[inspect] needs a file or folder; see dimred inspect --help");
  const auto result = inspect(file, given.questions);
  print(result.text);
  require_environment(!result.damaged, "[inspect] {} {}", file, result.verdict);
  return exit_success;
}

}  // namespace dimred::commands
