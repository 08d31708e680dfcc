#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string_view>

#include "commands/completion.h"
#include "commands/convert_command.h"
#include "commands/data_command.h"
#include "commands/diff_command.h"
#include "commands/import_command.h"
#include "commands/inspect_command.h"
#include "commands/library_model.h"
#include "commands/merge_command.h"
#include "commands/pca_command.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/store_command.h"
#include "launch/rank_info.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/printable.h"
#include "support/standard_streams.h"
#include "support/text.h"
#include "support/version.h"

// `dimred`: the torch-free front. Commands that need no network run here; the rest is another
// program, because loading LibTorch alone costs 0.2 s; so is a PCA of several ranks.
namespace {

using namespace dimred::commands;

int complete(const std::vector<std::string>& arguments);

/// In the order of the groups of --help.
constexpr std::array subcommands = {
    Subcommand{"merge", "merge checkpoints of any size by coefficients", merge_command},
    Subcommand{"convert", "rewrite a checkpoint of any kind as safetensors", convert_command},
    Subcommand{"diff", "compare the tensors of two checkpoints", diff_command, exit_caller},
    Subcommand{
        "inspect", "print the contents of a file or folder and check for damage", inspect_command},
    Subcommand{"stage1", "train a network and save weight snapshots", nullptr},
    Subcommand{"pca",
               "compute the k x M projection matrix (pca_mat.npy) of snapshots",
               [](const auto& arguments) { return pca_command(arguments); }},
    Subcommand{"stage2", "descend in the k-dimensional subspace of the matrix", nullptr},
    Subcommand{"evaluate", "measure loss and accuracy of saved weights", nullptr},
    Subcommand{"export", "write weights and a signature for other programs", nullptr},
    Subcommand{"predict", "classify images with a run's or an export's network", nullptr},
    Subcommand{"verify", "decide whether pairs of images show the same subject", nullptr},
    Subcommand{"model",
               "write a network of timm, torchvision or FastNN as a module for stage1",
               library_model_command},
    Subcommand{
        "data", "convert, shuffle, pack, index, preview and inspect data sets", data_command},
    Subcommand{
        "store", "get, put and list files of remote stores (HDFS, S3, GCS, HTTP)", store_command},
    Subcommand{
        "import", "translate FastNN's or MindSpore's configuration into options", import_command},
    Subcommand{"completion",
               "print a script that completes commands, options and values in bash or zsh",
               complete},
};

std::string group_text(const std::string& heading, std::string_view first, std::string_view last) {
  const auto begin = std::ranges::find(subcommands, first, &Subcommand::name);
  const auto end = std::ranges::find(subcommands, last, &Subcommand::name);
  return "\n" + heading + ":\n" + summaries(std::span(begin, end + 1), 12);
}

void print_help() {
  print(
      "dimred: exact work on checkpoints of any size, and training in a subspace of snapshots\n\n"
      "usage: dimred SUBCOMMAND [options]\n" +
      group_text("Checkpoints", "merge", "inspect") +
      group_text("Training in a subspace", "stage1", "verify") +
      group_text("Networks, data and configurations", "model", "completion") +
      "\nAlways:\n"
      "  --help      this text; dimred SUBCOMMAND --help lists a subcommand's options\n"
      "  --version   version and revision\n\n"
      "First steps with checkpoints (RUN: a folder of checkpoints):\n"
      "  dimred merge RUN --last 10 --output merged\n"
      "  dimred inspect --trajectory RUN\n\n"
      "First steps with training (IMAGES: a folder of classes; without --data: Debian's "
      "Fashion-MNIST):\n"
      "  dimred stage1 --data IMAGES --epochs 20 --output run1\n"
      "  dimred pca run1\n"
      "  dimred stage2 --checkpoint run1 --pca_mat pca_mat.npy --output run2\n"
      "  dimred evaluate run2\n");
}

int complete(const std::vector<std::string>& arguments) {
  return completion_command(arguments, dimred::texts_of(subcommands, &Subcommand::name));
}

/// Becomes the program dimred-train, which lies beside this one. Returns only by
/// std::runtime_error: it is not there or cannot be executed.
[[noreturn]] void execute_trainer(const std::vector<std::string>& arguments) {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "dimred-train";
  auto texts = arguments;
  texts.insert(texts.begin(), program.string());
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  // Its libraries would add pages of stack traces to our one line when a rank is gone.
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  dimred::share_cores();
  execv(program.c_str(), pointers.data());
  throw std::runtime_error(dimred::formatted(
      "cannot run {}: {}; build this program with scripts/setup.sh in a clone of the repository "
      "(the Python package has only the commands that need no torch)",
      program,
      std::strerror(errno)));
}

bool needs_trainer(const Subcommand& command, const std::vector<std::string>& arguments) {
  return command.run == nullptr || (command.name == "pca" && dimred::launch::discover().size > 1) ||
         (command.name == "inspect" && needs_network(arguments));
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty()) print_help();
  dimred::require(!arguments.empty(), "[dimred] needs a subcommand");
  const auto& name = arguments.front();
  if (name == "help" && arguments.size() > 1) {  // help stage1 is stage1 --help
    std::vector<std::string> asked(arguments.begin() + 1, arguments.end());
    asked.emplace_back("--help");
    return dispatch(asked);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_help();
    return exit_success;
  }
  if (name == "--version") {
    print(dimred::formatted("dimred {} ({})\n", dimred::version(), dimred::revision()));
    return exit_success;
  }
  const auto command = subcommand(subcommands,
                                  name,
                                  {"--help", "--version"},
                                  dimred::printable(name) + ": unknown subcommand",
                                  "dimred --help");
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (needs_trainer(command, rest)) execute_trainer(arguments);
  return command.run(rest);
}

}  // namespace

int main(int count, char** values) {
  dimred::reserve_standard_streams();
  const auto arguments = arguments_after(count, values, 1);
  const auto first = arguments.empty() ? std::string() : arguments.front();
  const auto* const known = std::ranges::find(subcommands, first, &Subcommand::name);
  const bool is_known = known != subcommands.end();
  return run(
      is_known ? "dimred " + first : "dimred",
      [&] { return with_remote_urls(first, [&] { return dispatch(arguments); }); },
      {},
      is_known ? known->environment_code : exit_environment);
}
