#include "commands/convert_command.h"

#include <filesystem>

#include "checkpoints/verbs/convert.h"
#include "commands/byte_progress.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "options/byte_size.h"
#include "options/effects.h"
#include "options/options.h"
#include "support/console.h"
#include "support/errors.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct ConvertArguments {
  fs::path source;
  fs::path output;
  fs::path rename;
  ByteSize shard_size;
  verbs::ConversionOptions convert;
  bool quiet = false;
};

void add_tensor_options(OptionTable& table, ConvertArguments& arguments) {
  auto& convert = arguments.convert;
  table.group("Tensors");
  table.add_choice("dtype",
                   &convert.dtype,
                   "convert floating-point tensors to this type, rounded to nearest even",
                   std::vector<std::pair<std::string, std::string>>{
                       {"same", ""}, {"float32", "F32"}, {"bfloat16", "BF16"}, {"float16", "F16"}});
  table.add("include",
            &convert.include,
            "regular expression: keep only tensors whose name in SOURCE has a match");
  table.add("exclude",
            &convert.exclude,
            "regular expression: drop tensors whose name in SOURCE has a match");
  table.add("rename",
            &arguments.rename,
            "file with lines REGEX -> TEXT; the first line whose REGEX matches a name replaces "
            "each match by TEXT");
  table.add("adapter", &convert.adapter, "add the LoRA adapter in this folder to the weights");
  add_take_option(table, convert.take, "usual");
}

OptionTable conversion_table(ConvertArguments& arguments) {
  OptionTable table("dimred convert", "rewrite a checkpoint of any kind as safetensors");
  table.group("Files");
  table
      .add("source",
           &arguments.source,
           "checkpoint to read: file, folder, shards, distributed checkpoint, snapshot or run")
      .role(OptionRole::input)
      .positional();
  table
      .add("output",
           &arguments.output,
           "folder to write, or one file if the name ends in .safetensors")
      .role(OptionRole::output);
  table.add("shard_size",
            &arguments.shard_size,
            "largest size of a shard; a number without unit means GB; 0: the size in SOURCE");
  add_tensor_options(table, arguments);
  table.group("Machine");
  add_threads_option(table, arguments.convert.threads);
  table.add("block",
            &arguments.convert.block,
            "elements that each thread reads at a time; memory use: threads x block x 24 bytes",
            between(1, 1 << 28));
  table.add("quiet", &arguments.quiet, "print errors only").role(OptionRole::quiet);
  add_store_options(table);
  return table;
}

}  // namespace

int convert_command(const std::vector<std::string>& arguments) {
  ConvertArguments given;
  auto table = conversion_table(given);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  require(!given.source.empty(), "[convert] needs SOURCE, the checkpoint to convert");
  require(!given.output.empty(), "[convert] needs a folder or FILE.safetensors as --output");
  auto& convert = given.convert;
  convert.shard_size = given.shard_size.bytes;
  if (!given.rename.empty()) convert.renames = verbs::read_rename_rules(given.rename);
  Console console(given.quiet);
  ByteProgress progress{byte_progress(console, "convert")};
  convert.progress = &progress;
  const auto report = verbs::convert(given.source, given.output, convert);
  console.clear();
  console.line(verbs::describe(report));
  return exit_success;
}

}  // namespace dimred::commands
