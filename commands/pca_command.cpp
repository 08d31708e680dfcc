#include "commands/pca_command.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>

#include "checkpoints/output.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "launch/rank_info.h"
#include "options/effects.h"
#include "options/options.h"
#include "pca/fit.h"
#include "pca/from_first.h"
#include "pca/sidecar.h"
#include "pca/source.h"
#include "support/agreement.h"
#include "support/atomic_file.h"
#include "support/console.h"
#include "support/earlier_files.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/parallel.h"
#include "support/peak_memory.h"
#include "support/result_file.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

enum class Centre { mean, base };  // subtracted from the snapshots: their mean, or the first one

struct PcaOptions {
  fs::path snapshots;
  fs::path output = "pca_mat.npy";
  std::int64_t components = 32;
  bool fewer_allowed = false;  // nobody gave a number
  pca::Kind kind = pca::Kind::pca;
  Centre centre = Centre::mean;
  pca::Blocks blocks = pca::Blocks::whole;
  std::int64_t seed = 0;
  pca::SnapshotRange range;
  fs::path gram;
  std::int64_t threads = 0;
  std::int64_t tile_mb = 32;
  bool overwrite = false;
  bool quiet = false;
  launch::ConnectOptions ranks;
};

void add_file_options(OptionTable& table, PcaOptions& options) {
  table.group("Files");
  table
      .add("snapshots",
           &options.snapshots,
           "a run, folder of .h5 or weight files, list (.txt), quoted pattern or .npy matrix")
      .role(OptionRole::input)
      .positional()
      .essential();
  table
      .add("output",
           &options.output,
           "matrix to write (.npy); NAME.json gets the singular values and digests")
      .role(OptionRole::output)
      .essential();
  table.add("overwrite", &options.overwrite, "replace an existing output")
      .role(OptionRole::overwrite)
      .essential();
  table
      .add("gram",
           &options.gram,
           "file for the Gram matrix of the centred snapshots (.npy, n x n float64)")
      .needs(is("centre", {"mean"}))
      .role(OptionRole::output)
      .of_this_machine();
}

void add_matrix_options(OptionTable& table, PcaOptions& options) {
  table.group("Snapshots");
  table
      .add("snapshot_from",
           &options.range.from,
           "first epoch to use, or first snapshot if the files name no epochs; 0: the first",
           at_least(0))
      .essential();
  table
      .add("snapshot_to",
           &options.range.to,
           "last epoch or snapshot to use; 0: the last",
           at_least(0))
      .essential();
  table
      .add("snapshot_skip",
           &options.range.skip,
           "snapshots to skip after each used snapshot; 1 uses every second snapshot",
           at_least(0))
      .essential();
  table.group("Components");
  table
      .add("components",
           &options.components,
           "number of components k: at most n - 1 for n snapshots; for kind = span at most n, also "
           "its default",
           at_least(1))
      .essential();
  table
      .add_choice("kind",
                  &options.kind,
                  "pca: principal components; span: basis of the snapshots; random: random rows; "
                  "shuffled: pca with columns shuffled within each layer",
                  pca::kind_names())
      .essential();
  table
      .add_choice("centre",
                  &options.centre,
                  "point to subtract: the snapshots' mean, or the first snapshot (base)",
                  {{"mean", Centre::mean}, {"base", Centre::base}})
      .needs(is("kind", {"pca"}));
  table
      .add_choice("blocks",
                  &options.blocks,
                  "one basis for all columns, or k components for each layer",
                  pca::blocks_names())
      .essential();
  table.add("seed", &options.seed, "seed of kind = random and shuffled", at_least(0))
      .needs(is("kind", {"random", "shuffled"}));
}

OptionTable pca_table(PcaOptions& options) {
  OptionTable table("dimred pca",
                    "compute the principal components of weight snapshots as a k x M projection "
                    "matrix");
  add_file_options(table, options);
  add_matrix_options(table, options);
  table.group("Machine");
  add_threads_option(table, options.threads).essential();
  table.add(
      "tile_mb",
      &options.tile_mb,
      "memory in MiB for the blocks of columns that are read at a time; does not change the result",
      between(1, 1 << 20));
  table.add("quiet", &options.quiet, "print errors only").role(OptionRole::quiet);
  launch::add_options(table, options.ranks);
  add_store_options(table);
  return table;
}

void require_place(const PcaOptions& options, const fs::path& path, const char* option) {
  require_regular_or_absent(path);
  const bool matrix = path.extension() == ".npy";
  require_result_place(
      {.path = path,
       .option = option,
       .mark = {.what = matrix ? "matrix" : "sidecar of a matrix",
                .text = matrix ? "NUMPY" : "{\n \"format\": \"dimred-pca",
                .within = 64},
       .overwrite = options.overwrite,
       .inputs = {options.snapshots},
       .remark = path == options.output ? EarlierFiles(pca::pair_of(path)).remark() : ""});
}

/// All that can be refused is refused before the snapshots are read.
void check_paths(const PcaOptions& options) {
  require(!options.snapshots.empty(),
          "[pca] needs --snapshots FOLDER, LIST.txt, 'PATTERN' or FILE.npy");
  const auto& output = options.output;
  require(output.extension() == ".npy", "[pca] needs --output NAME.npy, received {}", output);
  const auto folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  require(
      fs::is_directory(folder), "[pca] needs an existing folder for --output, received {}", output);
  require(
      !fs::is_directory(output), "[pca] needs a file for --output, received the folder {}", output);
  pca::require_replaceable(output);  // first: no --overwrite replaces another program's .json
  require_place(options, output, "--output");
  require_place(options, fs::path(output).replace_extension(".json"), "--output");
  if (!options.gram.empty()) require_place(options, options.gram, "--gram");
  for (const auto& path : {output, fs::path(output).replace_extension(".json"), options.gram})
    if (!path.empty()) checkpoints::require_unmatched("pca", path, options.snapshots);
}

/// The fit of the differences from the first snapshot, an uncentred PCA.
pca::Basis fit_from_first(const PcaOptions& options,
                          pca::FitOptions fit,
                          Communicator& communicator) {
  const auto source = pca::open_source(options.snapshots, communicator);
  const auto used = pca::selected(*source, options.range);
  const auto differences = pca::from_first(*used);
  fit.kind = pca::Kind::span;
  fit.snapshots = {};
  if (options.fewer_allowed) fit.components = std::min(fit.components, differences->rows());
  return pca::fit(*differences, fit, options.output, communicator);
}

/// Returns the figures of a random walk of as many snapshots; empty if the report has them.
std::string walk_text(const PcaOptions& options, const pca::Sidecar& fitted) {
  if (options.centre == Centre::mean) return {};
  const auto& walk = fitted.random_walk_ratio;
  return formatted(
      "\na random walk of {} snapshots, from the first: {} %, {} % in the first component",
      fitted.snapshots + 1,
      decimal_text(100 * std::accumulate(walk.begin(), walk.end(), 0.0), 2),
      decimal_text(100 * walk.front(), 2));
}

int fit_snapshots(const PcaOptions& options, Communicator& communicator) {
  const bool first = communicator.rank() == 0;
  on_rank_0(communicator, [&] { check_paths(options); });
  pca::FitOptions fit{.components = options.components,
                      .fewer_allowed = options.fewer_allowed,
                      .kind = options.kind,
                      .blocks = options.blocks,
                      .seed = static_cast<std::uint64_t>(options.seed),
                      .snapshots = options.range,
                      .gram = options.gram,
                      .threads = options.threads,
                      .tile_bytes = options.tile_mb << 20};
  if (fit.threads == 0 && communicator.size() > 1)  // the machine's cores are shared by its ranks
    fit.threads = std::max<std::int64_t>(1, available_threads() / launch::discover().local_size);
  auto basis = options.centre == Centre::base
                   ? fit_from_first(options, fit, communicator)
                   : pca::fit_snapshots(options.snapshots, fit, options.output, communicator);
  if (const auto peak = peak_memory_of_process(); peak > 0)
    basis.report.peak_memory = bytes_text(peak);
  if (!first) return exit_success;
  Console console(options.quiet);
  for (const auto& remark : basis.report.remarks) console.warn(remark);
  console.line(pca::describe(basis) + walk_text(options, basis.header));
  console.line("wrote " + options.output.string());
  if (!options.gram.empty()) console.line("wrote " + options.gram.string());
  return exit_success;
}

}  // namespace

int pca_command(const std::vector<std::string>& arguments, const RunOnRanks& run_on_ranks) {
  PcaOptions options;
  auto table = pca_table(options);
  if (printed_help(table, arguments)) return exit_success;
  require_effects(table);
  options.fewer_allowed = !table.was_set(&options.components);
  if (options.kind == pca::Kind::span && options.fewer_allowed) options.components = 0;
  if (options.ranks.check_options) {
    check_paths(options);
    return exit_success;
  }
  if (!run_on_ranks) return fit_snapshots(options, alone());
  return run_on_ranks(table, options.ranks, [&](auto& communicator) {
    return fit_snapshots(options, communicator);
  });
}

}  // namespace dimred::commands
