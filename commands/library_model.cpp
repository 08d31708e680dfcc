#include "commands/library_model.h"

#include <nlohmann/json.hpp>

#include "commands/run.h"
#include "options/options.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/program.h"
#include "support/text.h"

namespace dimred::commands {

extern const char* const library_model_text;  // made of models/library.py by CMake

namespace {

namespace fs = std::filesystem;

struct LibraryModelOptions {
  std::string name;
  std::int64_t num_classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image_size = 0;
  std::int64_t seed = 1;
  fs::path output;
};

OptionTable model_table_of(LibraryModelOptions& options) {
  OptionTable table("dimred model",
                    "write a network of timm, torchvision or FastNN as a TorchScript module for "
                    "--model FILE.pt; nothing is downloaded");
  table.group("What");
  table
      .add("name",
           &options.name,
           "timm:NAME, torchvision:NAME, or a FastNN network: overfeat, nasnet_mobile, ...")
      .positional();
  table.add("num_classes", &options.num_classes, "number of outputs", at_least(2));
  table.add("channels", &options.channels, "channels of the images", between(1, 4));
  table.add("image_size",
            &options.image_size,
            "side of the images for a trial pass; 0: the network's usual side",
            between(0, 4096));
  table.add("seed", &options.seed, "seed of the initial weights", at_least(0));
  table.add("output", &options.output, "file to write (default: NAME.pt in the current folder)")
      .role(OptionRole::output);
  return table;
}

/// $DIMRED_PYTHON, else that of the clone whose build this program is, else the one on $PATH.
std::string python_with_torch() {
  if (const auto given = environment_text("DIMRED_PYTHON"); !given.empty()) return given;
  const auto own = fs::read_symlink("/proc/self/exe");  // CLONE/build/bin/dimred
  const auto clone = own.parent_path().parent_path().parent_path();
  const auto python = clone / ".venv" / "bin" / "python";
  return fs::exists(python) ? python.string() : "python3";
}

/// The program's output, one object of JSON.
std::string written_by_python(const nlohmann::json& request) {
  const auto python = python_with_torch();
  std::string output;
  const auto end =
      run_program({python, "-c", library_model_text, request.dump()},
                  /*timeout=*/0,
                  [&output](ByteView bytes) {
                    output.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                  });
  std::string_view errors = end.errors;
  while (errors.ends_with('\n')) errors.remove_suffix(1);
  const auto last = errors.substr(errors.find_last_of('\n') + 1);
  constexpr int refused = 3, failed = 4;  // models/library.py's exit codes
  require(end.code != refused, "[model] {}", last);
  require_environment(end.code != failed, "[model] {}", last);
  require_environment(
      end.started && end.code == 0,
      "[model] needs a Python with torch ($DIMRED_PYTHON, a clone's .venv, else python3): {}",
      last.empty() ? formatted("{} ended with {}", python, end.code) : std::string(last));
  return output;
}

}  // namespace

int library_model_command(const std::vector<std::string>& arguments) {
  LibraryModelOptions options;
  auto table = model_table_of(options);
  if (printed_help(table, arguments)) return exit_success;
  require(!options.name.empty(),
          "[model] needs timm:NAME, torchvision:NAME or the name of a FastNN network");
  if (options.output.empty())
    options.output = options.name.substr(options.name.rfind(':') + 1) + ".pt";
  require(options.output.extension() == ".pt",
          "[model] needs an --output that ends in .pt, because stage1 --model needs this ending; "
          "received {}",
          options.output);
  require_result_place(result_place(table, &options.output));
  const auto made = nlohmann::json::parse(written_by_python({{"name", options.name},
                                                             {"classes", options.num_classes},
                                                             {"channels", options.channels},
                                                             {"image_size", options.image_size},
                                                             {"seed", options.seed},
                                                             {"output", options.output.string()}}));
  print(formatted("{}: {} parameters, {} classes\ndimred stage1 --model {} --image_size {}\n",
                  options.output,
                  made.at("parameters").get<std::int64_t>(),
                  options.num_classes,
                  options.output,
                  made.at("image_size").get<std::int64_t>()));
  return exit_success;
}

}  // namespace dimred::commands
