#include "commands/front.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "support/errors.h"
#include "support/options.h"

namespace dimred::commands {
namespace {

struct Subcommand {
  std::string_view name;
  std::string_view summary;
};

constexpr std::array subcommands = {
    Subcommand{"stage1", "train conventionally and record weight snapshots"},
    Subcommand{"pca", "snapshots -> k x M projection matrix (pca_mat.npy)"},
    Subcommand{"stage2", "descend in the k-dimensional subspace of the matrix"},
    Subcommand{"evaluate", "loss and accuracy of a snapshot, a state, or a mean of snapshots"},
    Subcommand{"export", "weights and a signature in a new version folder, for other programs"},
    Subcommand{"predict", "classes of images, by a run's or an export's network"},
    Subcommand{"verify", "whether pairs of images show the same, by a network's embeddings"},
    Subcommand{"data", "data sets from one form to another, and what they hold"},
    Subcommand{"store", "get, put and list files of remote stores (HDFS, S3, GCS, HTTP)"},
    Subcommand{"import", "say what FastNN's or MindSpore's configuration file means here"},
    Subcommand{"inspect", "say what a file or folder of ours holds, and whether it is whole"},
};

bool is_subcommand(std::string_view name) {
  return std::ranges::any_of(subcommands, [&](const auto& known) { return known.name == name; });
}

}  // namespace

std::string front_help() {
  std::string text =
      "dimred: dimension-reduce training of neural networks\n\n"
      "usage: dimred SUBCOMMAND [options]\n\n";
  for (const auto& [name, summary] : subcommands) {
    text += formatted("  {}{}{}\n", name, std::string(12 - name.size(), ' '), summary);
  }
  return text +
         "\n  --help      this text; dimred SUBCOMMAND --help lists a subcommand's options\n" +
         "  --version   version and revision\n";
}

std::string program_name(const std::vector<std::string>& arguments) {
  const bool known = !arguments.empty() && is_subcommand(arguments.front());
  return known ? "dimred " + arguments.front() : "dimred";
}

void check_subcommand(const std::string& name) {
  if (is_subcommand(name)) return;
  std::vector<std::string> names = {"--help", "--version"};
  for (const auto& known : subcommands) names.emplace_back(known.name);
  const auto near = nearest(name, names);
  throw std::invalid_argument(
      formatted("{}: unknown subcommand; {}",
                printable(name),
                near ? formatted("did you mean {}?", *near) : std::string("see dimred --help")));
}

void execute_trainer(const std::vector<std::string>& arguments) {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "dimred-train";
  auto name = program.string();
  std::vector<std::string> texts = arguments;
  std::vector<char*> pointers = {name.data()};
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  // Its libraries would add pages of stack traces to our one line when a rank is gone.
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  execv(program.c_str(), pointers.data());
  throw std::runtime_error(formatted(
      "cannot run {}: {}; it is built with -DDIMRED_TRAINERS=ON", name, std::strerror(errno)));
}

}  // namespace dimred::commands
