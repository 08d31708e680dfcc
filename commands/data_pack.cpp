#include <filesystem>

#include "commands/data_command.h"
#include "commands/data_source.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "data/output_folder.h"
#include "data/pack.h"
#include "options/effects.h"
#include "support/counted.h"
#include "support/formatted.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;
using data::PackEncoding;

struct DataPackOptions {
  SourceOptions source;
  data::PackOptions pack;
  fs::path output;
};

OptionTable pack_table(DataPackOptions& options) {
  OptionTable table("dimred data pack",
                    "write a data set as train.packed and test.packed, two files for memory "
                    "mapping. A later start keeps finished files");
  add_source_options(table, options.source);
  table.group("Output");
  table.add("output", &options.output, "new or empty folder to write")
      .role(OptionRole::output)
      .positional()
      .essential();
  table
      .add_choice<PackEncoding>("encoding",
                                &options.pack.encoding,
                                "keep: copy JPEG and PNG unless resized; planes: store pixels, 5 "
                                "to 10 times the bytes; jpeg: store all images as JPEG",
                                {{"keep", PackEncoding::keep},
                                 {"planes", PackEncoding::planes},
                                 {"jpeg", PackEncoding::jpeg}})
      .essential();
  table
      .add("short_side",
           &options.pack.short_side,
           "resize larger images to this short side, antialiased; 0: keep all sizes",
           between(0, 65500))
      .essential();
  table.add("quality", &options.pack.quality, "JPEG quality of written images", between(1, 100))
      .needs(is("encoding", {"jpeg"}) || (is("encoding", {"keep"}) && above("short_side")))
      .essential();
  add_store_options(table);
  return table;
}

}  // namespace

int data_pack(const std::vector<std::string>& arguments) {
  DataPackOptions options;
  auto table = pack_table(options);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  check_output(options.output, options.source);
  options.pack.threads = thread_count(options.source);
  options.pack.skip_bad = options.source.dataset.skip_bad;
  const auto parts = open_source(options.source);
  std::string job = formatted("dimred data pack encoding = {}, short_side = {}, quality = {}",
                              static_cast<int>(options.pack.encoding),
                              options.pack.short_side,
                              options.pack.quality);
  for (const auto& part : parts) job += formatted(", {}", source_text(part));
  const data::OutputFolder folder(options.output, job);
  for (const auto& part : parts) {
    const auto& [name, dataset] = part;
    const auto file = options.output / (name + ".packed");
    data::WriteReport report{.earlier_files = 1};
    if (!folder.has(name + ".packed"))
      report = data::pack(
          *dataset, file, options.pack, progress_bar(name, dataset->size(), options.source.quiet));
    report_samples(part, report);
    if (!options.source.quiet)
      print(formatted("{}: {}, {}, in {}{}\n",
                      name,
                      counted(report.samples, "image"),
                      bytes_text(static_cast<std::int64_t>(fs::file_size(file))),
                      file,
                      earlier_text(report)));
  }
  return exit_success;
}

}  // namespace dimred::commands
